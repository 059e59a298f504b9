/** The steps of enrollment on the service under test, and the operator's commands that end their results. */
import { assert } from "@effect/vitest"
import { Context, Effect } from "effect"
import { Bridges } from "../../../src/bridges/identity/Bridges.ts"
import { generateKeyPair } from "../../../src/client/Crypto.ts"
import { Credentials } from "../../../src/bridges/enrollment/Credentials.ts"
import { Projects } from "../../../src/operator/projects/Projects.ts"
import { Bridge } from "./Bridge.ts"
import type { Answer } from "../network/Http.ts"
import { Service } from "../service/Service.ts"

/** A Bridge with a valid credential that has sent nothing yet. */
export const fresh = (given: Parameters<typeof Bridge.make>[1] = {}) =>
  Effect.flatMap(Service, (service) => Bridge.make(service, given))
export const ask = (bridge: Bridge, given: Parameters<Bridge["askChallenge"]>[1] = {}) =>
  Effect.flatMap(Service, (service) => bridge.askChallenge(service, given))
export const prove = (bridge: Bridge, challenge: Answer, given: Parameters<Bridge["prove"]>[2] = {}) =>
  Effect.flatMap(Service, (service) => bridge.prove(service, challenge, given))

/** A Bridge with an open challenge. */
export const challenged = Effect.gen(function* () {
  const bridge = yield* fresh()
  return { bridge, challenge: yield* ask(bridge) }
})
/** A Bridge that has proved its key. */
export const enrolled = Effect.gen(function* () {
  const { bridge, challenge } = yield* challenged
  const proof = yield* prove(bridge, challenge)
  assert.strictEqual(proof.status, 200, proof.text)
  return { bridge, challenge }
})
/** The same Bridge with another credential. */
export const withNewCredential = Effect.fnUntraced(function* (
  bridge: Bridge,
  given: Parameters<typeof Bridge.make>[1] = {}
) {
  return yield* fresh({ project_id: bridge.project_id, bridge_id: bridge.bridge_id, keys: bridge.keys, ...given })
})
/** A Bridge with the same bridge_id, another key and another credential. */
export const withNewKey = Effect.fnUntraced(function* (bridge: Bridge, given: Parameters<typeof Bridge.make>[1] = {}) {
  return yield* withNewCredential(bridge, { keys: yield* generateKeyPair, ...given })
})

export const revokeCredential = ({ credential_id }: Bridge) =>
  Effect.flatMap(Service, ({ services }) => Context.get(services, Credentials).revoke(credential_id))
export const revokeIdentity = ({ bridge_id, project_id }: Bridge) =>
  Effect.flatMap(Service, ({ services }) => Context.get(services, Bridges).revoke(project_id, bridge_id))
export const disableProject = ({ project_id }: Bridge) =>
  Effect.flatMap(Service, ({ services }) => Context.get(services, Projects).disable(project_id))
