/** What one connection may cost (decisions.md, Connections). */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Exit, Fiber, Layer, Scope } from "effect"
import { HttpServer } from "effect/http"
import { TestClock } from "effect/testing"
import { once } from "node:events"
import type { IncomingMessage, ServerResponse } from "node:http"
import { type AddressInfo, connect, Server as NetServer, type Socket } from "node:net"
import { vi } from "vitest"
import { Addresses, networkOf } from "../../../src/platform/edge/Addresses.ts"
import { BoundedServer, type ConnectionLimits, listener } from "../../../src/platform/edge/Listener.ts"
import { Settings } from "../../../src/platform/settings/Settings.ts"
import { Workers } from "../../../src/platform/workers/Workers.ts"

/** Milliseconds. */
const stalled = 1000
/** Larger than what the kernel buffers for both ends. */
const large = Buffer.alloc(32 * 2 ** 20, "x")

type Answers = (request: IncomingMessage, response: ServerResponse) => void

/** A listening server, and how to connect to it. */
const serving = (answers: Answers, limits: Partial<ConnectionLimits> = {}) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const usual = { connections: 100, networkOfPeer: networkOf, stalled, isRetiring: () => false, lingers: 0 }
      const server = new BoundedServer({ ...usual, ...limits }).on("request", answers)
      // The library listens to these, too.
      server
        .on("checkContinue", answers)
        .on("upgrade", () => {})
        .listen(0)
      await once(server, "listening")
      return server
    }),
    (server) => Effect.promise(() => new Promise((done) => void (server.close(done), server.closeAllConnections())))
  ).pipe(
    Effect.map((server) => ({
      server,
      open: (text: string, localAddress = "127.0.0.1") => {
        const { port } = server.address() as AddressInfo
        const socket = connect({ port, host: "127.0.0.1", localAddress }).on("error", () => {})
        socket.write(text)
        return socket
      }
    }))
  )

const get = (more = "") => `GET / HTTP/1.1\r\nHost: x\r\n${more}\r\n`

/** Whether the connection is closed within so many milliseconds. */
const closesWithin = (socket: Socket, millis: number) =>
  Effect.promise(
    () =>
      new Promise<boolean>((resume) => {
        socket.once("close", () => resume(true))
        setTimeout(resume, millis, false)
      })
  )

const pause = (millis: number) => Effect.promise(() => new Promise((resume) => setTimeout(resume, millis)))

