/** Enrolls a Bridge in this process, without HTTP, and returns it with the statements that its enrollment ran. */
import { Context, Effect } from "effect"
import { randomUUID } from "node:crypto"
import { fingerprint } from "../../src/platform/crypto/Fingerprint.ts"
import { generateKeyPair, sign } from "../../src/client/Crypto.ts"
import { CreateChallenge, Prove } from "../../src/wire/bridges/EnrollmentApi.ts"
import { Enrollment } from "../../src/bridges/enrollment/Enrollment.ts"
import type { Bench } from "./harness.ts"
import { credentialOf } from "./seeds.ts"
import { running } from "./statements.ts"

export const enroll = Effect.fnUntraced(function* ({ context, issue, project_id }: Bench) {
  const enrollment = Context.get(context, Enrollment)
  const credential = credentialOf(yield* issue(1))
  const keys = yield* generateKeyPair
  const bridge = { project_id, bridge_id: `bridge-${randomUUID()}` }
  const request = new CreateChallenge({
    ...bridge,
    device_id: "device-1",
    display_name: "A Bridge under load",
    public_key_fingerprint: fingerprint(keys.publicKey)
  })
  const opening = yield* running(enrollment.createChallenge(request, "challenge", credential))
  const { challenge_id, nonce_b64 } = opening.result.answer
  const signature_b64 = yield* sign(keys.privateKey, nonce_b64)
  const proof = new Prove({ ...bridge, challenge_id, nonce_b64, signature_b64, public_key_b64: keys.publicKey })
  const proving = yield* running(enrollment.prove(proof, "proof"))
  const token = proving.result.answer.access_token
  return { bridge_id: bridge.bridge_id, challenge_id, credential, token, ran: [...opening.ran, ...proving.ran] }
})
