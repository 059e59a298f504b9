/** Every mutation by Bridges and their operator, with each of its statements failing in every way a database fails. */
import { layer } from "@effect/vitest"
import { Context, Duration, Effect, Option } from "effect"
import { ProjectTokens } from "../../../src/signin/access/ProjectTokens.ts"
import { Bridges } from "../../../src/bridges/identity/Bridges.ts"
import { Credentials } from "../../../src/bridges/enrollment/Credentials.ts"
import { Projects } from "../../../src/operator/projects/Projects.ts"
import { Bridge } from "../../support/bridges/Bridge.ts"
import { command, type Operation, request, sweep } from "../../support/attacks/Failpoints.ts"
import { Service } from "../../support/service/Service.ts"
import { abortKey, confirmKey, keyRotating, prepareKey } from "../../support/bridges/KeyRotations.ts"
import { shapeOf } from "../../support/attacks/Shape.ts"
import { successorOf, tokens } from "../../support/bridges/Tokens.ts"

/** What the operations need: an enrolled Bridge in the middle of a rotation, and one that has not enrolled. */
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

const http = request<World>()
const operator = command<World>()

const operations: Readonly<Record<string, Operation<World>>> = {
  "create a challenge": http("201 replayed", (on, { newcomer }) => newcomer.askChallenge(on)),
  prove: http("200 replayed", (on, { challenge, challenged }) => challenged.prove(on, challenge), {
    // Each replay leaves a row.
    settled: (shape) => shape.filter((row) => !row.includes("bridge.proof_replayed"))
  }),
  prepare: http("201 replayed", (on, { token }) => tokens(on).prepare(token, "next"), {
    after: (on, { rotation_id, successor }) => tokens(on).abort(successor, rotation_id)
  }),
  confirm: http("200 replayed", (on, { rotation_id, successor }) => tokens(on).confirm(successor, rotation_id)),
  abort: http("200 replayed", (on, { rotation_id, successor }) => tokens(on).abort(successor, rotation_id)),
  "revoke a token": http("bridge_token_revoked", (on, { token }) => tokens(on).revoke(token)),
  "issue credentials": operator((on, { bridge, secrets }) => {
    const order = {
      project_id: bridge.project_id,
      account_references: ["github:octo"],
      ttl: Duration.hours(1),
      reenroll_bridge_id: undefined
    }
    return Context.get(on, Credentials).issue(order, secrets)
  }),
  "issue a project token": operator((on, { bridge, token_secret }) => {
    const order = { project_id: bridge.project_id, role: "reader" as const, scopes: [], ttl: Option.none() }
    return Context.get(on, ProjectTokens).issue(order, token_secret)
  }),
  "revoke a credential": operator((on, { challenged }) =>
    Context.get(on, Credentials).revoke(challenged.credential_id)
  ),
  "revoke a Bridge": operator((on, { bridge }) => Context.get(on, Bridges).revoke(bridge.project_id, bridge.bridge_id)),
  "disable a project": operator((on, { bridge }) => Context.get(on, Projects).disable(bridge.project_id)),
  "enable a project": {
    ...operator((on, { bridge }) => Context.get(on, Projects).enable(bridge.project_id)),
    after: ({ services }, { bridge }) => Context.get(services, Projects).disable(bridge.project_id)
  },
  "approve an account reference": operator((on, { bridge }) =>
    Context.get(on, Projects).approveReference(bridge.project_id, "github:other", Option.some("Other"))
  ),
  "approve a withdrawn account reference": {
    ...operator((on, { bridge }) =>
      Context.get(on, Projects).approveReference(bridge.project_id, "github:octo", Option.none())
    ),
    after: ({ services }, { bridge }) =>
      Context.get(services, Projects).withdrawReference(bridge.project_id, "github:octo")
  },
  "withdraw an account reference": operator((on, { bridge }) =>
    Context.get(on, Projects).withdrawReference(bridge.project_id, "github:octo")
  )
}

type KeyWorld = Effect.Success<typeof keyRotating>
const key = request<KeyWorld>()
const ofKeys = command<KeyWorld>()

/** Of a Bridge in the middle of a key rotation. */
const keyOperations: Readonly<Record<string, Operation<KeyWorld>>> = {
  "prepare a key": key("201 replayed", (on, { next, old, token }) => prepareKey(on, token, old, next, "next"), {
    after: (on, { old, prepared, token }) => abortKey(on, token, old, prepared)
  }),
  "confirm a key": key("200 replayed", (on, { next, old, prepared, token }) =>
    confirmKey(on, token, old, next, prepared)
  ),
  "abort a key": key("200 replayed", (on, { old, prepared, token }) => abortKey(on, token, old, prepared)),
  "require a new key": ofKeys((on, { bridge }) =>
    Context.get(on, Bridges).requireKeyRotation(bridge.project_id, bridge.bridge_id)
  ),
  "lift the need of proofs": ofKeys((on, { bridge }) =>
    Context.get(on, Bridges).liftDpop(bridge.project_id, bridge.bridge_id)
  )
}

layer(Service.layer)("when a statement fails", (it) => {
  sweep(it, world, ({ bridge }) => shapeOf(bridge.project_id), operations)
  sweep(it, keyRotating, ({ bridge }) => shapeOf(bridge.project_id), keyOperations)
})
