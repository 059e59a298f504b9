/**
 * Meaning (decisions.md, Embeddings): with SERVICE_EMBEDDINGS_URL, entries of memory have vectors, and a search compares them
 * with the vector of its query. Without it, or while the endpoint is away, words answer alone.
 *
 * A write only queues its entry. The worker of each replica leases batches from the queue, asks the endpoint outside any
 * transaction, and stores the vectors of those entries that are still active. Every ten minutes, and at the start, it reads all
 * entries and queues those without a vector of the model: so it fills a new database, another model, and what was imported.
 */
import { Context, Duration, Effect, Layer, Schedule } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { sha256 } from "../../platform/crypto/Sha256.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import { count, embeddingRequests } from "../../platform/metrics/Metrics.ts"
import { recent } from "../../platform/edge/limits/Recent.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import { nil } from "../../wire/Ids.ts"
import { after } from "../../wire/Instant.ts"
import type { Unavailable } from "../continuity/Errors.ts"
import { makeCodes } from "./Codes.ts"
import * as Store from "./EmbeddingStore.ts"
import { type EndpointAway, makeEndpoint } from "./Endpoint.ts"
import { bytesOf, cosine, signsOf, type Vector } from "./Vectors.ts"

/** What a search compares entries with. */
export interface Meaning {
  /** The ids of the entries whose signs are nearest. */
  readonly nearest: ReadonlyArray<string>
  /** The cosines of those entries that have a vector, by id. */
  readonly cosines: (ids: ReadonlyArray<string>) => Effect.Effect<ReadonlyMap<string, number>, SqlError.SqlError>
}

/** `off`: the project has no vectors. `away`: it has, but the endpoint did not answer in time. */
export type Asked = Meaning | "off" | "away"

/** Texts per request, and entries that are read to find those without a vector. */
const [batchSize, pageSize] = [64, 1_000]
/** Characters of an entry that are sent: some 1,000 tokens, which every model takes. */
const longestText = 4_000
/** Vectors of queries that are kept, in all for some ten minutes. */
const [queries, queryMillis] = [1_000, 600_000]
/** Candidates by their signs. */
const candidates = 100
/** Between two passes over all entries. */
const passMillis = 600_000
const lease = Duration.minutes(2)
/** An entry that the endpoint refuses is tried again this often; a later pass queues it once more. */
const mostAttempts = 5

const first = [nil, nil] as const

export class Embeddings extends Context.Service<
  Embeddings,
  {
    /** Whether an endpoint is configured: entries that are added are queued. */
    readonly configured: boolean
    /** Asks for the vector of a query; at most half a second. */
    readonly ask: (project_id: string, query: string) => Effect.Effect<Asked, Unavailable>
    /** Embeds one batch, or looks for entries without a vector; returns whether there was anything to do. */
    readonly round: Effect.Effect<boolean, Unavailable>
  }
>()("service/embeddings/Embeddings") {
  static readonly layer = Layer.effect(
    Embeddings,
    Effect.gen(function* () {
      const { embeddings } = yield* Settings
      return embeddings === undefined ? off : yield* make(embeddings)
    })
  )
}

const off = Embeddings.of({ configured: false, ask: () => Effect.succeed("off"), round: Effect.succeed(false) })

