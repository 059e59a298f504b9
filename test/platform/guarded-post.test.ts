/** Which receivers a post goes to, and one that answers with another protocol: it fails, and its connection ends. */
import { assert, it } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { once } from "node:events"
import { createServer, type AddressInfo, type Socket } from "node:net"
import { setTimeout } from "node:timers/promises"
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
      assert.notStrictEqual((yield* post(url, {}, Buffer.from("{}"))).status, 200)
      const [socket] = sockets
      if (!socket!.closed) yield* Effect.promise(() => once(socket!, "close"))
    })
  )
}

it.live("posts to a host at the same time look up its name once", () =>
  Effect.gen(function* () {
    const { url } = yield* receiver("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
    const looked: Array<string> = []
    const resolve = async (host: string) => {
      looked.push(host)
      return setTimeout(50, ["127.0.0.1"])
    }
    const post = yield* Effect.provideService(
      makePost(() => true),
      PostNetwork,
      { ...network, resolve }
    )
    for (let times = 1; times <= 2; times++) {
      yield* Effect.replicateEffect(post(url, {}, Buffer.from("{}")), 5, { concurrency: "unbounded" })
      assert.lengthOf(looked, times)
    }
  })
)

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