// Each waits for seconds, and all of them wait together.
describe.concurrent("a connection", () => {
  for (const [name, header] of [
    ["", ""],
    [" to a request to upgrade", "Connection: upgrade\r\nUpgrade: x\r\n"],
    [" to a request that expects 100", "Expect: 100-continue\r\n"]
  ]) {
    it.effect(`whose client does not read the answer${name} is closed`, () =>
      Effect.gen(function* () {
        const { open, server } = yield* serving((_, response) => response.end(large))
        const accepted = once(server, "connection")
        open(get(header)).pause()
        const [socket] = (yield* Effect.promise(() => accepted)) as [Socket]
        assert.isTrue(yield* closesWithin(socket, 10 * stalled))
      }).pipe(Effect.scoped)
    )
  }

  it.effect("whose client reads slowly gets the whole answer", () =>
    Effect.gen(function* () {
      const patience = 2.5 * stalled
      const { open } = yield* serving((_, response) => response.end(large), { stalled: patience })
      const socket = open(get("Connection: close\r\n"))
      const since = performance.now()
      let [bytes, sinceRest] = [0, 0]
      socket.on("data", (chunk) => {
        bytes += chunk.length
        sinceRest += chunk.length
        // So much that the kernel takes more of the answer, and a rest that leaves a busy machine time to send it.
        if (sinceRest < large.length / 8) return
        sinceRest = 0
        socket.pause()
        setTimeout(() => socket.resume(), patience / 5)
      })
      yield* Effect.promise(() => once(socket, "close"))
      assert.isAbove(bytes, large.length)
      assert.isAbove(performance.now() - since, patience)
    }).pipe(Effect.scoped)
  )

  it.effect("waits for an answer that takes long to make, and is kept for the next request", () =>
    Effect.gen(function* () {
      let asked = 0
      const { open } = yield* serving((_, response) => {
        asked++
        setTimeout(() => response.end(`made ${asked}`), asked === 1 ? 3 * stalled : 0)
      })
      const socket = open(get())
      const answer = () => Effect.promise(() => once(socket, "data").then(String))
      assert.match(yield* answer(), /made 1/)
      yield* pause(2 * stalled)
      socket.write(get())
      assert.match(yield* answer(), /made 2/)
    }).pipe(Effect.scoped)
  )

  it.effect("with more than eight requests in work is closed, and the work of all of them ends", () =>
    Effect.gen(function* () {
      for (const more of ["", "Expect: 100-continue\r\n", "Expect: what nobody knows\r\n"]) {
        const begun: Array<ServerResponse> = []
        const ended: Array<ServerResponse> = []
        const { open } = yield* serving((_, response) => {
          begun.push(response)
          response.on("close", () => ended.push(response))
        })
        const socket = open(get(more).repeat(5000))
        assert.isTrue(yield* closesWithin(socket, 10 * stalled))
        assert.strictEqual(begun.length, 8)
        yield* pause(100)
        assert.sameMembers(
          ended.map((one) => begun.indexOf(one)),
          [0, 1, 2, 3, 4, 5, 6, 7]
        )
      }
    }).pipe(Effect.scoped)
  )

  for (const [count, hosts] of [
    ["without Host", ""],
    ["with two", "Host: x\r\nHost: y\r\n"]
  ] as const)
    it.effect(`gets 400 to a request ${count}, and is closed`, () =>
      Effect.gen(function* () {
        let asked = 0
        const { open } = yield* serving((_, response) => {
          asked++
          response.end()
        })
        const socket = open(`GET / HTTP/1.1\r\n${hosts}\r\n`.repeat(3000))
        let text = ""
        socket.on("data", (chunk) => (text += chunk))
        assert.isTrue(yield* closesWithin(socket, 10 * stalled))
        assert.isAtMost(text.split("HTTP/1.1 400 Bad Request").length - 1, 1)
        assert.strictEqual(asked, 0)
        const older = open("GET / HTTP/1.0\r\n\r\n")
        assert.match(String((yield* Effect.promise(() => once(older, "data")))[0]), /^HTTP\/1.1 200 /)
      }).pipe(Effect.scoped)
    )

  it.effect("may send a hundred headers with a request; with one more it gets 431, and is closed", () =>
    Effect.gen(function* () {
      let asked = 0
      const { open } = yield* serving((_, response) => {
        asked++
        response.end()
      })
      const withHeaders = (count: number) => get("X: y\r\n".repeat(count - 1))
      const served = open(withHeaders(100))
      assert.match(String((yield* Effect.promise(() => once(served, "data")))[0]), /^HTTP\/1.1 200 /)
      const refused = open(withHeaders(101))
      let text = ""
      refused.on("data", (chunk) => (text += chunk))
      assert.isTrue(yield* closesWithin(refused, 10 * stalled))
      assert.match(text, /^HTTP\/1.1 431 /)
      assert.strictEqual(asked, 1)
    }).pipe(Effect.scoped)
  )

  it.effect("may send eight requests at once, any number one after the other, and get answers in order", () =>
    Effect.gen(function* () {
      let count = 0
      const { open } = yield* serving((_, response) => {
        const mine = count++
        setTimeout(() => response.end(`<${mine}>`), 8 - (mine % 8))
      })
      const socket = open("")
      let text = ""
      for (let round = 1; round <= 3; round++) {
        socket.write(get().repeat(8))
        while (!text.includes(`<${round * 8 - 1}>`)) {
          text += String((yield* Effect.promise(() => once(socket, "data")))[0])
        }
      }
      assert.deepStrictEqual(
        [...text.matchAll(/<(\d+)>/g)].map(([, n]) => Number(n)),
        Array.from({ length: 24 }, (_, n) => n)
      )
    }).pipe(Effect.scoped)
  )
})

