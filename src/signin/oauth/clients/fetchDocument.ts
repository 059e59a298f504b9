/**
 * Fetches a client's metadata document without exposing the server's own network to request forgery
 * (draft-ietf-oauth-client-id-metadata-document, "Server Side Request Forgery").
 *
 * The host name is resolved once, all its addresses must be public, and the connection goes to an address that was
 * checked, so a later DNS answer cannot redirect it. Redirects are not followed; the limits are 5 KB and 3 s.
 */
import { Context, Data, Effect, Option } from "effect"
import { lookup } from "node:dns/promises"
import { request } from "node:https"
import { isIP } from "node:net"
import { isPublic } from "../../../platform/network/PublicAddress.ts"

/** The document is unavailable or unusable. The reason is for the log only, never for a page. */
export class DocumentUnavailable extends Data.TaggedError("DocumentUnavailable")<{
  readonly reason: string
  /** Fetching it again later may work. */
  readonly transient: boolean
  /** The host's own word: it says that there is no document, or has sent one that is not acceptable. */
  readonly isFinal?: boolean
  /** The host answered. */
  readonly isAnswer?: boolean
}> {}

/** The network that the fetcher uses; tests provide their own resolver and server. */
export class DocumentNetwork extends Context.Reference<{
  readonly resolve: (host: string) => Promise<ReadonlyArray<string>>
  readonly isAllowed: (address: string) => boolean
  readonly port: number
  readonly ca: string | undefined
}>("service/oauth/DocumentNetwork", {
  defaultValue: () => ({
    resolve: async (host) => (await lookup(host, { all: true })).map(({ address }) => address),
    isAllowed: isPublic,
    port: 443,
    ca: undefined
  })
}) {}

export interface Fetched {
  readonly document: unknown
  /** Seconds, from Cache-Control; none without one. */
  readonly max_age: Option.Option<number>
}

const maxBytes = 5 * 1024
const timeout = "3 seconds"

const unavailable = (reason: string, transient = false) => new DocumentUnavailable({ reason, transient })
/** An answer without a document, such as a page that wants to see a browser. */
const noDocument = (reason: string, transient = false) => new DocumentUnavailable({ reason, transient, isAnswer: true })
/** A document that is not acceptable, or that its host has withdrawn. */
export const unacceptable = (reason: string): DocumentUnavailable =>
  new DocumentUnavailable({ reason, transient: false, isFinal: true, isAnswer: true })

/** `url` must satisfy `isDocumentUrl`. */
export const fetchDocument = Effect.fn("fetchDocument")(
  function* (url: URL) {
    const network = yield* DocumentNetwork
    const addresses = yield* Effect.tryPromise({
      try: () => network.resolve(url.hostname),
      catch: () => unavailable("name not resolved", true)
    })
    const [pinned] = addresses
    if (pinned === undefined || !addresses.every(network.isAllowed)) return yield* unavailable("address not public")
    return yield* get(url, pinned, network.port, network.ca)
  },
  Effect.timeoutOrElse({ duration: timeout, orElse: () => Effect.fail(unavailable("took too long", true)) })
)

const get = (url: URL, address: string, port: number, ca: string | undefined) =>
  Effect.callback<Fetched, DocumentUnavailable>((resume, signal) => {
    const sent = request(
      {
        host: url.hostname,
        servername: url.hostname,
        port,
        path: `${url.pathname}${url.search}`,
        headers: { accept: "application/json", "user-agent": "bridge-service" },
        agent: false,
        signal,
        lookup: (_host, options, found) =>
          options.all === true
            ? found(null, [{ address, family: isIP(address) }])
            : found(null, address, isIP(address)),
        ...(ca !== undefined && { ca })
      },
      (response) => {
        const end = (outcome: Effect.Effect<Fetched, DocumentUnavailable>) => {
          response.destroy()
          resume(outcome)
        }
        const { headers, statusCode } = response
        if (statusCode === 404 || statusCode === 410) return end(Effect.fail(unacceptable(`status ${statusCode}`)))
        if (statusCode !== 200) return end(Effect.fail(noDocument(`status ${statusCode}`, (statusCode ?? 0) >= 500)))
        if (!/^application\/(json|[a-z0-9.-]+\+json)(;|$)/i.test(headers["content-type"] ?? "")) {
          return end(Effect.fail(noDocument("not JSON")))
        }
        const chunks: Array<Buffer> = []
        let bytes = 0
        response.on("data", (chunk: Buffer) => {
          bytes += chunk.length
          if (bytes > maxBytes) return end(Effect.fail(unacceptable("too large")))
          chunks.push(chunk)
        })
        response.on("end", () => {
          const document = parse(Buffer.concat(chunks).toString("utf8"))
          end(Effect.map(document, (value) => ({ document: value, max_age: maxAge(headers["cache-control"]) })))
        })
        response.on("error", () => end(Effect.fail(unavailable("connection lost", true))))
      }
    )
    sent.on("error", () => resume(Effect.fail(unavailable("not reachable", true))))
    sent.end()
  })

const parse = (text: string): Effect.Effect<unknown, DocumentUnavailable> =>
  Effect.try({ try: (): unknown => JSON.parse(text), catch: () => unacceptable("not JSON") })

const maxAge = (cacheControl: string | undefined) => {
  if (/\bno-(store|cache)\b/i.test(cacheControl ?? "")) return Option.some(0)
  return Option.map(Option.fromNullishOr(/\bmax-age=(\d{1,9})\b/i.exec(cacheControl ?? "")?.[1]), Number)
}

/**
 * Whether a client id is the URL of a metadata document: https with a path, in normalized form, with a dotted host name
 * instead of an address, and without fragment, user, port or dot segment.
 */
export const isDocumentUrl = (client_id: string): boolean => {
  if (client_id.length > 500 || !/^https:\/\/[a-z0-9.-]+\/[\x21-\x7e]+$/.test(client_id)) return false
  if (!URL.canParse(client_id) || /[#\\]/.test(client_id)) return false
  const url = new URL(client_id)
  return url.href === client_id && /\.[a-z][a-z0-9-]*$/.test(url.hostname)
}
