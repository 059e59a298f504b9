/**
 * Verifies the chains of the audit log (decisions.md, Evidence).
 *
 * 1. Each chain is recomputed from its beginning, or from the oldest head that retention left.
 * 2. Every row older than ten seconds must have a link, and every link its row.
 * 3. Heads that somebody else kept must be here, unchanged.
 *
 * Everything is read in pages, so memory and statements stay small however long the log is. The service may be running.
 */
import { Context, Duration, Effect, Layer, Option, Stream } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { SharedRefusal } from "../../wire/Errors.ts"
import { nil } from "../../wire/Ids.ts"
import { DatabaseClock } from "../database/Clock.ts"
import { longPersistence } from "../database/Persistence.ts"
import { done, expect } from "../metrics/Progress.ts"
import { Settings } from "../settings/Settings.ts"
import { canonical, digestOf, headAfter, noHead } from "./ChainHash.ts"
import * as Store from "./ChainStore.ts"
import { longest, slack } from "./Linker.ts"
import type { KeptHead } from "./HeadsFile.ts"

const pageSize = 2000
/** A row has this long to get its link. */
const patience = Duration.seconds(10)
/** A row may have been committed a moment ago, long after its operation began: it is looked at again. */
const secondLook = Duration.seconds(3)

export interface Broken {
  readonly scope: string
  /**
   * - `changed`: the row is not the one that was linked.
   * - `removed`: the row, or its link, is gone.
   * - `inserted`: a link that no turn of the service wrote.
   * - `reordered`: the row stands in another order than when it was linked.
   * - `misdated`: the row's time is not that of its linking: over fifteen minutes before rows linked earlier, or over a day
   *   after its head. Or the head is older than the one before it.
   * - `unlinked`: the row has no link, ten seconds after its time.
   * - `head_differs`: the rows up to `seq` do not lead to the head there, or the head is not the kept one.
   * - `head_missing`: a kept head is not here.
   */
  readonly problem:
    | "changed"
    | "removed"
    | "inserted"
    | "reordered"
    | "misdated"
    | "unlinked"
    | "head_differs"
    | "head_missing"
  /** The row's number in the chain; null if it has none. */
  readonly seq: number | null
  readonly event_id: string | null
  readonly at: string | null
}

export interface Report {
  readonly ok: boolean
  readonly chains: number
  /** Rows that were recomputed; one of a project counts in both of its chains. */
  readonly rows: number
  /** Kept heads that were compared, and those that are older than the retention. */
  readonly heads: number
  readonly expired_heads: number
  /** The first broken row of each chain and check. */
  readonly broken: ReadonlyArray<Broken>
}

interface Asked<E> {
  readonly project: string | undefined
  readonly since: Date | undefined
  readonly heads: Stream.Stream<KeptHead, E>
}

export class Verification extends Context.Service<
  Verification,
  {
    readonly verify: <E>(asked: Asked<E>) => Effect.Effect<Report, E | SharedRefusal<"bridge_persistence_error">>
  }
>()("service/audit/Verification") {
  static readonly layer = Layer.effect(
    Verification,
    Effect.gen(function* () {
      const store = Store.make(yield* SqlClient.SqlClient)
      const { now } = yield* DatabaseClock
      const { audit } = yield* Settings

      const verify = Effect.fn("Verification.verify")(function* <E>({ heads, project, since }: Asked<E>) {
        const at = yield* now
        const scopes = project === undefined ? (yield* store.scopes).map(({ scope }) => scope) : [project]
        const broken: Array<Broken> = []
        let rows = 0
        yield* expect(Effect.map(store.lastHeads(scopes), (heads) => heads.reduce((sum, { seq }) => sum + seq, 0)))
        for (const scope of scopes) {
          const chain = yield* recompute(store, scope, since)
          rows += chain.rows
          if (chain.broken !== undefined) broken.push(chain.broken)
        }
        const missing = yield* findUnlinked(store, project, since, at)
        if (missing !== undefined) broken.push(missing)
        const kept = yield* compare(
          store,
          Stream.filter(heads, ({ scope }) => project === undefined || scope === project),
          new Date(at.getTime() - Duration.toMillis(audit.retention))
        )
        broken.push(...kept.broken)
        return {
          ok: broken.length === 0,
          chains: scopes.length,
          rows,
          heads: kept.compared,
          expired_heads: kept.expired,
          broken
        }
      }, longPersistence)
      return { verify }
    })
  )
}

type ChainStore = ReturnType<typeof Store.make>

