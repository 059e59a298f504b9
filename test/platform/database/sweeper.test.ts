/** Sweeps record expiries and delete rows 30 days after their end. No answer depends on them. */
import { assert, layer } from "@effect/vitest"
import { Context, Deferred, Duration, Effect, Fiber, Metric, Option } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { vi } from "vitest"
import { DatabaseClock } from "../../../src/platform/database/Clock.ts"
import { Database } from "../../../src/platform/database/Database.ts"
import { type Sweep, sweepForever, sweepOnce } from "../../../src/platform/database/Sweeper.ts"
import { sweepFailures, sweptRows } from "../../../src/platform/metrics/Metrics.ts"
import { Settings } from "../../../src/platform/settings/Settings.ts"
import { sweeps as bridgeSweeps } from "../../../src/bridges/Wing.ts"
import type { Bridge } from "../../support/bridges/Bridge.ts"
import { invariants } from "../../support/attacks/Invariants.ts"
import { Service } from "../../support/service/Service.ts"
import { shapeOf } from "../../support/attacks/Shape.ts"
import { withNewCredential, challenged, fresh, revokeIdentity } from "../../support/bridges/Steps.ts"
import { holder, rotate, rotating, successorOf } from "../../support/bridges/Tokens.ts"

const all = bridgeSweeps
const oneMilli = Duration.millis(1)
const kept = Duration.days(30)

const sweep = (sweeps: ReadonlyArray<Sweep<Settings>> = all) =>
  Effect.flatMap(Service, ({ services }) =>
    Effect.provideContext(sweepOnce(sweeps), Context.pick(DatabaseClock, Settings)(services))
  )

const forever = (sweeps: ReadonlyArray<Sweep<Settings>>) =>
  Effect.flatMap(Service, ({ services }) =>
    sweepForever(sweeps).pipe(
      Effect.provideContext(Context.pick(Database, DatabaseClock, Settings)(services)),
      Effect.forkScoped
    )
  )

/** Lets statements finish, whatever TestClock says. */
const realPause = Effect.promise(() => new Promise((resolve) => setTimeout(resolve, 10)))

