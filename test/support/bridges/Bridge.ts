/** A Bridge for tests: a key pair, a bootstrap credential, and the steps of enrollment as methods. */
import { Context, Duration, Effect, Option, Redacted } from "effect"
import { randomUUID } from "node:crypto"
import { fingerprint } from "../../../src/platform/crypto/Fingerprint.ts"
import { generateKeyPair, type KeyPair, sign } from "../../../src/client/Crypto.ts"
import { Credentials } from "../../../src/bridges/enrollment/Credentials.ts"
import { Projects } from "../../../src/operator/projects/Projects.ts"
import { type Answer, send } from "../network/Http.ts"

export type Instance = { readonly url: string; readonly services: Context.Context<Credentials | Projects> }

export const b64 = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64url")

/** A project with the approved account reference `github:octo`. */
export const makeProject = Effect.fnUntraced(function* ({
  services
}: {
  readonly services: Context.Context<Projects>
}) {
  const projects = Context.get(services, Projects)
  const { project_id } = yield* projects.create("Test project")
  yield* projects.approveReference(project_id, "github:octo", Option.none())
  return project_id
})

export const issueCredential = Effect.fnUntraced(function* (
  { services }: Instance,
  project_id: string,
  options: {
    readonly ttl?: Duration.Duration
    readonly reenroll?: string
    readonly references?: ReadonlyArray<string>
  } = {}
) {
  const credentials = Context.get(services, Credentials)
  const secret = yield* credentials.mint
  yield* credentials.issue(
    {
      project_id,
      account_references: options.references ?? ["github:octo"],
      ttl: options.ttl ?? Duration.hours(1),
      reenroll_bridge_id: options.reenroll
    },
    [secret]
  )
  return { credential_id: secret.credential_id, credential: Redacted.value(secret.credential) }
})

export class Bridge {
  declare readonly project_id: string
  declare readonly bridge_id: string
  declare readonly keys: KeyPair
  declare readonly credential: string
  declare readonly credential_id: string

  constructor(fields: Pick<Bridge, "project_id" | "bridge_id" | "keys" | "credential" | "credential_id">) {
    Object.assign(this, fields)
  }

  /** A Bridge with a new key, in a new project unless one is given. */
  static make = Effect.fnUntraced(function* (
    on: Instance,
    given: Partial<Pick<Bridge, "project_id" | "bridge_id" | "keys">> & {
      readonly ttl?: Duration.Duration
      readonly references?: ReadonlyArray<string>
      readonly reenroll?: string
    } = {}
  ) {
    const project_id = given.project_id ?? (yield* makeProject(on))
    const keys = given.keys ?? (yield* generateKeyPair)
    const issued = yield* issueCredential(on, project_id, given)
    return new Bridge({ project_id, keys, bridge_id: given.bridge_id ?? `bridge-${randomUUID()}`, ...issued })
  })

  get challengeBody() {
    return {
      project_id: this.project_id,
      bridge_id: this.bridge_id,
      device_id: "device-1",
      display_name: "A test Bridge",
      public_key_fingerprint: fingerprint(this.keys.publicKey)
    }
  }

  askChallenge(on: { readonly url: string }, given: { readonly key?: string; readonly body?: object } = {}) {
    return send(`${on.url}/bridge/v1/enrollment/challenges`, {
      bearer: this.credential,
      key: given.key ?? "bridge-enroll-1",
      body: { ...this.challengeBody, ...given.body }
    })
  }

  /** The body of the proof that answers a challenge. */
  proofBody(challenge: Pick<Answer, "body">, keys = this.keys) {
    const { challenge_id, nonce_b64 } = challenge.body
    return Effect.map(sign(keys.privateKey, Buffer.from(nonce_b64, "base64url")), (signature) => ({
      project_id: this.project_id,
      bridge_id: this.bridge_id,
      challenge_id,
      nonce_b64,
      signature_b64: b64(signature),
      public_key_b64: b64(keys.publicKey)
    }))
  }

  prove(
    on: { readonly url: string },
    challenge: Answer,
    given: { readonly key?: string; readonly body?: object } = {}
  ) {
    return Effect.flatMap(this.proofBody(challenge), (body) =>
      send(`${on.url}/bridge/v1/enrollment/proofs`, {
        key: given.key ?? "bridge-proof-1",
        body: { ...body, ...given.body }
      })
    )
  }

  /** Challenge and proof; returns the raw access token. */
  enroll(on: { readonly url: string }) {
    return this.askChallenge(on).pipe(
      Effect.flatMap((challenge) => this.prove(on, challenge)),
      Effect.map((proof): string => proof.body.access_token)
    )
  }
}
