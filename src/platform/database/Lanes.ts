/**
 * Connections that short statements of several callers share (decisions.md, Short statements on shared connections).
 *
 * 1. A lane is one connection. Its statements are sent without waiting for the answers to those before them; each is a
 *    transaction of its own, with an outcome of its own.
 * 2. A statement joins the lane in which it waits least. If it would wait over 10 ms in each, it has a connection of its own.
 * 3. In a lane, PostgreSQL ends a statement after 250 ms, or after 50 ms of waiting for a lock. What it ended it has undone, so
 *    the statement runs again on a connection of its own, with the usual limits.
 * 4. Only a commit that waits for its standby, or a connection that went silent, takes longer. Such a lane gets no more
 *    statements, and is closed when the callers of those that it has were answered by their deadline.
 *
 * A statement in a lane is never cancelled: the cancellation could hit the one behind it.
 */
import { Clock, Context, Effect, Exit, Scope } from "effect"
import { type SqlConnection, SqlError } from "effect/sql"
import { amongBrief, inTurn } from "./Shares.ts"

/** Whether the statements of the current operation are short, and wait for no lock by design. */
export const Brief = Context.Reference<boolean>("service/database/Brief", { defaultValue: () => false })

/** The limits of PostgreSQL for the sessions of lanes. */
export const laneTimeouts = { statement_timeout: "250ms", lock_timeout: "50ms" }

/** A connection, and whether it still reaches the server that takes writes. */
export interface Opened {
  readonly connection: SqlConnection.Connection
  readonly isCurrent: () => boolean
}

interface Lane extends Opened {
  readonly scope: Scope.Closeable
  readonly openedAt: number
  /** Statements that were sent and not answered. */
  underWay: number
  /** Since when the first of these runs; else since when nothing ran. */
  since: number
  /** How long a statement takes: a moving average. */
  pace: number
}

/** Milliseconds: the longest wait in a lane, and when a lane is closed. */
const [longestWait, stuck, idle, lifetime] = [10, 6000, 60_000, 600_000]
/** Milliseconds. After a lane could not be opened. */
const pause = 1000
/** Statements in one lane. */
const most = 32
/** How often stuck lanes are looked for, while statements are under way. */
const interval = 250

const wasEnded = ({ reason }: SqlError.SqlError) =>
  reason._tag === "StatementTimeoutError" || reason._tag === "LockTimeoutError"

/** Runs a statement in a lane or, with `own`, on a connection of its own. */
export interface Lanes {
  readonly use: <A, E, R>(
    statement: (connection: SqlConnection.Connection) => Effect.Effect<A, E, R>,
    own: Effect.Effect<A, E | SqlError.SqlError, R>
  ) => Effect.Effect<A, E | SqlError.SqlError, R>
}

export const makeLanes = Effect.fnUntraced(function* (
  count: number,
  open: Effect.Effect<Opened, SqlError.SqlError, Scope.Scope>
) {
  const clock = yield* Clock.Clock
  const scope = yield* Scope.Scope
  const fork = Effect.runForkWith(yield* Effect.context<never>())
  const now = () => Number(clock.monotonicTimeNanosUnsafe()) / 1e6
  const lanes = new Set<Lane>()
  let opening = 0
  let openNext = -Infinity
  let timer: NodeJS.Timeout | undefined

  const close = (lane: Lane) => {
    if (lanes.delete(lane)) fork(Scope.close(lane.scope, Exit.void))
  }

  const isOver = (lane: Lane, at: number) =>
    !lane.isCurrent() || at - lane.openedAt > lifetime || (lane.underWay === 0 && at - lane.since > idle)

  const add = Effect.gen(function* () {
    const own = yield* Scope.fork(scope)
    const exit = yield* Effect.exit(Scope.provide(open, own))
    if (Exit.isSuccess(exit)) {
      const at = now()
      lanes.add({ ...exit.value, scope: own, openedAt: at, underWay: 0, since: at, pace: 0 })
    } else {
      openNext = now() + pause
      yield* Scope.close(own, exit)
    }
  }).pipe(Effect.ensuring(Effect.sync(() => opening--)))

  /** In the background: a statement waits for no connection that it does not need. */
  const addSoon = (at: number) => {
    if (lanes.size + opening >= count || at < openNext) return
    opening++
    fork(Effect.forkIn(add, scope))
  }

  const waitIn = ({ pace, since, underWay }: Lane, at: number) =>
    underWay === 0 ? 0 : underWay >= most ? Infinity : Math.max(pace * underWay, at - since)

  const choose = (at: number): Lane | undefined => {
    let chosen: Lane | undefined
    let shortest = longestWait
    for (const lane of lanes) {
      if (isOver(lane, at)) {
        if (lane.underWay === 0) close(lane)
        continue
      }
      const wait = waitIn(lane, at)
      if (wait >= shortest) continue
      chosen = lane
      shortest = wait
    }
    if (chosen === undefined || chosen.underWay > 0) addSoon(at)
    return chosen
  }

  const begin = (lane: Lane, at: number) => {
    if (lane.underWay++ === 0) lane.since = at
    timer ??= setInterval(check, interval).unref()
  }

  /** Answers come in the order of the statements, so the first one has ended. */
  const end = (lane: Lane) => {
    const at = now()
    lane.pace += (at - lane.since - lane.pace) / 16
    lane.since = at
    lane.underWay--
  }

  const check = () => {
    const at = now()
    let busy = false
    for (const lane of lanes) {
      if (lane.underWay > 0 && at - lane.since > stuck) close(lane)
      else busy ||= lane.underWay > 0
    }
    if (busy) return
    clearInterval(timer)
    timer = undefined
  }

  const use: Lanes["use"] = (statement, own) =>
    amongBrief(
      Effect.suspend(() => {
        const at = now()
        const lane = choose(at)
        if (lane === undefined) return inTurn(own)
        begin(lane, at)
        return statement(lane.connection).pipe(
          Effect.ensuring(Effect.sync(() => end(lane))),
          Effect.uninterruptible,
          Effect.catchIf(
            (error) => SqlError.isSqlError(error) && wasEnded(error),
            () => inTurn(own)
          )
        )
      })
    )
  return { use } as Lanes
})
