/**
 * One HTTP/2 session to APNs, replaced whenever it is lost.
 *
 * A session that sent GOAWAY or did not answer a ping is never used again: it would refuse every request. The first
 * request of a session goes alone, because APNs allows a single stream until it has seen a valid provider token.
 */
import { Duration, Effect, Option, Semaphore } from "effect"
import * as http2 from "node:http2"
import type { ApnsResponse } from "./ApnsOutcome.ts"

export interface SessionOptions {
  readonly origin: string
  /** PEM of the certificate authorities to trust; undefined: the system's. */
  readonly ca: string | undefined
  readonly deadline: Duration.Duration
  readonly concurrency: number
  /** A session that was idle for this long is pinged before it is used again, for half of the deadline. */
  readonly idle: Duration.Duration
}

interface Session {
  readonly http2: http2.ClientHttp2Session
  readonly streams: Semaphore.Semaphore
  warm: boolean
  connected: boolean
  lastUsed: number
}

export type Request = (headers: http2.OutgoingHttpHeaders, body: string) => Effect.Effect<ApnsResponse>

export const makeSession = Effect.fnUntraced(function* (options: SessionOptions) {
  let current: Session | undefined
  /** Monotonic and local: sockets do not follow the service's clock. */
  const elapsed = () => performance.now()

  const open = Effect.gen(function* () {
    const connection = http2.connect(options.origin, options.ca === undefined ? {} : { ca: options.ca })
    const session: Session = {
      http2: connection,
      streams: yield* Semaphore.make(1),
      warm: false,
      connected: false,
      lastUsed: elapsed()
    }
    const drop = () => {
      if (current === session) current = undefined
      // Streams in flight may still get an answer.
      if (!connection.destroyed) connection.close()
    }
    connection.on("connect", () => {
      session.connected = true
    })
    for (const event of ["close", "error", "frameError", "goaway"]) connection.on(event, drop)
    connection.unref()
    return session
  })

  const isOpen = (session: Session | undefined): session is Session =>
    session !== undefined && !session.http2.closed && !session.http2.destroyed

  const usable = Effect.gen(function* () {
    const known = current
    const isIdle = isOpen(known) && elapsed() - known.lastUsed >= Duration.toMillis(options.idle)
    if (isIdle && !(yield* ping(known.http2, options.deadline))) known.http2.destroy()
    // Of several requests that found it lost, the first one opens the next session.
    return isOpen(current) ? current : (current = yield* open)
  })

  const request: Request = Effect.fnUntraced(function* (headers, body) {
    const session = yield* usable
    const response = yield* exchange(session, headers, body, options.deadline).pipe(session.streams.withPermits(1))
    session.lastUsed = elapsed()
    if (response.status !== undefined && !session.warm) {
      session.warm = true
      const allowed = session.http2.remoteSettings?.maxConcurrentStreams ?? options.concurrency
      yield* session.streams.resize(Math.max(1, Math.min(allowed, options.concurrency)))
    }
    return response
  })

  yield* Effect.addFinalizer(() => Effect.sync(() => current?.http2.destroy()))
  return request
})

const ping = (session: http2.ClientHttp2Session, deadline: Duration.Duration) =>
  Effect.callback<boolean>((resume) => {
    const timer = setTimeout(() => resume(Effect.succeed(false)), Duration.toMillis(deadline) / 2)
    const sent = session.ping((error) => {
      clearTimeout(timer)
      resume(Effect.succeed(error === null))
    })
    if (!sent) resume(Effect.succeed(false))
    return Effect.sync(() => clearTimeout(timer))
  })

const exchange = (session: Session, headers: http2.OutgoingHttpHeaders, body: string, deadline: Duration.Duration) =>
  Effect.callback<ApnsResponse>((resume) => {
    if (session.http2.closed || session.http2.destroyed) return resume(Effect.succeed(lost("refused_stream")))
    const stream = session.http2.request(headers)
    let status: number | undefined
    let retryAfter: string | undefined
    let text = ""
    let timedOut = false
    const timer = setTimeout(() => {
      timedOut = true
      stream.close(http2.constants.NGHTTP2_CANCEL)
      // A connection that was never established is not used again.
      if (!session.connected) session.http2.destroy()
    }, Duration.toMillis(deadline))
    stream.setEncoding("utf8")
    stream.on("response", (received) => {
      status = received[":status"]
      retryAfter = received["retry-after"] as string | undefined
    })
    stream.on("data", (chunk: string) => {
      if (text.length < 4096) text += chunk
    })
    stream.on("error", () => {})
    stream.on("close", () => {
      clearTimeout(timer)
      const refused = stream.rstCode === http2.constants.NGHTTP2_REFUSED_STREAM
      if (status !== undefined && !timedOut) resume(Effect.succeed(read(status, text, retryAfter)))
      else if (!session.connected) resume(Effect.succeed(lost("unreachable")))
      else if (timedOut) resume(Effect.succeed(lost("timeout")))
      else resume(Effect.succeed(lost(refused ? "refused_stream" : "connection_lost")))
    })
    stream.end(body)
    return Effect.sync(() => {
      clearTimeout(timer)
      stream.close(http2.constants.NGHTTP2_CANCEL)
    })
  })

const lost = (reason: string): ApnsResponse => ({ status: undefined, reason })

/** `timestamp` is in milliseconds; values too small for that are read as seconds. */
const read = (status: number, text: string, retryAfter: string | undefined): ApnsResponse => {
  const { reason, timestamp } = Option.getOrElse(
    Option.liftThrowable(() => JSON.parse(text) as { readonly reason?: unknown; readonly timestamp?: unknown })(),
    () => ({ reason: undefined, timestamp: undefined })
  )
  const seconds = /^\d{1,6}$/.test(retryAfter ?? "") ? Number(retryAfter) : undefined
  return {
    status,
    // Apple's reasons are single words. Any other text could be anything, and this goes into rows and log lines.
    reason: typeof reason === "string" && /^[A-Za-z]{1,64}$/.test(reason) ? reason : undefined,
    goneSince: typeof timestamp === "number" ? new Date(timestamp > 1e12 ? timestamp : timestamp * 1000) : undefined,
    retryAfter: seconds === undefined ? undefined : Duration.seconds(seconds)
  }
}
