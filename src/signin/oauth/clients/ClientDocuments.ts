/**
 * Clients that are known by the address of their metadata document (Client ID Metadata Documents).
 *
 * Only hosts that the operator named are asked at all. Documents are kept as long as their server says, a minute at
 * least and a day at most; failures are not kept. One fetch at a time per client, within a budget per host and in all.
 */
import { Cache, Clock, Context, Data, Duration, Effect, Exit, Layer, Option, Result, Semaphore } from "effect"
import { Settings } from "../../../platform/settings/Settings.ts"
import { type ClientMetadata, readMetadata } from "./ClientMetadata.ts"
import { DocumentNetwork, DocumentUnavailable, fetchDocument, isDocumentAddress } from "./fetchDocument.ts"

/** Whoever keeps asking for new documents makes the server ask others: this is as often as it does. */
const perMinute = { host: 30, all: 120 }
const atOnce = 16
const kept = 500

interface Read {
  readonly metadata: ClientMetadata
  readonly keep: Duration.Duration
}

class BudgetSpent extends Data.TaggedError("BudgetSpent") {}

export class ClientDocuments extends Context.Service<
  ClientDocuments,
  {
    /** None: no such client. Fails when asking again later may help. */
    readonly find: (client_id: string) => Effect.Effect<Option.Option<ClientMetadata>, DocumentUnavailable>
  }
>()("service/oauth/ClientDocuments") {
  static readonly layer = Layer.effect(
    ClientDocuments,
    Effect.gen(function* () {
      const { oauth } = yield* Settings
      const network = yield* DocumentNetwork
      const permits = yield* Semaphore.make(atOnce)
      const spend = budget()

      const read = Effect.fnUntraced(
        function* (client_id: string) {
          const url = new URL(client_id)
          yield* spend(url.hostname)
          const { document, max_age } = yield* permits.withPermit(fetchDocument(url))
          const named = typeof document === "object" && document !== null && "client_id" in document
          if (!named || document.client_id !== client_id) {
            return yield* new DocumentUnavailable({ reason: "client_id is another", passing: false })
          }
          if ("client_secret" in document || "client_secret_expires_at" in document) {
            return yield* new DocumentUnavailable({ reason: "carries a secret", passing: false })
          }
          const metadata = readMetadata(document)
          if (Result.isFailure(metadata) || metadata.success.name === "") {
            return yield* new DocumentUnavailable({ reason: "metadata not acceptable", passing: false })
          }
          const seconds = Math.min(
            Math.max(
              Option.getOrElse(max_age, () => 3600),
              60
            ),
            86_400
          )
          return { metadata: metadata.success, keep: Duration.seconds(seconds) } satisfies Read
        },
        Effect.provideService(DocumentNetwork, network)
      )

      const cache = yield* Cache.makeWith(read, {
        capacity: kept,
        timeToLive: (exit) => (Exit.isSuccess(exit) ? exit.value.keep : Duration.zero)
      })

      const find = Effect.fn("ClientDocuments.find")(function* (client_id: string) {
        if (oauth.cimd === "off" || !isDocumentAddress(client_id)) return Option.none()
        if (!oauth.cimdHosts.has(new URL(client_id).hostname)) return Option.none()
        return yield* Cache.get(cache, client_id).pipe(
          Effect.map(({ metadata }) => Option.some(metadata)),
          Effect.catchTag("BudgetSpent", () =>
            Effect.fail(new DocumentUnavailable({ reason: "budget spent", passing: true }))
          ),
          Effect.tapError(({ reason }) =>
            Effect.logWarning("A client's metadata document cannot be used").pipe(
              Effect.annotateLogs({ host: new URL(client_id).hostname, reason })
            )
          ),
          Effect.catchIf(
            ({ passing }) => !passing,
            () => Effect.succeedNone
          )
        )
      })

      return { find }
    })
  )
}

/** Counts of the running minute. */
const budget = () => {
  let minute = 0
  let counts = new Map<string, number>()
  return (host: string) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      const current = Math.floor(now / 60_000)
      if (current !== minute) [minute, counts] = [current, new Map()]
      const [all, own] = [counts.get("") ?? 0, counts.get(host) ?? 0]
      if (all >= perMinute.all || own >= perMinute.host) return Effect.fail(new BudgetSpent())
      counts.set("", all + 1).set(host, own + 1)
      return Effect.void
    })
}
