/** Which receivers a post goes to, and one that answers with another protocol: it fails, and its connection ends. */
import { assert, it } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { once } from "node:events"
import { createServer, type AddressInfo, type Socket } from "node:net"
import { makePost, PostNetwork } from "../../src/platform/network/GuardedPost.ts"

/** Sends `answer` on each connection and keeps it open. */
const receiver = (answer: string) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const sockets: Array<Socket> = []
      const server = createServer((socket) => {
        sockets.push(socket)
        socket.on("error", () => {})
        socket.once("data", () => socket.write(answer))
      })
      await once(server.listen(0, "127.0.0.1"), "listening")
      return { server, sockets, url: new URL(`http://hooks.example:${(server.address() as AddressInfo).port}/`) }
    }),
    ({ server, sockets }) =>
      Effect.sync(() => {
        for (const socket of sockets) socket.destroy()
        server.close()
      })
  )

const network = { resolve: async () => ["127.0.0.1"], ca: undefined, deadline: Duration.hours(1) }

for (const [answer, head] of Object.entries({
  "101 and a protocol": "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
  "101 alone": "HTTP/1.1 101 Switching Protocols\r\n\r\n",
  "101 and the bytes of another protocol":
    "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"
})) {
  it.live(`a post answered with ${answer} fails at once and frees its connection`, () =>
    Effect.gen(function* () {
      const { sockets, url } = yield* receiver(head)
      const post = yield* Effect.provideService(
        makePost(() => true),
        PostNetwork,
        network
      )
      // One more than a host has connections: the last one waits until another is free.
      const answers = yield* Effect.forEach(Array.from({ length: 11 }), () => post(url, {}, Buffer.from("{}")), {
        concurrency: "unbounded"
      })
      for (const { status } of answers) assert.notStrictEqual(status, 200)
      assert.lengthOf(sockets, 11)
      for (const socket of sockets) if (!socket.closed) yield* Effect.promise(() => once(socket, "close"))
    })
  )
}

it.live("a post goes to no name that leads to an address which is not public, and to no address without a name", () =>
  Effect.gen(function* () {
    const { sockets, url } = yield* receiver("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
    const posted = (addresses: ReadonlyArray<string>, to = url) =>
      Effect.provideService(
        makePost(() => false),
        PostNetwork,
        { ...network, resolve: async () => addresses }
      ).pipe(Effect.flatMap((post) => post(to, {}, Buffer.from("{}"))))
    for (const addresses of [["127.0.0.1"], ["127.0.0.1", "93.184.216.34"], []])
      assert.isUndefined((yield* posted(addresses)).status)
    assert.isUndefined((yield* posted([], new URL(`http://127.0.0.1:${url.port}/`))).status)
    assert.isEmpty(sockets)
  })
)
