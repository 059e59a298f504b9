/**
 * A statement's snapshot is older than the lock that it waits for. Whatever others committed in between, it must decide on
 * the rows as they are when it acts, as if it had started after them.
 */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Exit, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { DatabaseClock } from "../../../src/platform/database/Clock.ts"
import { sweepOnce } from "../../../src/platform/database/Sweeper.ts"
import { Settings } from "../../../src/platform/settings/Settings.ts"
import { sweeps } from "../../../src/bridges/Wing.ts"
import { faultyDatabase } from "../../support/service/Faults.ts"
import { invariants } from "../../support/attacks/Invariants.ts"
import { isAsIfLater, overtaken, replicaAtGate, type Step as AnyStep, waitsAtGate } from "../../support/attacks/Late.ts"
import { outcomeOf } from "../../support/attacks/Race.ts"
import { instance, Service } from "../../support/service/Service.ts"
import { withNewCredential, revokeIdentity } from "../../support/bridges/Steps.ts"
import { holder, rotating, successorOf, type Tokens, tokens } from "../../support/bridges/Tokens.ts"

/** A Bridge in the middle of a rotation, and a re-enrollment of it that lacks only the proof. */
const world = Effect.gen(function* () {
  const service = yield* Service
  const held = yield* rotating()
  const next = yield* withNewCredential(held.bridge, { reenroll: held.bridge.bridge_id })
  return { ...held, next, challenge: yield* next.askChallenge(service) }
})
type World = Effect.Success<typeof world>

type Step = AnyStep<World, Service>

const answered =
  (step: (world: World, on: Tokens & { readonly url: string }) => ReturnType<Tokens["self"]>): Step =>
  (world, on) =>
    Effect.map(step(world, on), outcomeOf)

const prepare = (key: string) => answered(({ token }, on) => on.prepare(token, key))
const confirm = answered(({ rotation_id, successor }, on) => on.confirm(successor, rotation_id))
const abort = answered(({ rotation_id, successor }, on) => on.abort(successor, rotation_id))
const revoke = answered(({ token }, on) => on.revoke(token))
const prove = answered(({ challenge, next }, on) => next.prove(on, challenge, { key: "after" }))
const emergency: Step = ({ bridge }) => Effect.as(revokeIdentity(bridge), "done")
const windowEnds: Step = () => Effect.as(TestClock.adjust("1 millis"), "done")
/** Prepares and ends a rotation: a whole rotation that the late statement's snapshot does not contain. */
const whole = (key: string, end: "confirm" | "abort") =>
  answered(({ token }, on) =>
    Effect.flatMap(on.prepare(token, key), (prepared) => {
      const { rotation_id, successor } = successorOf(prepared)
      return Effect.tap(on[end](successor, rotation_id, key), ({ status, text }) =>
        Effect.sync(() => assert.strictEqual(status, 200, text))
      )
    })
  )

const late: Readonly<Record<string, Step>> = {
  "a prepare": prepare("late"),
  "a confirm": confirm,
  "an abort": abort,
  "a revoke": revoke,
  "a proof of re-enrollment": prove
}

const meanwhile: Readonly<Record<string, ReadonlyArray<Step>>> = {
  "a confirm": [confirm],
  "an abort": [abort],
  "a revoke": [revoke],
  "a re-enrollment": [prove],
  "an emergency revocation": [emergency],
  "an abort and a new prepare": [abort, prepare("new")],
  "an abort and a prepare with the same key": [abort, prepare("late")],
  "an abort, then a rotation aborted with the same key": [abort, whole("late", "abort")],
  "an abort, then a whole rotation": [abort, whole("late", "confirm")],
  "an abort, a whole rotation, and an emergency revocation": [abort, whole("new", "confirm"), emergency]
}

/** A statement keeps the instant of its start, but what was settled meanwhile stays settled. */
const pastItsInstant: Readonly<
  Record<string, readonly [meanwhile: ReadonlyArray<Step>, outcomes: ReadonlyArray<string>]>
