/**
 * Races of rotation over two replicas: every outcome is legal, the invariants hold after every round, and
 * PostgreSQL refuses no statement. Which legal outcome comes is left to chance; late-statements.test.ts tests what a
 * statement does that was certainly overtaken.
 */
import { assert, layer } from "@effect/vitest"
import { Context, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { sweepOnce } from "../../../src/platform/database/Sweeper.ts"
import { Settings } from "../../../src/platform/settings/Settings.ts"
import { DatabaseClock } from "../../../src/platform/database/Clock.ts"
import { sweeps } from "../../../src/bridges/Wing.ts"
import { faultyDatabase } from "../../support/service/Faults.ts"
import type { Answer } from "../../support/network/Http.ts"
import { invariants } from "../../support/attacks/Invariants.ts"
import { callers, outcomeOf, race, sometime, tally } from "../../support/attacks/Race.ts"
import * as Replicas from "../../support/service/Replicas.ts"
import { instance, Service } from "../../support/service/Service.ts"
import { withNewCredential, revokeIdentity } from "../../support/bridges/Steps.ts"
import { holder, rotating, successorOf, type Tokens, tokens } from "../../support/bridges/Tokens.ts"

const replicas = Effect.map(Replicas.replicas(), ({ a, b, errors }) => {
  const on = [a, b].map((at) => ({ ...at, ...tokens(at) }))
  return { on, a: on[0]!, b: on[1]!, errors }
})
type Replicas = Effect.Success<typeof replicas>

/** Rounds on two replicas. PostgreSQL may report the errors in `refusals`; by default none. */
const rounds = <E, R>(round: (replicas: Replicas) => Effect.Effect<void, E, R>, refusals: ReadonlyArray<string> = []) =>
  Effect.gen(function* () {
    const on = yield* replicas
    yield* race(round(on), invariants)
    assert.deepStrictEqual(
      on.errors.filter((error) => !refusals.includes(error)),
      []
    )
  })

/** Runs all at once; returns the answers in the given order. */
const atOnce = <E, R>(calls: ReadonlyArray<Effect.Effect<Answer | string, E, R>>) =>
  Effect.map(Effect.all(calls, { concurrency: "unbounded" }), (answers) =>
    answers.map((answer) => (typeof answer === "string" ? answer : outcomeOf(answer)))
  )

const isOneOf = (value: unknown, ...legal: ReadonlyArray<unknown>) => assert.deepInclude(legal, value)

const oneSecret = (answers: ReadonlyArray<Answer>) =>
  assert.strictEqual(new Set(answers.filter(({ status }) => status < 300).map(({ text }) => text)).size, 1)

const emergency = (held: Effect.Success<ReturnType<typeof holder>>) => Effect.as(revokeIdentity(held.bridge), "revoked")

/** How the service answers a token now. */
const stateOf = (on: Tokens, token: string) => Effect.map(on.self(token), outcomeOf)

/** A sweep, as another replica would run it. */
const sweep = Effect.gen(function* () {
  const now = yield* TestClock.testClockWith((clock) => clock.currentTimeMillis)
  yield* sweepOnce(sweeps).pipe(
    Effect.provideService(Settings, Context.get((yield* Service).services, Settings)),
    Effect.provideService(DatabaseClock, {
      now: Effect.succeed(new Date(now)),
      nowIfKnown: Effect.succeedNone,
      offset: Effect.succeed(0)
    })
  )
  return "swept"
})

layer(Service.layer)("concurrent prepares", (it) => {
  it.effect("fifty with one key: one successor and its replays", () =>
    rounds(
      Effect.fnUntraced(function* ({ on }) {
        const { token } = yield* holder()
        const answers = yield* callers(on, 50, (at) => at.prepare(token))
        assert.deepStrictEqual(tally(answers), { "201": 1, "201 replayed": 49 })
        oneSecret(answers)
      })
    )
  )

  it.effect("fifty with fifty keys: one successor, and the others are refused", () =>
    rounds(
      Effect.fnUntraced(function* ({ on }) {
        const { token } = yield* holder()
        const answers = yield* callers(on, 50, (at, caller) => at.prepare(token, `key-${caller}`))
        assert.deepStrictEqual(tally(answers), { "201": 1, bridge_rotation_in_progress: 49 })
      })
    )
  )

  it.effect("after the window of a rotation, beside its late confirm: one new successor", () =>
    rounds(
      Effect.fnUntraced(function* ({ on, b }) {
        const { rotation_id, successor, token } = yield* rotating()
        yield* TestClock.adjust("300 seconds")
        const [answers, [late]] = yield* Effect.all(
          [
            callers(on, 8, (at, caller) => at.prepare(token, caller < 4 ? "second" : "third")),
            atOnce([sometime(b.confirm(successor, rotation_id))])
          ],
          { concurrency: "unbounded" }
        )
        assert.strictEqual(late, "bridge_rotation_expired")
        assert.deepStrictEqual(tally(answers), { "201": 1, "201 replayed": 3, bridge_rotation_in_progress: 4 })
        oneSecret(answers)
      })
    )
  )

  it.effect("with the key of a rotation that is being aborted: its successor, or bridge_rotation_aborted", () =>
    rounds(
      Effect.fnUntraced(function* ({ a, b }) {
        const { rotation_id, successor, token } = yield* rotating()
        const prepare = (at: Tokens) => sometime(at.prepare(token))
        const outcomes = yield* atOnce([prepare(a), prepare(b), prepare(a), sometime(b.abort(successor, rotation_id))])
        assert.strictEqual(outcomes.pop(), "200")
        for (const outcome of outcomes) isOneOf(outcome, "201 replayed", "bridge_rotation_aborted")
      })
    )
  )
})

layer(Service.layer)("concurrent confirms", (it) => {
  it.effect("fifty with two keys: the first key wins, and its retries get the same answer", () =>
    rounds(
      Effect.fnUntraced(function* ({ on }) {
        const { rotation_id, self, successor } = yield* rotating()
        const answers = yield* callers(on, 50, (at, caller) =>
          at.confirm(successor, rotation_id, caller % 4 < 2 ? "one" : "other")
        )
        const counts = tally(answers)
        assert.strictEqual(counts["200"], 1)
        isOneOf(counts["bridge_rotation_confirmed"], 24, 26)
        assert.strictEqual(1 + counts["200 replayed"]! + counts["bridge_rotation_confirmed"]!, 50)
        oneSecret(answers)
        assert.strictEqual((yield* self(successor)).status, 200)
      })
    )
  )

  it.effect("beside an abort: exactly one of them succeeds", () =>
    rounds(
      Effect.fnUntraced(function* ({ a, b }) {
        const { rotation_id, successor, token } = yield* rotating()
        const outcomes = yield* atOnce([
          sometime(a.confirm(successor, rotation_id)),
          sometime(b.abort(successor, rotation_id))
        ])
        const live = [yield* stateOf(a, token), yield* stateOf(b, successor)]
        isOneOf(
          [...outcomes, ...live],
          ["200", "bridge_rotation_confirmed", "bridge_token_revoked", "200"],
          ["bridge_rotation_aborted", "200", "200", "bridge_token_revoked"]
        )
      })
    )
  )

  it.effect("beside the end of the window and a sweep: it succeeds, or it is too late", () =>
    rounds(
      Effect.fnUntraced(function* ({ a, b }) {
        const { rotation_id, successor, token } = yield* rotating()
        yield* TestClock.adjust("299999 millis")
        const [confirmed] = yield* atOnce([
          sometime(a.confirm(successor, rotation_id)),
          sometime(Effect.as(TestClock.adjust("1 millis"), "over")),
          sometime(sweep)
        ])
        isOneOf(
          [confirmed, yield* stateOf(a, token), yield* stateOf(b, successor)],
          ["200", "bridge_token_revoked", "200"],
          ["bridge_rotation_expired", "200", "bridge_token_revoked"]
        )
      })
    )
  )

  it.effect("beside the predecessor's expiry and a sweep: it succeeds, or it is too late", () =>
    rounds(
      Effect.fnUntraced(function* ({ a, b }) {
        const { prepare, token } = yield* holder()
        yield* TestClock.adjust("86399 seconds")
        const { rotation_id, successor } = successorOf(yield* prepare(token))
        yield* TestClock.adjust("999 millis")
        const [confirmed] = yield* atOnce([
          sometime(a.confirm(successor, rotation_id)),
          sometime(Effect.as(TestClock.adjust("1 millis"), "over")),
          sometime(sweep)
        ])
        isOneOf(
          [confirmed, yield* stateOf(a, token), yield* stateOf(b, successor)],
          ["200", "bridge_token_revoked", "200"],
          ["bridge_rotation_predecessor_expired", "bridge_token_expired", "bridge_token_pending"]
        )
      })
    )
  )

  it.effect("beside a revocation of the predecessor: the second one is refused", () =>
    rounds(
      Effect.fnUntraced(function* ({ a, b }) {
        const { rotation_id, successor, token } = yield* rotating()
        const outcomes = yield* atOnce([sometime(a.confirm(successor, rotation_id)), sometime(b.revoke(token))])
        isOneOf(
          [...outcomes, yield* stateOf(a, successor)],
          ["200", "bridge_token_revoked", "200"],
          ["bridge_rotation_predecessor_revoked", "200", "bridge_token_revoked"]
        )
      })
    )
  )

  it.effect("beside an emergency revocation: no live token afterwards", () =>
    rounds(
      Effect.fnUntraced(function* ({ a, b }) {
        const held = yield* rotating()
        const [confirmed] = yield* atOnce([
          sometime(a.confirm(held.successor, held.rotation_id)),
          sometime(emergency(held))
        ])
        isOneOf(confirmed, "200", "bridge_revoked")
        assert.strictEqual(yield* stateOf(b, held.successor), "bridge_revoked")
      })
    )
  )

  it.effect("beside a proof of re-enrollment: only the proof's token is live", () =>
    rounds(
      Effect.fnUntraced(function* ({ a, b }) {
        const held = yield* rotating()
        const next = yield* withNewCredential(held.bridge, { reenroll: held.bridge.bridge_id })
        const challenge = yield* next.askChallenge(a)
        const [confirmed, proved] = yield* Effect.all(
          [sometime(a.confirm(held.successor, held.rotation_id)), sometime(next.prove(b, challenge, { key: "after" }))],
          { concurrency: "unbounded" }
        )
        isOneOf(outcomeOf(confirmed), "200", "bridge_rotation_predecessor_revoked")
        assert.strictEqual(yield* stateOf(a, proved.body.access_token), "200")
        assert.strictEqual(yield* stateOf(b, held.successor), "bridge_token_revoked")
      }),
      reenrolling
    )
  )

  it.effect("beside normal work: the successor is pending, then works; the predecessor works, then never again", () =>
    rounds(
      Effect.fnUntraced(function* ({ a, b }) {
        const { rotation_id, successor, token } = yield* rotating()
        const work = (at: Tokens, bearer: string) => [0, 1, 2, 3].map(() => sometime(at.self(bearer)))
        const [confirmed, ...seen] = yield* atOnce([
          sometime(a.confirm(successor, rotation_id)),
          ...work(b, successor),
          ...work(b, token)
        ])
        assert.strictEqual(confirmed, "200")
        for (const outcome of seen.slice(0, 4)) isOneOf(outcome, "bridge_token_pending", "200")
        for (const outcome of seen.slice(4)) isOneOf(outcome, "200", "bridge_token_revoked")
        assert.deepStrictEqual(
          [yield* stateOf(b, successor), yield* stateOf(b, token)],
          ["200", "bridge_token_revoked"]
        )
      })
    )
  )
})

layer(Service.layer)("a prepare", (it) => {
  it.effect("beside a revocation of its predecessor leaves no orphan", () =>
    rounds(
      Effect.fnUntraced(function* ({ a, b }) {
        const { token } = yield* holder()
        const [prepared, revoked] = yield* Effect.all([sometime(a.prepare(token)), sometime(b.revoke(token))], {
          concurrency: "unbounded"
        })
        assert.strictEqual(revoked.status, 200)
        isOneOf(outcomeOf(prepared), "201", "bridge_token_revoked")
        if (prepared.status !== 201) return
        const { rotation_id, successor } = successorOf(prepared)
        const confirmed = yield* a.confirm(successor, rotation_id)
        assert.strictEqual(confirmed.code, "bridge_rotation_predecessor_revoked")
      })
    )
  )

  it.effect("beside an emergency revocation leaves no orphan", () =>
    rounds(
      Effect.fnUntraced(function* ({ a }) {
        const held = yield* holder()
        const [prepared] = yield* atOnce([sometime(a.prepare(held.token)), sometime(emergency(held))])
        isOneOf(prepared, "201", "bridge_revoked")
      })
    )
  )

  it.effect("beside a proof of re-enrollment leaves only the proof's token", () =>
    rounds(
      Effect.fnUntraced(function* ({ a, b }) {
        const held = yield* holder()
        const next = yield* withNewCredential(held.bridge, { reenroll: held.bridge.bridge_id })
        const challenge = yield* next.askChallenge(a)
        const [prepared, proved] = yield* Effect.all(
          [sometime(a.prepare(held.token)), sometime(next.prove(b, challenge, { key: "after" }))],
          { concurrency: "unbounded" }
        )
        isOneOf(outcomeOf(prepared), "201", "bridge_token_revoked")
        assert.strictEqual(proved.status, 200, proved.text)
        assert.strictEqual(yield* stateOf(a, held.token), "bridge_token_revoked")
        assert.strictEqual(outcomeOf(yield* b.prepare(proved.body.access_token, "after")), "201")
      }),
      reenrolling
    )
  )

  it.effect("beside sweeps, after the window of a rotation, finds it settled or settles it", () =>
    rounds(
      Effect.fnUntraced(function* ({ a, b }) {
        const { rotation_id, successor, token } = yield* rotating()
        yield* TestClock.adjust("300 seconds")
        const [prepared, confirmed] = yield* atOnce([
          sometime(a.prepare(token, "second")),
          sometime(b.confirm(successor, rotation_id)),
          sometime(sweep),
          sometime(sweep)
        ])
        assert.deepStrictEqual([prepared, confirmed], ["201", "bridge_rotation_expired"])
      })
    )
  )
})

layer(Service.layer)("a replica", (it) => {
  it.effect(
    "that dies between the commit and its answer is replaced by another, which returns the same successor",
    () =>
      Effect.gen(function* () {
        const { fail, heal, layer } = faultyDatabase()
        const dying = tokens(yield* instance({}, layer))
        const { b: alive } = yield* replicas
        yield* race(
          Effect.gen(function* () {
            const { token } = yield* holder()
            yield* fail("disconnected after", 1)
            const [lost, answer] = yield* Effect.all([dying.prepare(token), sometime(alive.prepare(token))], {
              concurrency: "unbounded"
            })
            yield* heal
            isOneOf(outcomeOf(lost), "bridge_persistence_error", "201", "201 replayed")
            isOneOf(outcomeOf(answer), "201", "201 replayed")
            assert.strictEqual((yield* dying.prepare(token)).text, answer.text)
          }),
          invariants
        )
      })
  )

  it.effect("whose connections are all cut under fifty callers answers 503, and the retries converge", () =>
    Effect.gen(function* () {
      const on = (yield* replicas).on
      const sql = yield* SqlClient.SqlClient
      const cut = sql`
        select pg_terminate_backend(pid)
          from pg_stat_activity
         where datname = current_database()
           and application_name = 'bridge-service'`
      yield* race(
        Effect.gen(function* () {
          const { token } = yield* holder()
          const prepare = Effect.all(
            Array.from({ length: 50 }, (_, caller) => on[caller % 2]!.prepare(token)),
            { concurrency: "unbounded" }
          )
          const [answers] = yield* Effect.all([prepare, sometime(cut)], { concurrency: "unbounded" })
          for (const answer of answers) isOneOf(outcomeOf(answer), "201", "201 replayed", "bridge_persistence_error")
          const retried = yield* prepare
          for (const answer of retried) isOneOf(outcomeOf(answer), "201", "201 replayed")
          oneSecret([...answers, ...retried])
        }),
        invariants
      )
    })
  )
})

/** A whole rotation may come between a proof's snapshot and its lock: the unique index reports it, and the proof retries. */
const reenrolling = ["UniqueViolation 23505 one_active_token"]
