/**
 * Clients whose id is the URL of their metadata document (Client ID Metadata Documents).
 * Limits: decisions.md, Metadata documents of clients.
 *
 * For well-known clients a copy ships with the release (ShippedDocuments.ts). It counts only while fetching fails: what the
 * host sends or says takes precedence.
 *
 * Documents are fetched only from hosts that the operator listed. They are cached for as long as Cache-Control says, at
 * least a minute and at most a day, a copy for a minute; failures are not cached. Fetches are limited per minute, per host and in total, and
 * concurrent requests for one client share a fetch. Clients that somebody has allowed before are counted apart: anybody can
 * name addresses that nobody knows, and use up the limit of those.
 */
import { Cache, Clock, Context, Duration, Effect, Exit, Layer, Option, Result, Semaphore } from "effect"
import { logFault } from "../../../platform/database/FaultLog.ts"
import { partOf, Settings } from "../../../platform/settings/Settings.ts"
import { readMetadata } from "./ClientMetadata.ts"
import { DocumentNetwork, DocumentUnavailable, fetchDocument, isDocumentUrl, unacceptable } from "./fetchDocument.ts"
import type { ClientMetadata } from "./Shapes.ts"
import { shippedDocument } from "./ShippedDocuments.ts"

/** Fetches per minute. An unauthenticated request can cause a fetch, so this bounds the traffic to other servers. */
const fetchesPerMinute = { host: 30, total: 120 }
const concurrentFetches = 16
const cacheCapacity = 500
/** Then the host is asked again. */
const copyLasts = Duration.minutes(1)

/** `is_copy`: the client's host could not be asked; this is the copy of the release. */
export interface DocumentMetadata extends ClientMetadata {
  readonly is_copy: boolean
}

interface Asked {
  readonly client_id: string
  /** A person has allowed this client before. */
  readonly isKnown: boolean
}

interface CachedDocument {
  readonly metadata: DocumentMetadata
  readonly timeToLive: Duration.Duration
}

export class ClientDocuments extends Context.Service<
  ClientDocuments,
  {
    /** None: no such client. Fails only when a later attempt may succeed. */
    readonly find: (client: Asked) => Effect.Effect<Option.Option<DocumentMetadata>, DocumentUnavailable>
  }
>()("service/oauth/ClientDocuments") {
  static readonly layer = Layer.effect(
    ClientDocuments,
    Effect.gen(function* () {
      const { oauth, processes } = yield* Settings
      const network = yield* DocumentNetwork
      const permits = yield* Semaphore.make(partOf(concurrentFetches, processes))
      const [countKnown, countUnknown] = [fetchLimit(processes), fetchLimit(processes)]

      const fetched = Effect.fnUntraced(
        function* ({ client_id, isKnown }: Asked) {
          const url = new URL(client_id)
          yield* (isKnown ? countKnown : countUnknown)(url.hostname)
          const { document, max_age } = yield* permits.withPermit(fetchDocument(url))
          const metadata = yield* Effect.fromResult(acceptable(client_id, document))
          const seconds = Math.min(
            Math.max(
              Option.getOrElse(max_age, () => 3600),
              60
            ),
            86_400
          )
          return {
            metadata: { ...metadata, is_copy: false },
            timeToLive: Duration.seconds(seconds)
          } satisfies CachedDocument
        },
        Effect.provideService(DocumentNetwork, network)
      )

      const read = ({ client_id, isKnown }: Asked): Effect.Effect<CachedDocument, DocumentUnavailable> =>
        fetched({ client_id, isKnown }).pipe(
          Effect.tapError(({ reason }) =>
            logFault("A client's metadata document is unusable", { host: new URL(client_id).hostname, reason })
          ),
          Effect.catchIf(
            ({ isFinal }) => isFinal !== true,
            (unavailable) =>
              Option.match(shippedDocument(client_id), {
                onNone: () => Effect.fail(unavailable),
                onSome: (metadata) =>
                  Effect.succeed({ metadata: { ...metadata, is_copy: true }, timeToLive: copyLasts })
              })
          )
        )

      const cache = yield* Cache.makeWith(read, {
        capacity: cacheCapacity,
        timeToLive: (exit) => (Exit.isSuccess(exit) ? exit.value.timeToLive : Duration.zero)
      })

      const find = Effect.fn("ClientDocuments.find")(function* ({ client_id, isKnown }: Asked) {
        if (oauth.cimd === "off" || !isDocumentUrl(client_id)) return Option.none()
        if (!oauth.cimdHosts.has(new URL(client_id).hostname)) return Option.none()
        return yield* Cache.get(cache, { client_id, isKnown }).pipe(
          Effect.map(({ metadata }) => Option.some(metadata)),
          Effect.catchIf(
            ({ transient }) => !transient,
            () => Effect.succeedNone
          )
        )
      })

      return { find }
    })
  )
}

/** The metadata of a document that was fetched for this client id. */
export const acceptable = (
  client_id: string,
  document: unknown
): Result.Result<ClientMetadata, DocumentUnavailable> => {
  const hasClientId = typeof document === "object" && document !== null && "client_id" in document
  if (!hasClientId || document.client_id !== client_id) return Result.fail(unacceptable("client_id does not match"))
  if ("client_secret" in document || "client_secret_expires_at" in document) {
    return Result.fail(unacceptable("contains a secret"))
  }
  const metadata = readMetadata(document)
  return Result.isFailure(metadata) || metadata.success.name === ""
    ? Result.fail(unacceptable("metadata not acceptable"))
    : Result.succeed(metadata.success)
}

/** Counts the fetches of the current minute, in total and per host. */
const fetchLimit = (processes: number) => {
  const most = { host: partOf(fetchesPerMinute.host, processes), total: partOf(fetchesPerMinute.total, processes) }
  let minute = 0
  let counts = new Map<string, number>()
  return (host: string) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      const current = Math.floor(now / 60_000)
      if (current !== minute) [minute, counts] = [current, new Map()]
      const [total, ofHost] = [counts.get("") ?? 0, counts.get(host) ?? 0]
      if (total >= most.total || ofHost >= most.host)
        return Effect.fail(new DocumentUnavailable({ reason: "fetch limit reached", transient: true }))
      counts.set("", total + 1).set(host, ofHost + 1)
      return Effect.void
    })
}