const make = Effect.fnUntraced(function* (settings: Parameters<typeof makeEndpoint>[0]) {
  const sql = yield* SqlClient.SqlClient
  const clock = yield* DatabaseClock
  const store = Store.make(sql)
  const { embed, model, rests } = yield* makeEndpoint(settings)
  const codes = makeCodes(store, model, settings.dimensions)
  const known = recent<Vector>(queries, queryMillis)

  const vectorOf = Effect.fnUntraced(function* (query: string) {
    const key = Buffer.from(sha256(query)).toString("base64")
    const now = (yield* clock.now).getTime()
    const before = known.get(key)
    if (before !== undefined) return before
    const [vector] = yield* embed("query", [query], "500 millis")
    known.set(key, vector!, now)
    return vector!
  })

  const ask = Effect.fn("Embeddings.ask")(function* (project_id: string, query: string) {
    const blocks = yield* persistence(codes.blocksOf(project_id))
    if (blocks.size === 0) return "off" as const
    const vector = yield* vectorOf(query).pipe(Effect.catchTag("EndpointAway", () => Effect.undefined))
    if (vector === undefined) return "away" as const
    const nearest = yield* codes.nearest(blocks, signsOf(vector), candidates)
    const cosines = (ids: ReadonlyArray<string>) =>
      store
        .vectors(project_id, model, ids)
        .pipe(
          Effect.map(
            (found) =>
              new Map(
                found.map(({ id, vector: bytes }) => [
                  id,
                  cosine(vector, new Int8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength))
                ])
              )
          )
        )
    return { nearest, cosines } satisfies Meaning
  })

  const embedBatch = Effect.fnUntraced(function* (waiting: ReadonlyArray<Store.Waiting>) {
    const vectors = yield* embed("entry", waiting.map(textOf), "30 seconds")
    const byProject = Map.groupBy(
      waiting.map((entry, n) => ({ ...entry, vector: vectors[n]! })),
      (one) => one.project_id
    )
    yield* Effect.forEach(byProject, ([project_id, entries]) => save(project_id, entries), { discard: true })
  })

  const save = (project_id: string, entries: ReadonlyArray<{ readonly id: string; readonly vector: Vector }>) =>
    Effect.gen(function* () {
      const ids = entries.map(({ id }) => id)
      yield* store.lock(project_id)
      const lacking = new Set((yield* store.lacking(project_id, ids, model)).map(({ id }) => id))
      let rest = entries.filter(({ id }) => lacking.has(id)).map(storedOf)
      let [{ number, used } = { number: 0, used: 0 }] = yield* store.lastBlock(project_id, model)
      while (rest.length > 0) {
        if (used === Store.blockSize) [number, used] = [number + 1, 0]
        const fitting = rest.slice(0, Store.blockSize - used)
        yield* store.add(project_id, model, number, used, fitting)
        used += fitting.length
        rest = rest.slice(fitting.length)
      }
      yield* store.done(project_id, ids)
    }).pipe(sql.withTransaction, persistence)

  /** One text that the endpoint refuses must not keep the others of its batch. */
  const settle = Effect.fnUntraced(function* (waiting: ReadonlyArray<Store.Waiting>, { refused }: EndpointAway) {
    const now = yield* clock.now
    const [{ attempts, id, project_id }] = waiting as readonly [Store.Waiting]
    if (refused !== true) yield* persistence(store.release(waiting, now))
    else if (waiting.length > 1) yield* Effect.forEach(waiting, (entry) => embedAll([entry]), { discard: true })
    else if (attempts >= mostAttempts) yield* persistence(store.done(project_id, [id]))
    else yield* persistence(store.postpone(project_id, id, after(now, Duration.minutes(2 ** attempts))))
  })

  const embedAll = (waiting: ReadonlyArray<Store.Waiting>): Effect.Effect<void, Unavailable> =>
    Effect.catchTag(embedBatch(waiting), "EndpointAway", (away) => settle(waiting, away))

  /** Where the pass over all entries is; undefined between two passes. */
  let place: readonly [string, string] | undefined = first
  let nextPass = 0

  const look = Effect.gen(function* () {
    const now = yield* clock.now
    if (place === undefined && now.getTime() < nextPass) return false
    if (place === undefined || place === first) yield* persistence(store.prune(model))
    const [last] = yield* persistence(store.queueLacking(model, place ?? first, pageSize, now))
    place = last === undefined ? undefined : [last.project_id, last.id]
    if (last === undefined) nextPass = now.getTime() + passMillis
    return last !== undefined
  })

  const round = Effect.gen(function* () {
    if (yield* rests("entry")) return false
    const now = yield* clock.now
    const waiting = yield* persistence(store.claim(batchSize, now, after(now, lease)))
    if (waiting.length === 0) return yield* look
    yield* embedAll(waiting)
    return true
  })

  return Embeddings.of({ configured: true, ask, round })
})

const textOf = ({ body, title }: Store.Waiting) =>
  (body.startsWith(title) ? body : `${title}\n${body}`).slice(0, longestText)

const storedOf = ({ id, vector }: { readonly id: string; readonly vector: Vector }): Store.Embedded => ({
  id,
  ids: Buffer.from(id.replaceAll("-", ""), "hex"),
  code: Buffer.from(signsOf(vector).buffer),
  vector: Buffer.from(bytesOf(vector).buffer)
})

/** Keeps embedding, at once while there is work and otherwise every half second. */
export const embedForever = Effect.gen(function* () {
  for (const purpose of ["query", "entry"]) {
    for (const outcome of ["answered", "failed"]) yield* count(embeddingRequests(purpose, outcome), 0)
  }
  const { embeddings } = yield* Settings
  if (embeddings === undefined) return
  const { round } = yield* Embeddings
  const { host } = new URL(embeddings.url)
  yield* Effect.logInfo("Text of memory and of searches is sent for embeddings").pipe(
    Effect.annotateLogs({ host, model: embeddings.model })
  )
  yield* round.pipe(
    Effect.catchCause(() => Effect.succeed(false)),
    Effect.repeat({ until: (worked) => !worked }),
    Effect.repeat(Schedule.spaced("500 millis"))
  )
})
