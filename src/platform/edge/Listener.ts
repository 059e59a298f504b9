/** The Node server and its limits per connection (decisions.md, Connections). */
import { NodeHttpServer } from "@effect/platform-node"
import { Context, Effect, Latch, Layer, type Scope } from "effect"
import { type IncomingMessage, type RequestListener, Server, type ServerResponse } from "node:http"
import { Server as NetServer, type Socket } from "node:net"
import { Settings } from "../settings/Settings.ts"
import { Workers } from "../workers/Workers.ts"
import { Addresses } from "./Addresses.ts"
import { Draining } from "./Draining.ts"

/** Requests of one connection that are not answered yet. Browsers and proxies send one at a time. */
const mostPending = 8
/** Headers of a request. Browsers and the proxies before them send some thirty, and HAProxy refuses more than 101. */
const mostHeaders = 100

/** The listener that answers a request instead of the router. */
type ListenerOf = (request: Pick<IncomingMessage, "method" | "url">) => RequestListener | undefined

export class Listeners extends Context.Service<
  Listeners,
  {
    readonly use: (listenerOf: ListenerOf) => Effect.Effect<void, never, Scope.Scope>
    readonly of: ListenerOf
  }
>()("service/edge/Listeners") {}

export interface ConnectionLimits {
  readonly connections: number
  /** The network among whose connections those of a peer count, a quarter of all at most; undefined: they do not count. */
  readonly networkOfPeer: (address: string) => string | undefined
  /** Milliseconds in which nothing of an answer could be sent, after which its connection is closed. */
  readonly stalled: number
  /** Whether another worker has this one's place, and clients move there by the answer to their next request. */
  readonly isRetiring: () => boolean
  /** Milliseconds in which the clients of a worker that is replaced send another request, or none. */
  readonly lingers: number
}

export class BoundedServer extends Server {
  readonly #pending = new WeakMap<Socket, number>()
  /** How many connections of each network are open. */
  readonly #open = new Map<string, number>()
  listenerOf: ListenerOf = () => undefined
  readonly #limits: ConnectionLimits
  #isLingering = false

  constructor(limits: ConnectionLimits) {
    // A request must arrive within 8 s, its headers within 5 s. The check runs every second: slow clients last 10 s at most.
    super({
      headersTimeout: 5_000,
      requestTimeout: 8_000,
      connectionsCheckingInterval: 1_000,
      keepAliveTimeout: 65_000,
      // Node would answer without `emit`, so without the limits there.
      requireHostHeader: false,
      // Node would keep the first of two `Authorization` headers, and a proxy in front may have read the last.
      joinDuplicateHeaders: true
    })
    const { connections, stalled } = limits
    // Node answers 431 while it reads more, and closes the connection. By default it reads a thousand.
    this.maxHeadersCount = mostHeaders
    // Node closes further connections at once, before they cost memory.
    this.maxConnections = connections
    // In a worker too, or the parent would offer the connection to others for ever. Node's types do not have it yet.
    Object.assign(this, { dropMaxConnection: true })
    this.#limits = limits
    // Node restarts this time whenever bytes arrive or are sent, and uses `keepAliveTimeout` between requests. A request
    // that is still arriving has the limits above, and its handler has its own.
    this.timeout = stalled
    this.on("timeout", (socket: Socket) => {
      const isIdle = socket.timeout !== stalled
      if (isIdle || socket.writableLength > 0) socket.destroy()
    })
  }