> = {
  "the end of the window": [[windowEnds], ["bridge_rotation_in_progress", "200", "200", "200", "200"]],
  "the end of the window and a new prepare": [
    [windowEnds, prepare("new")],
    ["bridge_rotation_in_progress", "bridge_rotation_expired", "bridge_rotation_expired", "200", "200"]
  ],
  "the end of the window and a prepare with the same key": [
    [windowEnds, prepare("late")],
    ["201 replayed", "bridge_rotation_expired", "bridge_rotation_expired", "200", "200"]
  ]
}

/** A whole rotation that the proof's snapshot lacks has left a token: the unique index reports it, and the proof retries. */
const expected = ["UniqueViolation 23505 one_active_token"]

layer(Service.layer)("a statement that was overtaken", (it) => {
  const direct = Effect.map(Service, (on) => ({ ...tokens(on), url: on.url }))

  for (const [name, step] of Object.entries(late)) {
    for (const [between, steps] of Object.entries(meanwhile)) {
      it.effect(`${name}, overtaken by ${between}, is answered as if it had come later`, () =>
        Effect.gen(function* () {
          const on = { on: yield* direct, slow: yield* replicaAtGate, expected }
          yield* isAsIfLater([yield* world, yield* world], step, steps, on)
        })
      )
    }
    for (const [between, [steps, outcomes]] of Object.entries(pastItsInstant)) {
      it.effect(`${name}, overtaken by ${between}, is answered as of its own instant, unless that was settled`, () =>
        Effect.gen(function* () {
          const on = yield* direct
          const slow = yield* replicaAtGate
          const one = yield* world
          yield* TestClock.adjust("299999 millis")
          const outcome = yield* overtaken(
            step(one, slow),
            Effect.forEach(steps, (each) => each(one, on))
          )
          assert.strictEqual(outcome, outcomes[Object.keys(late).indexOf(name)])
          assert.deepStrictEqual(slow.errors, [])
          yield* invariants
        })
      )
    }
  }

  it.effect("a sweep, overtaken by a confirm, settles nothing", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { confirm, rotation_id, self, successor } = yield* rotating()
      const { layer } = faultyDatabase(waitsAtGate)
      const slow = Context.get(
        yield* Layer.build(Layer.provide(layer, Layer.succeed(SqlClient.SqlClient, sql))),
        SqlClient.SqlClient
      )
      const later = new Date((yield* TestClock.testClockWith((clock) => clock.currentTimeMillis)) + 300_000)
      const sweep = sweepOnce(sweeps).pipe(
        Effect.provideService(SqlClient.SqlClient, slow),
        Effect.provideService(Settings, Context.get((yield* Service).services, Settings)),
        Effect.provideService(DatabaseClock, {
          now: Effect.succeed(later),
          nowIfKnown: Effect.succeedNone,
          offset: Effect.succeed(0)
        })
      )
      yield* overtaken(sweep, confirm(successor, rotation_id))
      assert.strictEqual((yield* self(successor)).status, 200)
      yield* invariants
    })
  )
})

layer(Service.layer)("without its guard", (it) => {
  const guard = /pending_rotation_id is null\s+or exists \(select 1 from bridge_rotation v[^)]*\)/

  /** Prepare overtakes a revocation of its predecessor; returns the broken invariants. */
  const overtake = (edited: (statement: string) => string) =>
    Effect.gen(function* () {
      let edits = 0
      const { layer } = faultyDatabase((statement) => {
        const other = edited(statement)
        if (other !== statement) edits++
        return waitsAtGate(other)
      })
      const slow = tokens(yield* instance({}, layer))
      const { prepare, token } = yield* holder()
      const revoked = yield* overtaken(slow.revoke(token), prepare(token))
      assert.strictEqual(revoked.status, 200, revoked.text)
      return { edits, held: yield* Effect.exit(invariants) }
    })

  it.effect("a revocation overtaken by a prepare leaves a live successor behind; with its guard it leaves none", () =>
    Effect.gen(function* () {
      const guarded = yield* overtake((statement) => statement)
      assert.isTrue(Exit.isSuccess(guarded.held))
      const unguarded = yield* overtake((statement) => statement.replace(guard, "true"))
      assert.strictEqual(unguarded.edits, 1)
      assert.isTrue(Exit.isFailure(unguarded.held))
    })
  )
})