/** Recomputes one chain, up to the last head that it has now. */
const recompute = Effect.fnUntraced(function* (store: ChainStore, scope: string, since: Date | undefined) {
  const [last] = yield* store.lastHeads([scope])
  const end = last?.seq ?? 0
  const start = yield* startOf(store, scope, since)
  yield* expect(Effect.succeed(-start.seq))
  const broke = (problem: Broken["problem"], { place_at, place_id, seq }: Store.Linked) => ({
    rows,
    broken: { scope, problem, seq, event_id: place_id, at: place_at }
  })

  let rows = 0
  let reported = 0
  let expected = start.seq + 1
  let heads: ReadonlyArray<Store.Head> = []
  let hash = headAfter(start.head)
  // The first row of a block, and the row before the present one in it.
  let first: Store.Linked | undefined
  let before: Store.Linked | undefined
  const times = newTimes(start.at)
  // With `since` the links before its head are left alone; else those before the oldest head still need their rows.
  let from = { seq: since === undefined ? 0 : start.seq, at: "-infinity", event_id: nil }
  while (true) {
    const page = yield* store.links(scope, from, pageSize)
    for (const link of page) {
      if (link.seq > end) break
      if (link.row === null) return broke("removed", link)
      const text = canonical(link.row)
      const digest = digestOf(text)
      if (!same(digest, link.digest)) {
        return broke(page.some((other) => same(digest, other.digest)) ? "reordered" : "changed", link)
      }
      if (link.seq <= start.seq) {
        if (start.at !== undefined && Date.parse(link.place_at) > start.at.getTime() + day)
          return broke("misdated", link)
        times.add(link)
        continue
      }
      if (link.seq < expected) return broke("inserted", link)
      if (link.seq > expected) return { rows, broken: gone(scope, expected) }
      if (before !== undefined && !follows(link, before)) return broke("reordered", link)
      hash.add(text)
      rows++
      expected++
      first ??= link
      before = link
      if (heads.length === 0) heads = yield* store.heads(scope, link.seq - 1, pageSize)
      const [head, ...later] = heads
      if (head === undefined || head.seq > link.seq) continue
      const computed = hash.head()
      if (!same(computed, head.head)) return broke("head_differs", first)
      const misdated = times.misdated(first, link, head)
      if (misdated !== undefined) return broke("misdated", misdated)
      times.add(link, head)
      heads = later
      hash = headAfter(computed)
      first = before = undefined
    }
    const next = page.at(-1)
    if (next === undefined || next.seq > end) break
    from = { seq: next.seq, at: next.place_at, event_id: next.place_id }
    yield* done(rows - reported)
    reported = rows
  }
  if (expected <= end) return { rows, broken: gone(scope, expected) }
  const beyond = Option.getOrUndefined(yield* store.beyondLastHead(scope))
  return { rows, broken: beyond && ({ scope, problem: "inserted", ...beyond } satisfies Broken) }
})

const startOf = Effect.fnUntraced(function* (store: ChainStore, scope: string, since: Date | undefined) {
  const beginning = { seq: 0, head: noHead, at: undefined }
  const at = since === undefined ? Option.none() : yield* store.startingHead(scope, since)
  if (Option.isSome(at)) return at.value
  if (yield* store.isWhole) return beginning
  return Option.getOrElse(yield* store.startingHead(scope, undefined), () => beginning)
})

const day = Duration.toMillis("1 day")

/** The newest times of a chain's heads and rows so far. The next block's are judged by them. */
const newTimes = (start: Date | undefined) => {
  let head = start?.getTime() ?? -Infinity
  let row = -Infinity
  return {
    add: (link: Store.Linked, covering?: Store.Head) => {
      row = Math.max(row, Date.parse(link.place_at))
      head = Math.max(head, covering?.at.getTime() ?? head)
    },
    /** A row of the next block whose time is wrong. The rows of a block are in the order of their time. */
    misdated: (first: Store.Linked, last: Store.Linked, covering: Store.Head) => {
      const at = covering.at.getTime()
      const isLate = Date.parse(first.place_at) < Math.min(head, row) - longest - slack
      if (isLate || at < head - slack) return first
      return Date.parse(last.place_at) > at + day ? last : undefined
    }
  }
}

/** The row with this number has neither a link nor, as far as anybody can tell, an id. */
const gone = (scope: string, seq: number): Broken => ({ scope, problem: "removed", seq, event_id: null, at: null })

/** The rows of a block are in the order of their time. */
const follows = (link: Store.Linked, before: Store.Linked) =>
  link.place_at > before.place_at || (link.place_at === before.place_at && link.place_id > before.place_id)

const same = (one: Uint8Array, other: Uint8Array) => Buffer.compare(one, other) === 0

const findUnlinked = Effect.fnUntraced(function* (
  store: ChainStore,
  project: string | undefined,
  since: Date | undefined,
  now: Date
) {
  const until = new Date(now.getTime() - Duration.toMillis(patience)).toISOString()
  const search = (from: Store.Place, to: Store.Place) =>
    Effect.map(store.unlinked(from, to, project, true), ([row]) =>
      row === undefined || row.at > until
        ? undefined
        : ({
            scope: project ?? "all",
            problem: "unlinked",
            seq: null,
            event_id: row.event_id,
            at: row.at
          } satisfies Broken)
    )
  let from: Store.Place = { at: since?.toISOString() ?? "-infinity", event_id: nil }
  while (true) {
    const page = Option.getOrUndefined(yield* store.stretch(from, pageSize, project))
    if (page === undefined) return undefined
    if ((yield* search(from, page)) !== undefined) {
      yield* Effect.sleep(secondLook)
      const row = yield* search(from, page)
      if (row !== undefined) return row
    }
    from = page
  }
})

/** Compares kept heads with those here. Heads of months that retention dropped are only counted. */
const compare = Effect.fnUntraced(function* <E>(
  store: ChainStore,
  heads: Stream.Stream<KeptHead, E>,
  retained: Date
): Effect.fn.Return<{ compared: number; expired: number; broken: ReadonlyArray<Broken> }, E | SqlError.SqlError> {
  const result = { compared: 0, expired: 0, broken: new Array<Broken>() }
  yield* Stream.runForEach(heads, ({ at, count, head, scope }) =>
    Effect.map(store.headAt(scope, count), (found) => {
      if (Option.isNone(found) && at < retained) {
        result.expired++
        return
      }
      result.compared++
      if (result.broken.length > 0) return
      const problem = Option.isNone(found)
        ? "head_missing"
        : Buffer.from(found.value.head).toString("hex") === head
          ? undefined
          : "head_differs"
      if (problem !== undefined) {
        result.broken.push({ scope, problem, seq: count, event_id: null, at: at.toISOString() })
      }
    })
  )
  return result
})
