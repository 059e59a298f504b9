/**
 * Links audit rows into chains of hashes, so that nobody rewrites them unnoticed (decisions.md, Evidence).
 *
 * 1. Every second each replica tries to lock the chains; the one that gets the lock has the turn, the others do nothing.
 * 2. It reads rows in the order of their time, from the last point before which every row was linked.
 * 3. Rows without a link become one block: of the chain of all rows, and of the chain of each project.
 *
 * A row that is committed after its neighbours is found because each turn starts before the oldest transaction that was
 * running in the turn before. Once a minute a turn starts fifteen minutes back, for rows of a process that stood still
 * before it wrote. No turn starts earlier than that before what is linked: a row with an older time stays without a link,
 * and verification names it. Whoever inserts a row does nothing for the chain and never waits for it.
 */
import { Duration, Effect, Option } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { nil } from "../../wire/Ids.ts"
import { DatabaseClock } from "../database/Clock.ts"
import { Database } from "../database/Database.ts"
import { describe } from "../database/Persistence.ts"
import { count, sweepFailures, sweptRows } from "../metrics/Metrics.ts"
import { canonical, digestOf, headAfter, type HashedRow, noHead } from "./ChainHash.ts"
import * as Store from "./ChainStore.ts"

/** In milliseconds. A row's time is that of its operation's start, this much before its transaction's first write. */
export const slack = 15_000
/** No transaction that leaves audit rows runs longer than ten minutes. */
export const longest = 15 * 60_000
const lookBackEvery = 60_000
/** Rows read at once. */
const stretchSize = 2000
/** A turn links what it can in half a second: the database has other work. */
const turnMillis = 500

const headsEvery = Duration.toMillis("1 hour")

/** A moment, and the transaction id that was next then. */
interface Mark {
  readonly at: number
  readonly next: number
}

/** What a process remembers from one turn to the next. It may be lost, because the database has the start of each pass. */
interface Memory {
  /** A process gives the heads away in its first turn and in its last, too: rows of its last hour could be cut off. */
  headsDue: boolean
  lookedBackAt: number
  marks: ReadonlyArray<Mark>
  /** A pass through the rows takes several turns if they are many. */
  pass: { readonly from: Store.Place; readonly safe: number } | undefined
}

export const newMemory = (): Memory => ({ headsDue: true, lookedBackAt: -Infinity, marks: [], pass: undefined })

const placeAt = (at: number): Store.Place => ({ at: new Date(at).toISOString(), event_id: nil })
const theBeginning: Store.Place = { at: "-infinity", event_id: nil }

/**
 * One turn. Returns how many rows it linked, or undefined if another replica has the turn.
 *
 * Each stretch is a transaction of its own, so that a turn that fails midway keeps what it linked.
 */
export const linkOnce = Effect.fn("Linker.linkOnce")(function* (memory: Memory) {
  const sql = yield* SqlClient.SqlClient
  const { now } = yield* DatabaseClock
  const store = Store.make(sql)
  const started = performance.now()
  let linked = 0
  while (true) {
    const at = yield* now
    // Without a commit the rows are not linked: a pass that went on would never come back to them.
    const done = yield* sql
      .withTransaction(linkStretch(sql, store, memory, at))
      .pipe(Effect.onError(() => Effect.sync(() => (memory.pass = undefined))))
    if (done === undefined) return undefined
    linked += done.linked
    if (done.isLast || performance.now() - started > turnMillis) return linked
  }
})

const linkStretch = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  store: ReturnType<typeof Store.make>,
  memory: Memory,
  now: Date
) {
  yield* sql`select set_config('statement_timeout', '20s', true)`
  const locked = yield* store.lock
  if (Option.isNone(locked)) return undefined
  const progress = locked.value
  memory.pass ??= newPass(memory, progress, now.getTime())
  const { from, safe } = memory.pass

  const stretch = Option.getOrUndefined(yield* store.stretch(from, stretchSize))
  const found = stretch === undefined ? [] : yield* store.unlinked(from, stretch)
  if (found.length > 0) yield* append(store, found, now)

  const isLast = stretch === undefined || stretch.count < stretchSize
  const reached = isLast ? safe : Math.min(safe, Date.parse(stretch.at))
  // Not every second: an idle service would write every second for nothing.
  if (found.length > 0 || reached - (progress.linked_before?.getTime() ?? 0) > slack) {
    yield* store.linkedBefore(new Date(reached))
  }
  if (isLast) {
    yield* logHeads(store, memory.headsDue, progress.heads_logged_at, now)
    memory.headsDue = false
  }
  memory.pass = isLast ? undefined : { from: stretch, safe }
  return { linked: found.length, isLast }
})

/**
 * Where a pass starts, and before which instant (`safe`) no row can appear any more once the pass is over.
 *
 * A transaction that runs now got its id after the newest mark whose next id is not above the oldest running one; so
 * its rows are younger than that mark, less the slack.
 */
