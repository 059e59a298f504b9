/**
 * Races of enrollment over two replicas: every outcome is legal, and the invariants hold after every
 * round. Which legal outcome comes is left to chance.
 */
import { assert, layer } from "@effect/vitest"
import { Context, Duration, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { Projects } from "../../../src/operator/projects/Projects.ts"
import { Bridges } from "../../../src/bridges/identity/Bridges.ts"
import { generateKeyPair } from "../../../src/client/Crypto.ts"
import { Credentials } from "../../../src/bridges/enrollment/Credentials.ts"
import { Bridge } from "../../support/bridges/Bridge.ts"
import type { Answer } from "../../support/network/Http.ts"
import { invariants } from "../../support/attacks/Invariants.ts"
import { callers, outcomeOf, race, sometime, tally, together } from "../../support/attacks/Race.ts"
import * as Replicas from "../../support/service/Replicas.ts"
import { Service } from "../../support/service/Service.ts"
import { withNewCredential, ask, challenged, enrolled, fresh, withNewKey } from "../../support/bridges/Steps.ts"

const replicas = Effect.map(Replicas.replicas(), ({ on }) => on)

/** All successes have the same body, and so the same secret. */
const oneSecret = (answers: ReadonlyArray<Answer>) => {
  const bodies = new Set(answers.filter(({ status }) => status < 300).map(({ text }) => text))
  assert.isAtMost(bodies.size, 1)
}

const claims = Effect.fnUntraced(function* (bridges: ReadonlyArray<Bridge>) {
  const sql = yield* SqlClient.SqlClient
  const ids = bridges.map(({ credential_id }) => credential_id)
  const [row] = yield* sql<{ claimed: number }>`
    select count(claimed_at)::int as claimed
      from bridge_enrollment_credential
     where credential_id = any (${ids}::uuid[])`
  return row!.claimed
})

const state = Effect.fnUntraced(function* (bridge: Bridge) {
  const bridges = Context.get((yield* Service).services, Bridges)
  const { status, tokens } = yield* bridges.show(bridge.project_id, bridge.bridge_id)
  return [status, ...tokens.map((token) => token.state)].join(" ")
})

const isOneOf = (value: unknown, legal: ReadonlyArray<unknown>) => assert.deepInclude(legal, value)

layer(Service.layer, { timeout: "60 seconds" })("concurrent challenges", (it) => {
  it.effect("one credential, one key, one body: one challenge and its replays", () =>
    Effect.gen(function* () {
      const on = yield* replicas
      yield* race(
        Effect.gen(function* () {
          const bridge = yield* fresh()
          const answers = yield* callers(on, 8, (one) => bridge.askChallenge(one))
          assert.deepStrictEqual(tally(answers), { "201": 1, "201 replayed": 7 })
          oneSecret(answers)
        }),
        invariants
      )
    })
  )

  it.effect("fifty callers: one challenge and its replays", () =>
    Effect.gen(function* () {
      const on = yield* replicas
      const bridge = yield* fresh()
      const answers = yield* callers(on, 50, (one) => bridge.askChallenge(one))
      assert.deepStrictEqual(tally(answers), { "201": 1, "201 replayed": 49 })
      oneSecret(answers)
    })
  )

  it.effect("one credential, eight keys: one challenge", () =>
    Effect.gen(function* () {
      const on = yield* replicas
      yield* race(
        Effect.gen(function* () {
          const bridge = yield* fresh()
          const answers = yield* callers(on, 8, (one, caller) => bridge.askChallenge(one, { key: `key-${caller}` }))
          assert.deepStrictEqual(tally(answers), { "201": 1, bridge_enrollment_credential_used: 7 })
        }),
        invariants
      )
    })
  )

  it.effect("one key, eight bodies: one challenge", () =>
    Effect.gen(function* () {
      const on = yield* replicas
      yield* race(
        Effect.gen(function* () {
          const bridge = yield* fresh()
          const answers = yield* callers(on, 8, (one, caller) =>
            bridge.askChallenge(one, { body: { display_name: `Bridge ${caller}` } })
          )
          assert.deepStrictEqual(tally(answers), { "201": 1, idempotency_conflict: 7 })
        }),
        invariants
      )
    })
  )

  it.effect("one bridge_id, eight credentials and keys: one Bridge, and the others keep their credentials", () =>
    Effect.gen(function* () {
      const on = yield* replicas
      yield* race(
        Effect.gen(function* () {
          const first = yield* fresh()
          const bridges = [first, ...(yield* Effect.all(Array.from({ length: 7 }, () => withNewKey(first))))]
          const answers = yield* callers(on, 8, (one, caller) => bridges[caller]!.askChallenge(one))
          assert.deepStrictEqual(tally(answers), { "201": 1, bridge_identity_conflict: 7 })
          assert.strictEqual(yield* claims(bridges), 1)
        }),
        invariants
      )
    })
  )

  it.effect("a claimed credential with an expired challenge, eight keys: one new challenge", () =>
    Effect.gen(function* () {
      const on = yield* replicas
      yield* race(
        Effect.gen(function* () {
          const { bridge } = yield* challenged
          yield* TestClock.adjust("10 minutes")
          const answers = yield* callers(on, 8, (one, caller) => bridge.askChallenge(one, { key: `key-${caller}` }))
          assert.deepStrictEqual(tally(answers), { "201": 1, bridge_enrollment_credential_used: 7 })
        }),
        invariants
      )
    })
  )
})

layer(Service.layer, { timeout: "60 seconds" })("concurrent proofs", (it) => {
  it.effect("of one challenge under two keys: one token, replayed only under its own key", () =>
    Effect.gen(function* () {
      const on = yield* replicas
      yield* race(
        Effect.gen(function* () {
          const { bridge, challenge } = yield* challenged
          const answers = yield* callers(on, 8, (one, caller) =>
            bridge.prove(one, challenge, { key: caller < 6 ? "key-a" : "key-b" })
          )
          isOneOf(tally(answers), [
            { "200": 1, "200 replayed": 5, enrollment_challenge_consumed: 2 },
            { "200": 1, "200 replayed": 1, enrollment_challenge_consumed: 6 }
          ])
          oneSecret(answers)
        }),
        invariants
      )
    })
  )

  it.effect("of two challenges of one Bridge: one token", () =>
    Effect.gen(function* () {
      const on = yield* replicas
      yield* race(
        Effect.gen(function* () {
          const { bridge, challenge } = yield* challenged
          const twin = yield* withNewCredential(bridge)
          const other = yield* ask(twin)
          const answers = yield* callers(on, 8, (one, caller) =>
            caller % 4 < 2 ? bridge.prove(one, challenge, { key: "key-a" }) : twin.prove(one, other, { key: "key-b" })
          )
          assert.deepStrictEqual(tally(answers), { "200": 1, "200 replayed": 3, bridge_not_pending: 4 })
          oneSecret(answers)
        }),
        invariants
      )
    })
  )

  it.effect("of two challenges under one key: one token, and the other request is refused", () =>
    Effect.gen(function* () {
      const on = yield* replicas
      yield* race(
        Effect.gen(function* () {
          const { bridge } = yield* enrolled
          const returning = yield* Effect.all([
            withNewCredential(bridge, { reenroll: bridge.bridge_id }),
            withNewCredential(bridge, { reenroll: bridge.bridge_id })
          ])
          const challenges = yield* Effect.forEach(returning, (one) => ask(one))
          const answers = yield* callers(on, 8, (one, caller) => {
            const which = caller % 4 < 2 ? 0 : 1
            return returning[which].prove(one, challenges[which]!, { key: "one-key" })
          })
          assert.deepStrictEqual(tally(answers), { "200": 1, "200 replayed": 3, idempotency_conflict: 4 })
          oneSecret(answers)
        }),
        invariants
      )
    })
  )

  it.effect("of two re-enrollments: the later one replaces the earlier", () =>
    Effect.gen(function* () {
      const on = yield* replicas
      yield* race(
        Effect.gen(function* () {
          const { bridge } = yield* enrolled
          const returning = yield* Effect.all([
            withNewCredential(bridge, { reenroll: bridge.bridge_id }),
            withNewKey(bridge, { reenroll: bridge.bridge_id })
          ])
          const challenges = yield* Effect.forEach(returning, (one) => ask(one))
          const answers = yield* callers(on, 2, (one, caller) =>
            returning[caller]!.prove(one, challenges[caller]!, { key: `key-${caller}` })
          )
          assert.deepStrictEqual(tally(answers), { "200": 2 })
          assert.strictEqual((yield* state(bridge)).split(" ").filter((token) => token === "active").length, 2)
        }),
        invariants
      )
    })
  )

  it.effect("while the challenge expires: a token or an expired challenge, never both", () =>
    Effect.gen(function* () {
      const on = yield* replicas
      yield* race(
        Effect.gen(function* () {
          const { bridge, challenge } = yield* challenged
          const oneMilli = Duration.millis(1)
          yield* TestClock.adjust(Duration.subtract(Duration.minutes(10), oneMilli))
          const proofs = callers(on, 4, (one) => bridge.prove(one, challenge))
          const [answers] = yield* Effect.all([proofs, sometime(TestClock.adjust(oneMilli))], {
            concurrency: "unbounded"
          })
          const after = yield* state(bridge)
          const outcomes = new Set(answers.map(outcomeOf))
          assert.strictEqual(outcomes.has("200"), after === "active active")
          if (!outcomes.has("200")) assert.deepStrictEqual([...outcomes], ["enrollment_challenge_expired"])
          oneSecret(answers)
        }),
        invariants
      )
    })
  )

  it.effect("while the credential is revoked: a token that stays valid, or none", () =>
    Effect.gen(function* () {
      const on = yield* replicas
      const credentials = Context.get(on[1].services, Credentials)
      yield* race(
        Effect.gen(function* () {
          const { bridge, challenge } = yield* challenged
          const proofs = callers(on, 3, (one) => bridge.prove(one, challenge))
          const [answers] = yield* Effect.all([proofs, sometime(credentials.revoke(bridge.credential_id))], {
            concurrency: "unbounded"
          })
          const outcomes = tally(answers)
          if (outcomes["200"] === 1) assert.strictEqual(yield* state(bridge), "active active")
          else
            assert.deepStrictEqual([outcomes, yield* state(bridge)], [{ enrollment_challenge_expired: 3 }, "pending"])
          assert.strictEqual(
            outcomeOf((yield* together([bridge.askChallenge(on[0])]))[0]!),
            "bridge_enrollment_credential_revoked"
          )
        }),
        invariants
      )
    })
  )

  it.effect("while the account reference is withdrawn: a token, or a revoked credential, never both", () =>
    Effect.gen(function* () {
      const on = yield* replicas
      const projects = Context.get(on[1].services, Projects)
      yield* race(
        Effect.gen(function* () {
          const { bridge, challenge } = yield* challenged
          const proofs = callers(on, 3, (one) => bridge.prove(one, challenge))
          const withdrawal = sometime(projects.withdrawReference(bridge.project_id, "github:octo"))
          const [answers, revoked] = yield* Effect.all([proofs, withdrawal], { concurrency: "unbounded" })
          isOneOf(
            [tally(answers), yield* state(bridge), revoked],
            [
              [{ "200": 1, "200 replayed": 2 }, "active active", []],
              [{ enrollment_challenge_expired: 3 }, "pending", [bridge.credential_id]]
            ]
          )
        }),
        invariants
      )
    })
  )

  it.effect("while the identity is revoked: no live token afterwards", () =>
    Effect.gen(function* () {
      const on = yield* replicas
      const bridges = Context.get(on[1].services, Bridges)
      yield* race(
        Effect.gen(function* () {
          const { bridge, challenge } = yield* challenged
          const proofs = callers(on, 3, (one) => bridge.prove(one, challenge))
          const [answers] = yield* Effect.all([proofs, sometime(bridges.revoke(bridge.project_id, bridge.bridge_id))], {
            concurrency: "unbounded"
          })
          for (const answer of answers) isOneOf(outcomeOf(answer), ["200", "200 replayed", "bridge_revoked"])
          isOneOf(yield* state(bridge), ["revoked", "revoked revoked"])
        }),
        invariants
      )
    })
  )

  it.effect("of fifty Bridges of one project: fifty tokens", () =>
    Effect.gen(function* () {
      const on = yield* replicas
      const first = yield* fresh()
      const bridges = yield* Effect.forEach(Array.from({ length: 50 }), () =>
        Effect.flatMap(generateKeyPair, (keys) => fresh({ project_id: first.project_id, keys }))
      )
      const answers = yield* callers(on, 50, (one, caller) =>
        Effect.flatMap(bridges[caller]!.askChallenge(one), (challenge) => bridges[caller]!.prove(one, challenge))
      )
      assert.deepStrictEqual(tally(answers), { "200": 50 })
      assert.strictEqual(new Set(answers.map(({ body }) => body.access_token)).size, 50)
      yield* invariants
    })
  )
})
