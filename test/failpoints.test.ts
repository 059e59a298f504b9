/**
 * Every mutation, with each of its statements failing in each way a database fails: the rows are as before or as after,
 * never between, the audit row included; the answer is the true one or asks for a retry; and the retry converges.
 */
import { assert, layer } from "@effect/vitest"
import { Context, Duration, Effect, Option } from "effect"
import { ProjectTokens } from "../src/access/ProjectTokens.ts"
import { Bridges } from "../src/bridge/Bridges.ts"
import { databaseLoss } from "../src/database/Persistence.ts"
import { Credentials } from "../src/enrollment/Credentials.ts"
import { Projects } from "../src/projects/Projects.ts"
import { Bridge } from "./support/Bridge.ts"
import { faults, faultyDatabase } from "./support/Faults.ts"
import type { Answer } from "./support/Http.ts"
import { invariants } from "./support/Invariants.ts"
import { outcomeOf } from "./support/Race.ts"
import { instance, Service } from "./support/Service.ts"
import { shapeOf } from "./support/Shape.ts"
import { successorOf, tokens } from "./support/Tokens.ts"

type On = Effect.Success<ReturnType<typeof instance>>

/** Everything that any of the operations needs: an enrolled Bridge in the middle of a rotation, and one to enroll. */
const world = Effect.gen(function* () {
  const service = yield* Service
  const bridge = yield* Bridge.make(service)
  const token = yield* bridge.enroll(service)
  const { rotation_id, successor } = successorOf(yield* tokens(service).prepare(token, "earlier"))
  const newcomer = yield* Bridge.make(service, { project_id: bridge.project_id })
  const challenged = yield* Bridge.make(service, { project_id: bridge.project_id })
  const challenge = yield* challenged.askChallenge(service)
  const secrets = yield* Effect.replicateEffect(Context.get(service.services, Credentials).mint, 2)
  const token_secret = yield* Context.get(service.services, ProjectTokens).mint
  return { bridge, token, rotation_id, successor, newcomer, challenged, challenge, secrets, token_secret }
})
type World = Effect.Success<typeof world>

interface Operation {
  /** What comes before it, on an instance that works. */
  readonly after?: (on: On, world: World) => Effect.Effect<unknown, unknown>
  readonly run: (on: On, world: World) => Effect.Effect<string>
  /** What the retry is told when the first attempt did happen. */
  readonly again: string
}

const http = (again: string, run: (on: On, world: World) => Effect.Effect<Answer>): Operation => ({
  run: (on, world) => Effect.map(run(on, world), outcomeOf),
  again
})

/** The operator's commands, which name a failure as the edge does. */
const command = (
  run: (on: On["services"], world: World) => Effect.Effect<unknown, { readonly _tag: string }>
): Operation => ({
  run: ({ services }, world) =>
    run(services, world).pipe(
      Effect.as("done"),
      Effect.catchCause((cause) => {
        const [reason] = cause.reasons
        if (reason?._tag === "Fail") return Effect.succeed(reason.error._tag)
        return Effect.succeed(Option.isSome(databaseLoss(cause)) ? "bridge_persistence_error" : "internal_error")
      })
    ),
  again: "done"
})

const operations: Readonly<Record<string, Operation>> = {
  "create a challenge": http("201 replayed", (on, { newcomer }) => newcomer.askChallenge(on)),
  prove: http("200 replayed", (on, { challenge, challenged }) => challenged.prove(on, challenge)),
  prepare: {
    ...http("201 replayed", (on, { token }) => tokens(on).prepare(token, "next")),
    after: (on, { rotation_id, successor }) => tokens(on).abort(successor, rotation_id)
  },
  confirm: http("200 replayed", (on, { rotation_id, successor }) => tokens(on).confirm(successor, rotation_id)),
  abort: http("200 replayed", (on, { rotation_id, successor }) => tokens(on).abort(successor, rotation_id)),
  "revoke a token": http("bridge_token_revoked", (on, { token }) => tokens(on).revoke(token)),
  "issue credentials": command((on, { bridge, secrets }) => {
    const order = {
      project_id: bridge.project_id,
      account_references: ["github:octo"],
      ttl: Duration.hours(1),
      reenroll_bridge_id: undefined
    }
    return Context.get(on, Credentials).issue(order, secrets)
  }),
  "issue a project token": command((on, { bridge, token_secret }) => {
    const order = { project_id: bridge.project_id, role: "reader" as const, scopes: [], ttl: Option.none() }
    return Context.get(on, ProjectTokens).issue(order, token_secret)
  }),
  "revoke a credential": command((on, { challenged }) => Context.get(on, Credentials).revoke(challenged.credential_id)),
  "revoke a Bridge": command((on, { bridge }) => Context.get(on, Bridges).revoke(bridge.project_id, bridge.bridge_id)),
  "disable a project": command((on, { bridge }) => Context.get(on, Projects).disable(bridge.project_id)),
  "withdraw an account reference": command((on, { bridge }) =>
    Context.get(on, Projects).withdrawReference(bridge.project_id, "github:octo")
  )
}

layer(Service.layer)("when a statement fails", (it) => {
  const start = Effect.fnUntraced(function* ({ after }: Operation) {
    const made = yield* world
    if (after !== undefined) yield* after(yield* Service, made)
    return made
  })

  for (const [name, operation] of Object.entries(operations)) {
    for (const fault of faults) {
      it.effect(`${name}: ${fault}, whichever it is`, () =>
        Effect.gen(function* () {
          const service = yield* Service
          const database = faultyDatabase()
          const on = yield* instance({}, database.layer)
          const twin = yield* start(operation)
          const before = yield* shapeOf(twin.bridge.project_id)
          const outcome = yield* operation.run(service, twin)
          const after = yield* shapeOf(twin.bridge.project_id)
          assert.notDeepEqual(after, before)

          for (let nth = 1; ; nth++) {
            const made = yield* start(operation)
            yield* database.fail(fault, nth)
            const answered = yield* operation.run(on, made)
            const struck = yield* database.heal
            const found = yield* shapeOf(made.bridge.project_id)
            const at = `${fault} at statement ${nth}: ${answered}`
            if (!struck) {
              assert.deepStrictEqual([answered, found], [outcome, after], at)
              assert.isAbove(nth, 1)
              break
            }
            const happened = found.length === after.length && found.every((row, i) => row === after[i])
            if (!happened) assert.deepStrictEqual(found, before, at)
            if (answered === outcome) assert.isTrue(happened, at)
            else assert.strictEqual(answered, fault === "broken" ? "internal_error" : "bridge_persistence_error", at)

            assert.strictEqual(yield* operation.run(on, made), happened ? operation.again : outcome, at)
            assert.deepStrictEqual(yield* shapeOf(made.bridge.project_id), after, at)
          }
          yield* invariants
        })
      )
    }
  }
})
