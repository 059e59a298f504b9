/**
 * Meaning (decisions.md, Embeddings): with SERVICE_EMBEDDINGS_URL, entries of memory have vectors, and a search compares them
 * with the vector of its query. Without it, or while the endpoint is away, words answer alone.
 *
 * A write only queues its entry. The worker of each replica leases batches from the queue, each of one project, asks the
 * endpoint outside any transaction, and stores the vectors of those entries that are still active. Every ten minutes, and at
 * the start, it reads all entries and queues those without a vector of the model: so it fills a new database, another model,
 * and what was imported.
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

/** Entries that are read to find those without a vector. */
const pageSize = 1_000
/** Vectors of queries that are kept, in all for some ten minutes. */
const [queries, queryMillis] = [1_000, 600_000]
/** Candidates by their signs. */
const candidates = 100
/** Between two passes over all entries. */
const passMillis = 600_000
const lease = Duration.minutes(2)
/** An entry whose text makes the endpoint fail is tried this often; a later pass queues it once more. */
const mostAttempts = 5
/** Entries that are remembered because the endpoint failed with them, for at least an hour. */
const [mostSuspects, suspectMillis] = [1_000, 3_600_000]

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
  const endpoint = yield* makeEndpoint(settings)
  const { model } = endpoint
  const codes = makeCodes(store, model, settings.dimensions)
  const known = recent<Vector>(queries, queryMillis)
  const suspects = recent<true>(mostSuspects, suspectMillis)

  const vectorOf = Effect.fnUntraced(function* (project_id: string, query: string) {
    const key = Buffer.from(sha256(query)).toString("base64")
    const now = (yield* clock.now).getTime()
    const before = known.get(key)
    if (before !== undefined) return before
    const vector = yield* endpoint.query(project_id, query)
    known.set(key, vector, now)
    return vector
  })

  const ask = Effect.fn("Embeddings.ask")(function* (project_id: string, query: string) {
    const blocks = yield* persistence(codes.blocksOf(project_id))
    if (blocks.size === 0) return "off" as const
    const vector = yield* vectorOf(project_id, query).pipe(Effect.catchTag("EndpointAway", () => Effect.undefined))
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

  const embed = Effect.fnUntraced(function* (batch: Batch) {
    const vectors = yield* endpoint.entries(batch.map(textOf))
    yield* save(batch, vectors)
  })

  const save = (batch: Batch, vectors: ReadonlyArray<Vector>) =>
    Effect.gen(function* () {
      const { ids, project_id } = keysOf(batch)
      yield* store.lock(project_id)
      const lacking = new Set((yield* store.lacking(project_id, ids, model)).map(({ id }) => id))
      let rest = ids.map((id, n) => storedOf(id, vectors[n]!)).filter(({ id }) => lacking.has(id))
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

  /**
   * Puts a batch back. Any of several entries may be why it failed, so each comes alone from then on. Alone, an entry loses an
   * attempt if the endpoint answers others, or goes away with this entry for the second time; an outage costs it none.
   */
  const putBack = Effect.fnUntraced(function* (batch: Batch, { fault }: EndpointAway) {
    const now = yield* clock.now
    const { ids, project_id } = keysOf(batch)
    if (batch.length > 1) return yield* store.postpone(project_id, ids, now, fault === "endpoint" ? 0 : 1)
    const [{ attempts, id }] = batch as readonly [Store.Waiting]
    const again = suspects.get(id) !== undefined
    if (fault === "either") suspects.set(id, true, now.getTime())
    if (fault === "endpoint" || (fault === "either" && !again)) return yield* store.postpone(project_id, ids, now, 0)
    if (attempts + 1 >= mostAttempts) return yield* store.done(project_id, ids)
    return yield* store.postpone(project_id, ids, after(now, Duration.minutes(2 ** (attempts + 1))), 1)
  }, persistence)

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
    if (!(yield* endpoint.ready)) return false
    const now = yield* clock.now
    const batch = yield* persistence(store.claim(now, after(now, lease)))
    if (batch.length === 0) return yield* look
    yield* Effect.catchTag(embed(batch), "EndpointAway", (away) => putBack(batch, away))
    return true
  })

  return Embeddings.of({ configured: true, ask, round })
})

/** Entries of one project. */
type Batch = ReadonlyArray<Store.Waiting>

const keysOf = (batch: Batch) => ({ project_id: batch[0]!.project_id, ids: batch.map(({ id }) => id) })

const textOf = ({ body, title }: Store.Waiting) =>
  (body.startsWith(title) ? body : `${title}\n${body}`).slice(0, Store.longestText)

const storedOf = (id: string, vector: Vector): Store.Embedded => ({
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