  /** Node parses all requests of a chunk at once, up to 64 KiB of them, and offers no other place to refuse some. */
  override emit(event: string, ...given: Array<any>): boolean {
    if (event === "connection" && !this.#admits(given[0] as Socket)) return false
    if (event === "checkExpectation") return this.emit("request", ...given)
    if (event !== "request" && event !== "checkContinue") return super.emit(event, ...given)
    const [request, response] = given as [IncomingMessage, ServerResponse<IncomingMessage> & { req: IncomingMessage }]
    if (!this.#accepts(request.socket, response)) return false
    if (!namesHost(request)) {
      response.writeHead(400, { connection: "close" }).end()
      return true
    }
    const listener = event === "request" ? this.listenerOf(request) : undefined
    if (listener === undefined) return super.emit(event, ...given)
    listener(request, response)
    return true
  }

  /** Says first that it stops, to requests that would otherwise keep it waiting. */
  override close(callback?: (error?: Error) => void): this {
    this.emit("closing")
    if (!this.#limits.isRetiring()) return super.close(callback)
    this.#isLingering = true
    setTimeout(() => {
      this.#isLingering = false
      this.closeIdleConnections()
    }, this.#limits.lingers)
    return NetServer.prototype.close.call(this, callback) as this
  }

  /**
   * Nothing here upgrades, and Node has no limits for a connection that was. So it ignores the header (RFC 9110 7.8). An
   * expectation other than 100-continue is ignored too (RFC 9110 10.1.1); Node would answer it without `emit`.
   */
  override listenerCount(event: string, listener?: Function): number {
    return event === "upgrade" ? 0 : event === "checkExpectation" ? 1 : super.listenerCount(event, listener)
  }

  /** Closes what is beyond the share of its network, before Node makes a parser for it. */
  #admits(socket: Socket) {
    const network = this.#limits.networkOfPeer(socket.remoteAddress ?? "")
    if (network === undefined) return true
    const open = this.#open.get(network) ?? 0
    if (open >= this.#limits.connections / 4) {
      socket.destroy()
      return false
    }
    this.#open.set(network, open + 1)
    socket.once("close", () => {
      const left = this.#open.get(network)! - 1
      if (left === 0) this.#open.delete(network)
      else this.#open.set(network, left)
    })
    return true
  }

  #accepts(socket: Socket, response: ServerResponse) {
    if (this.#pendingOf(socket) >= mostPending) {
      socket.destroy()
      return false
    }
    this.#pending.set(socket, this.#pendingOf(socket) + 1)
    if (this.#isLingering) response.shouldKeepAlive = false
    response.once("close", () => {
      this.#pending.set(socket, this.#pendingOf(socket) - 1)
      // A connection that becomes idle during shutdown would delay it for the rest of its keep-alive.
      if (!this.listening && !this.#isLingering) setImmediate(() => this.closeIdleConnections())
    })
    return true
  }

  #pendingOf(socket: Socket) {
    return this.#pending.get(socket) ?? 0
  }
}

/** Whether the request has one `Host`; HTTP/1.0 needs none (RFC 9112 3.2). Several are joined by commas. */
const namesHost = ({ headers: { host }, httpVersion }: IncomingMessage) =>
  host === undefined ? httpVersion !== "1.1" : !host.includes(",")

export const listener = Layer.unwrap(
  Effect.gen(function* () {
    const { http } = yield* Settings
    const { isRetiring } = yield* Workers
    const { networkOfPeer } = yield* Addresses
    const limits = { connections: http.connections, networkOfPeer, stalled: 10_000, isRetiring, lingers: 3_000 }
    const server = new BoundedServer(limits)
    const closing = Latch.makeUnsafe()
    server.once("closing", () => closing.openUnsafe())
    // Whoever has not read an answer by the end of the graceful shutdown would otherwise delay the exit.
    const closeAll = Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections()))
    const use = (listenerOf: ListenerOf) =>
      Effect.acquireRelease(
        Effect.sync(() => void (server.listenerOf = listenerOf)),
        () => Effect.sync(() => void (server.listenerOf = () => undefined))
      )
    return Layer.effectDiscard(closeAll).pipe(
      Layer.merge(Layer.succeed(Draining, { began: closing.await })),
      Layer.merge(Layer.succeed(Listeners, { use, of: (request) => server.listenerOf(request) })),
      Layer.provideMerge(
        NodeHttpServer.layer(() => server, {
          host: http.host,
          port: http.port,
          gracefulShutdownTimeout: "10 seconds"
        })
      )
    )
  })
)
