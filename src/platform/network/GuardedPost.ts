/**
 * POST to a host that somebody else named, without exposing the networks of this service to request forgery.
 *
 * Every address of the name must be public, unless the operator named the host. The connection goes to an address that was
 * checked, so that a later DNS answer cannot redirect it. Redirects are not followed, and the body of an answer is not kept.
 */
import { Context, Duration, Effect } from "effect"
import { lookup } from "node:dns/promises"
import { Agent as PlainAgent, request as plainRequest } from "node:http"
import { Agent, request } from "node:https"
import { isIP, type LookupFunction } from "node:net"
import { isPublic } from "./PublicAddress.ts"

export interface PostAnswer {
  /** Undefined: no answer came. */
  readonly status: number | undefined
  /** Seconds, from Retry-After; a date is not read. */
  readonly retryAfter: Duration.Duration | undefined
}

/** The network that posts use; tests provide their own resolver and server. */
export class PostNetwork extends Context.Reference<{
  readonly resolve: (host: string) => Promise<ReadonlyArray<string>>
  /** PEM of the certificate authorities to trust; undefined: the system's. */
  readonly ca: string | undefined
  readonly deadline: Duration.Duration
}>("service/platform/PostNetwork", {
  defaultValue: () => ({
    resolve: async (host) => (await lookup(host, { all: true })).map(({ address }) => address),
    ca: undefined,
    deadline: Duration.seconds(10)
  })
}) {}

/** `mayBePrivate`: whether the operator named the host; else the URL names no address. Never fails. */
export const makePost = Effect.fnUntraced(function* (mayBePrivate: (host: string) => boolean) {
  const { ca, deadline, resolve } = yield* PostNetwork
  const find = async (host: string) => {
    const addresses = await resolve(host)
    const isAllowed = addresses.length > 0 && (mayBePrivate(host) || addresses.every(isPublic))
    if (!isAllowed) throw new Error("The name does not lead to public addresses only.")
    return addresses.map((address) => ({ address, family: isIP(address) }))
  }
  const lookups = new Map<string, ReturnType<typeof find>>()
  /**
   * Posts at the same time share a lookup: Node runs few at once, and those of one host whose name server does not answer
   * would hold up all others.
   */
  const findOnce = (host: string) => {
    const underWay = lookups.get(host)
    if (underWay !== undefined) return underWay
    const started = find(host).finally(() => lookups.delete(host))
    lookups.set(host, started)
    return started
  }
  const guarded: LookupFunction = (host, options, found) => {
    findOnce(host).then(
      (all) => (options.all === true ? found(null, all) : found(null, all[0]!.address, all[0]!.family)),
      (error: Error) => found(error, "", 0)
    )
  }
  // Callers bound how many posts there are (Worker.ts). A bound for each host would let a post wait behind those of other
  // projects that get no answer, until its own deadline.
  const options = { keepAlive: true, maxFreeSockets: 2, timeout: 60_000, lookup: guarded }
  const agent = new Agent({ ...options, ...(ca !== undefined && { ca }) })
  const plainAgent = new PlainAgent(options)
  yield* Effect.addFinalizer(() =>
    Effect.sync(() => {
      agent.destroy()
      plainAgent.destroy()
    })
  )

  return (url: URL, headers: Readonly<Record<string, string>>, body: Uint8Array): Effect.Effect<PostAnswer> =>
    isIP(url.hostname.replaceAll(/[[\]]/g, "")) !== 0 && !mayBePrivate(url.hostname)
      ? Effect.succeed(noAnswer)
      : Effect.callback<PostAnswer>((resume, signal) => {
          const [post, through] = url.protocol === "https:" ? [request, agent] : [plainRequest, plainAgent]
          const sent = post(
            url,
            { method: "POST", agent: through, signal, headers: { ...headers, "content-length": String(body.length) } },
            (response) => {
              const { headers, statusCode } = response
              const seconds = /^\d{1,6}$/.test(headers["retry-after"] ?? "")
                ? Number(headers["retry-after"])
                : undefined
              resume(
                Effect.succeed({
                  status: statusCode,
                  retryAfter: seconds === undefined ? undefined : Duration.seconds(seconds)
                })
              )
              // After a 101 without that header the connection carries no body that ends.
              if (statusCode === 101) return void sent.destroy()
              // A short body is read, so that the connection can be used again; a long one costs the connection.
              let bytes = 0
              response.on("data", (chunk: Buffer) => {
                bytes += chunk.length
                if (bytes > largestBody) response.destroy()
              })
              response.on("error", () => {})
            }
          )
          sent.on("error", () => resume(Effect.succeed(noAnswer)))
          // A 101 with an Upgrade header: node hands the connection over and emits nothing else.
          sent.on("upgrade", ({ statusCode }, socket) => {
            socket.destroy()
            sent.destroy()
            resume(Effect.succeed({ status: statusCode, retryAfter: undefined }))
          })
          // For the whole exchange: a body that trickles in ends with it.
          const timer = setTimeout(() => sent.destroy(new Error("deadline")), Duration.toMillis(deadline))
          sent.on("close", () => clearTimeout(timer))
          sent.end(body)
        })
})

const noAnswer: PostAnswer = { status: undefined, retryAfter: undefined }
const largestBody = 16 * 1024