const newPass = (
  memory: Memory,
  { linked_before, newest: linked, next, oldest }: Store.Progress,
  now: number
): NonNullable<Memory["pass"]> => {
  const marks = [...memory.marks, { at: now, next }].filter(({ at }) => at > now - longest)
  const newest = marks.findLastIndex((mark) => mark.next <= oldest)
  memory.marks = marks.slice(Math.max(newest, 0))
  const known = linked_before === null ? -Infinity : Math.min(linked_before.getTime(), now - slack)
  const safe = Math.max(now - longest, known, newest === -1 ? -Infinity : marks[newest]!.at - slack)
  // The account that serves may set `linked_before`, and so ask for old rows to be linked as if they were.
  const earliest = linked === null ? -Infinity : linked.getTime() - longest
  const looksBack = now - memory.lookedBackAt >= lookBackEvery
  if (looksBack) memory.lookedBackAt = now
  const from = Math.max(earliest, looksBack ? Math.min(known, now - longest) : known)
  return { from: from === -Infinity ? theBeginning : placeAt(from), safe }
}

/** Adds one block to the chain of all rows, and one to that of each project. */
const append = Effect.fnUntraced(function* (
  store: ReturnType<typeof Store.make>,
  found: ReadonlyArray<HashedRow>,
  now: Date
) {
  const texts = found.map((row) => ({ row, text: canonical(row) }))
  const scoped = Map.groupBy(
    texts.filter(({ row }) => row.project_id !== null),
    ({ row }) => row.project_id!
  )
  const blocks = [["all", texts] as const, ...scoped]
  const last = new Map((yield* store.lastHeads(blocks.map(([scope]) => scope))).map((head) => [head.scope, head]))
  const links: Array<Store.Link> = []
  const heads: Array<Store.Head> = []
  for (const [scope, block] of blocks) {
    const { head, seq } = last.get(scope) ?? { head: noHead, seq: 0 }
    const hash = headAfter(head)
    block.forEach(({ row: { at, event_id }, text }, index) => {
      hash.add(text)
      links.push({ event_id, at, scope, seq: seq + index + 1, digest: digestOf(text) })
    })
    heads.push({ scope, seq: seq + block.length, head: hash.head(), at: now })
  }
  yield* store.insertLinks(links)
  yield* store.insertHeads(heads, now)
})

/** Heads that somebody else keeps prove that a chain was not recomputed as a whole. */
const logHeads = Effect.fnUntraced(function* (
  store: ReturnType<typeof Store.make>,
  due: boolean,
  logged: Date | null,
  now: Date
) {
  // A time to come would silence the heads until then.
  const since = logged !== null && logged > now ? null : logged
  if (!due && since !== null && now.getTime() - since.getTime() < headsEvery) return
  const heads = yield* store.headsSince(since)
  if (heads.length === 0) return
  for (const { at, head, scope, seq } of heads) {
    yield* Effect.logInfo("Audit head").pipe(
      Effect.annotateLogs({
        scope,
        at: at.toISOString(),
        count: seq,
        head: Buffer.from(head).toString("hex")
      })
    )
  }
  yield* store.headsLogged(now)
})

/** A connection serves for this many turns: it may live for ten minutes. */
const turns = 300
const sweep = "link audit rows"

/** The last turn of a process that stops, which another replica may have just now. */
const lastTurn = (memory: Memory) =>
  Effect.suspend(() => {
    memory.headsDue = true
    memory.pass = undefined
    return linkOnce(memory)
  }).pipe(Effect.timeout("2 seconds"), Effect.ignoreCause)

/** Links every second, on a connection of its own. After a failure it tries again. */
export const linkForever = Effect.gen(function* () {
  const { dedicated } = yield* Database
  const memory = newMemory()
  yield* count(sweptRows(sweep), 0)
  yield* count(sweepFailures(sweep), 0)
  const turn = Effect.flatMap(linkOnce(memory), (linked) =>
    Effect.andThen(count(sweptRows(sweep), linked ?? 0), Effect.sleep("1 second"))
  )
  const session = Effect.gen(function* () {
    yield* Store.make(yield* SqlClient.SqlClient).begin
    yield* Effect.onInterrupt(Effect.repeat(turn, { times: turns - 1 }), () => lastTurn(memory))
  })
  const failed = (facts: Readonly<Record<string, string>>) =>
    Effect.andThen(
      count(sweepFailures(sweep)),
      Effect.andThen(
        Effect.logWarning("Audit rows could not be linked").pipe(Effect.annotateLogs(facts)),
        Effect.sleep("5 seconds")
      )
    )
  return yield* dedicated(session).pipe(
    Effect.catch((error) => failed(SqlError.isSqlError(error) ? describe(error) : { reason: error._tag })),
    Effect.catchDefect((defect) => failed({ defect: defect instanceof Error ? defect.name : "" })),
    Effect.forever
  )
})