describe("a server", () => {
  it.effect(
    "keeps an idle connection for longer than a proxy does, and waits less than ten seconds for a request",
    () =>
      Effect.gen(function* () {
        const { server } = yield* serving(() => {})
        assert.isAbove(server.keepAliveTimeout, 60_000)
        assert.isAtMost(server.requestTimeout, 9_000)
      }).pipe(Effect.scoped)
  )

  it.effect("closes at once what a network opens beyond a quarter of its connections, until one of these ends", () =>
    Effect.gen(function* () {
      const { open } = yield* serving((_, response) => response.end("made"), { connections: 8 })
      const asked = (from: string) =>
        Effect.promise(
          () =>
            new Promise<Socket | undefined>((resume) => {
              const socket = open(get(), from)
              socket.once("data", () => resume(socket)).once("close", () => resume(undefined))
            })
        )
      const [one, two, three] = yield* Effect.replicateEffect(asked("127.0.0.1"), 3)
      assert.deepStrictEqual([one?.closed, two?.closed, three?.closed], [false, false, undefined])
      assert.isDefined(yield* asked("127.0.0.2"))
      one!.destroy()
      yield* Effect.repeat(asked("127.0.0.1"), { until: (socket) => socket !== undefined })
    }).pipe(Effect.scoped)
  )

  it.effect.each([
    ["203.0.113.7", "203.0.113.7"],
    ["::ffff:203.0.113.7", "203.0.113.7"],
    ["2001:db8::7", "2001:db8:0:0::/64"],
    ["10.1.2.3", undefined],
    ["127.0.0.2", undefined],
    ["::ffff:127.0.0.1", undefined],
    ["::1", undefined]
  ] as const)("counts a connection from %s for %s, beside a proxy at 10.0.0.0/8", ([peer, network]) =>
    Effect.gen(function* () {
      const { networkOfPeer } = yield* Addresses
      assert.strictEqual(networkOfPeer(peer), network)
    }).pipe(
      Effect.provide(Addresses.layer),
      Effect.provideService(Settings, { http: { trustedProxies: ["10.0.0.0/8"] } as object } as Settings["Service"])
    )
  )

  it.effect(
    "that another one replaces sends each client away with its next answer, and closes the others in the end",
    () =>
      Effect.gen(function* () {
        const retiring = { isRetiring: () => true, lingers: 1000 }
        const { open, server } = yield* serving((_, response) => response.end("made"), retiring)
        const answerOf = (socket: Socket) =>
          Effect.map(
            Effect.promise(() => once(socket, "data")),
            ([answer]) => String(answer)
          )
        const [one, other] = [open(get()), open(get())]
        for (const socket of [one, other]) assert.notMatch(yield* answerOf(socket), /connection: close/i)
        const ends = [one, other, server].map((each) => once(each, "close"))
        server.close()
        one.write(get())
        assert.match(yield* answerOf(one), /connection: close/i)
        yield* Effect.promise(() => ends[0]!)
        yield* pause(100)
        assert.isFalse(other.closed)
        yield* Effect.promise(() => Promise.all(ends))
      }).pipe(Effect.scoped)
  )

  it.effect("that stops closes what is idle at once, and the others once they are answered", () =>
    Effect.gen(function* () {
      const begun: Array<ServerResponse> = []
      const { open, server } = yield* serving((_, response) => begun.push(response))
      const sockets = [open(get()), open(get())]
      while (begun.length < 2) yield* pause(5)
      for (const socket of sockets) socket.resume()
      const ends = [...sockets, server].map((each) => once(each, "close"))
      server.close()
      for (const response of begun) response.end("made")
      yield* Effect.promise(() => Promise.all(ends))
    }).pipe(Effect.scoped)
  )

  it.effect("of the service waits ten seconds for a client or a request, and three for clients to move", () =>
    Effect.gen(function* () {
      const listens = vi.spyOn(NetServer.prototype, "listen")
      const timers = vi.spyOn(globalThis, "setTimeout")
      yield* Effect.addFinalizer(() => Effect.sync(() => [listens, timers].forEach((spy) => spy.mockRestore())))
      const scope = yield* Scope.make()
      const http = { host: "127.0.0.1", port: 0, connections: 7, trustedProxies: [] as Array<string> }
      const services = yield* Layer.build(Layer.fresh(Layer.provide(listener, Addresses.layer))).pipe(
        Effect.provideService(Settings, { http } as Settings["Service"]),
        Effect.provideService(Workers, { isRetiring: () => true } as Workers["Service"]),
        Scope.provide(scope)
      )
      const server = listens.mock.contexts[0] as BoundedServer
      assert.deepStrictEqual([server.timeout, server.maxConnections], [10_000, 7])
      yield* Context.get(services, HttpServer.HttpServer)
        .serve(Effect.interruptible(Effect.never))
        .pipe(Scope.provide(scope))
      const asked = once(server, "request")
      const socket = connect((server.address() as AddressInfo).port, "127.0.0.1").on("error", () => {})
      socket.resume().write(get())
      yield* Effect.promise(() => asked)
      const closed = once(socket, "close")
      const stopping = yield* Effect.forkChild(Scope.close(scope, Exit.void))
      yield* TestClock.adjust("9999 millis")
      yield* pause(20)
      assert.isFalse(socket.closed)
      yield* TestClock.adjust("1 millis")
      yield* Effect.promise(() => closed)
      yield* Fiber.join(stopping)
      assert.include(
        timers.mock.calls.map(([, millis]) => millis),
        3000
      )
    })
  )
})