/** The number of rows of each kind in a Bridge's project; an active identity counts as `identity active`. */
const rowsLeft = ({ project_id }: Bridge) =>
  Effect.map(shapeOf(project_id), (rows) => {
    const kinds = rows
      .filter((row) => /^(identity|challenge|credential|token|rotation) /.test(row))
      .map((row) => row.replace(/^(identity|token|rotation) \((\w+).*/, "$1 $2").replace(/ \(.*/, ""))
    return Object.fromEntries([...new Set(kinds)].map((kind) => [kind, kinds.filter((other) => other === kind).length]))
  })

const changesNothing = Effect.fnUntraced(function* ({ project_id }: Bridge) {
  const before = yield* shapeOf(project_id)
  yield* sweep()
  assert.deepStrictEqual(yield* shapeOf(project_id), before)
})

layer(Service.layer)("a sweep", (it) => {
  it.effect("expires a rotation at the end of its window, and revokes its successor", () =>
    Effect.gen(function* () {
      const { bridge } = yield* rotating()
      yield* TestClock.adjust(Duration.hours(1))
      const before = yield* rowsLeft(bridge)
      assert.deepInclude(before, { "rotation pending": 1, "token pending": 1 })
      yield* sweep()
      assert.deepInclude(yield* rowsLeft(bridge), { "rotation expired": 1, "token revoked": 1, "token active": 1 })
      const rows = yield* shapeOf(bridge.project_id)
      const ends = rows.flatMap((row) => /^rotation \(expired,"(.*)","(.*)"\)$/.exec(row)?.slice(1) ?? [])
      assert.strictEqual(ends[0], ends[1])
      yield* invariants
    })
  )

  it.effect("of an expired rotation allows the next prepare", () =>
    Effect.gen(function* () {
      const { prepare, token } = yield* rotating()
      yield* TestClock.adjust("300 seconds")
      yield* sweep()
      assert.strictEqual((yield* prepare(token)).code, "bridge_rotation_expired")
      assert.strictEqual((yield* prepare(token, "second")).status, 201)
      yield* invariants
    })
  )

  it.effect("expires a token at its expiry", () =>
    Effect.gen(function* () {
      const { bridge, self, token } = yield* holder()
      yield* TestClock.adjust(Duration.days(2))
      yield* sweep()
      assert.deepInclude(yield* rowsLeft(bridge), { "token expired": 1, "identity active": 1 })
      assert.strictEqual((yield* self(token)).code, "bridge_token_expired")
    })
  )

  it.effect("leaves a rotation alone one millisecond before the end of its window", () =>
    Effect.gen(function* () {
      const { bridge } = yield* rotating()
      yield* TestClock.adjust(Duration.subtract(Duration.seconds(300), oneMilli))
      yield* changesNothing(bridge)
    })
  )

  it.effect("leaves a token alone one millisecond before its expiry", () =>
    Effect.gen(function* () {
      const { bridge } = yield* holder()
      yield* TestClock.adjust(Duration.subtract(Duration.days(1), oneMilli))
      yield* changesNothing(bridge)
    })
  )

  it.effect("keeps ended rows for 30 days", () =>
    Effect.gen(function* () {
      const { bridge } = yield* rotating()
      yield* revokeIdentity(bridge)
      yield* TestClock.adjust(kept)
      yield* sweep()
      assert.deepStrictEqual(yield* rowsLeft(bridge), {
        challenge: 1,
        credential: 1,
        "identity revoked": 1,
        "rotation cancelled": 1,
        "token revoked": 2
      })
    })
  )

  it.effect("then deletes every row but the identity, whose name stays taken", () =>
    Effect.gen(function* () {
      const { bridge, self, token } = yield* rotating()
      yield* revokeIdentity(bridge)
      yield* TestClock.adjust(Duration.sum(kept, Duration.hours(2)))
      yield* sweep()
      assert.deepStrictEqual(yield* rowsLeft(bridge), { "identity revoked": 1 })
      assert.strictEqual((yield* self(token)).code, "bridge_token_invalid")
      const next = yield* withNewCredential(bridge)
      assert.strictEqual((yield* next.askChallenge(yield* Service)).code, "bridge_revoked")
    })
  )

  it.effect("frees a name that was requested and never proved", () =>
    Effect.gen(function* () {
      const { bridge } = yield* challenged
      yield* TestClock.adjust(Duration.sum(kept, Duration.hours(2)))
      yield* sweep()
      assert.deepStrictEqual(yield* rowsLeft(bridge), {})
    })
  )

  it.effect("never deletes rows that a Bridge still needs, however long it rotates", () =>
    Effect.gen(function* () {
      const { bridge, token, ...on } = yield* holder()
      let current = token
      for (let i = 0; i < 45; i++) {
        yield* TestClock.adjust(Duration.hours(22))
        current = yield* rotate(on, current, `rotation-${i}`)
        if (i % 3 === 2) yield* sweep()
        yield* invariants
      }
      const rows = yield* rowsLeft(bridge)
      assert.deepInclude(rows, { "identity active": 1, "token active": 1 })
      assert.isBelow(rows["token revoked"]!, 36)
      assert.notProperty(rows, "credential")
      successorOf(yield* on.prepare(current, "pending"))
      yield* sweep()
      assert.deepInclude(yield* rowsLeft(bridge), { "token pending": 1, "rotation pending": 1 })
      const returning = yield* fresh({
        project_id: bridge.project_id,
        bridge_id: bridge.bridge_id,
        keys: bridge.keys,
        reenroll: bridge.bridge_id
      })
      assert.strictEqual((yield* holder(returning, "after")).token.length, 53)
    })
  )

  it.effect("runs batch after batch until one is not full, at most ten, and for five seconds", () =>
    Effect.gen(function* () {
      const batches = [1000, 1000, 3, 1000]
      const run: Sweep["run"] = (_, _now, limit) =>
        Effect.sync(() => Array.from({ length: Math.min(limit, batches.shift()!) }))
      assert.isFalse(yield* sweep([{ name: "in batches", run }]))
      assert.deepStrictEqual(batches, [1000])
      let endless = 0
      const goesOn = (_: unknown, __: Date, limit: number) =>
        Effect.sync(() => (endless++, Array.from({ length: limit })))
      assert.isTrue(yield* sweep([{ name: "endless", run: goesOn }]))
      assert.strictEqual(endless, 10)
      endless = 0
      const clock = vi.spyOn(performance, "now").mockImplementation(() => 2000 * endless)
      yield* Effect.addFinalizer(() => Effect.sync(() => clock.mockRestore()))
      assert.isTrue(yield* sweep([{ name: "slow", run: goesOn }]))
      assert.strictEqual(endless, 3)
      endless = 0
      const inParts: Sweep["run"] = Effect.fnUntraced(function* (_, _now, _limit, part) {
        const next = part!(Effect.sync(() => Option.some(endless++)))
        yield* Effect.repeat(next, { while: Option.isSome, times: 9 })
        return []
      })
      assert.isTrue(yield* sweep([{ name: "slow in parts", run: inParts, inParts: true }]))
      assert.strictEqual(endless, 3)
    })
  )

  it.effect("that does not finish leaves the others their turn, and goes on after a second, else a minute", () =>
    Effect.gen(function* () {
      const turns: Array<readonly [name: string, at: number]> = []
      const names = () => turns.map(([name]) => name)
      const sweeps = ["long", "next"].map((name): Sweep => ({
        name,
        run: (_, now, limit) =>
          Effect.sync(() => {
            if (turns.at(-1)?.[0] !== name) turns.push([name, now.getTime()])
            const isDone = name === "next" || turns.length > 4
            return Array.from({ length: isDone ? 0 : limit })
          })
      }))
      assert.isTrue(yield* sweep(sweeps))
      assert.deepStrictEqual(names(), ["long", "next"])
      yield* forever(sweeps)
      yield* TestClock.adjust("1 minute")
      yield* Effect.repeat(TestClock.adjust("200 millis").pipe(Effect.andThen(realPause)), {
        until: () => turns.length >= 6
      })
      assert.deepStrictEqual(names(), ["long", "next", "long", "next", "long", "next"])
      assert.isBelow(turns[4]![1] - turns[3]![1], 60_000)
      yield* Effect.repeat(TestClock.adjust("1 second").pipe(Effect.andThen(realPause)), { times: 9 })
      assert.lengthOf(turns, 6)
    })
  )

  it.effect("that never ends takes no other one's turn: the next round begins behind it", () =>
    Effect.gen(function* () {
      const turns: Array<string> = []
      const sweeps = ["first", "endless", "last"].map((name): Sweep => ({
        name,
        run: () =>
          Effect.suspend(() => {
            turns.push(name)
            return name === "endless" ? Effect.never : Effect.succeed([])
          })
      }))
      yield* forever(sweeps)
      yield* TestClock.adjust("1 minute")
      yield* Effect.repeat(realPause, { until: () => turns.length === 2 })
      yield* TestClock.adjust("10 minutes")
      yield* Effect.repeat(Effect.andThen(TestClock.adjust("1 second"), realPause), { until: () => turns.length >= 4 })
      assert.deepStrictEqual(turns.slice(0, 4), ["first", "endless", "last", "first"])
    })
  )

  it.effect("has twenty seconds for a batch", () =>
    Effect.gen(function* () {
      const run: Sweep["run"] = (sql) =>
        Effect.map(sql`select current_setting('statement_timeout') as time`, ([row]) => {
          limits = [row!["time"]]
          return [1, 2, 3]
        })
      let limits: ReadonlyArray<unknown> = []
      yield* sweep([{ name: "with a limit", run }])
      assert.deepStrictEqual(limits, ["20s"])
      // What it has done is counted.
      const swept = (yield* Metric.value(sweptRows("with a limit"))) as Metric.CounterState<number>
      assert.strictEqual(Number(swept.count), 3)
    })
  )

  it.effect("runs in one process at a time", () =>
    Effect.gen(function* () {
      const [started, done] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      let runs = 0
      const counted = (run: Effect.Effect<unknown>): ReadonlyArray<Sweep> => [
        {
          name: "one at a time",
          run: () =>
            Effect.as(
              Effect.andThen(
                Effect.sync(() => runs++),
                run
              ),
              []
            )
        }
      ]
      const first = yield* Effect.forkChild(
        sweep(counted(Effect.andThen(Deferred.succeed(started, undefined), Deferred.await(done))))
      )
      yield* Deferred.await(started)
      yield* sweep(counted(Effect.void))
      assert.strictEqual(runs, 1)
      yield* Deferred.succeed(done, undefined)
      yield* Fiber.join(first)
      yield* sweep(counted(Effect.void))
      assert.strictEqual(runs, 2)
    })
  )

  it.effect("runs every minute, even if other sweeps fail, and failures are counted", () =>
    Effect.gen(function* () {
      const { bridge } = yield* rotating()
      const sql = yield* SqlClient.SqlClient
      let failures = 0
      const failing = (run: Sweep["run"]): Sweep => ({
        name: `failing ${String(run)}`,
        run: (...given) => Effect.suspend(() => (failures++, run(...given)))
      })
      const bad = [failing((sql) => sql`select 1 / 0`), failing(() => Effect.die(new Error("A planted defect")))]
      yield* TestClock.adjust("300 seconds")
      yield* forever([...bad, ...bridgeSweeps])
      const pending = sql`
        select 1
          from bridge_rotation r
          join bridge_identity i using (identity_id)
         where i.bridge_id = ${bridge.bridge_id}
           and r.state = 'pending'`
      // A round that is still running after ten minutes of TestClock is interrupted: leave it time for its statements.
      const minute = Effect.andThen(TestClock.adjust("1 minute"), Effect.repeat(realPause, { times: 30 }))
      yield* Effect.repeat(Effect.andThen(minute, pending), {
        until: (rows) => rows.length === 0 && failures >= 4
      })
      for (const { name } of bad) {
        const failed = (yield* Metric.value(sweepFailures(name))) as Metric.CounterState<number>
        assert.isAtLeast(failed.count, 1, name)
      }
    })
  )
})
