/** An authenticator in software (WebAuthn Level 3, 6), written by hand, and a person who has added a passkey of it. */
import { Effect } from "effect"
import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto"
import { type Instance, makeToken } from "../agents/Agent.ts"
import type { Attestation } from "./Attestation.ts"
import { csrfOf, Person } from "./Console.ts"

export const named = "http://localhost:8787"

const sha256 = (data: Uint8Array | string) => createHash("sha256").update(data).digest()
const base64url = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64url")
const u16 = (value: number) => Buffer.from([value >> 8, value & 0xff])

/** What the browser and the authenticator put into their answer; by default what honest ones would. */
export interface Said {
  readonly origin?: string
  readonly rpId?: string
  readonly type?: string
  readonly crossOrigin?: boolean
  readonly userVerified?: boolean
  /** Instead of counting up. */
  readonly count?: number
  readonly userHandle?: string
  readonly challenge?: string
  readonly credentialId?: Buffer<ArrayBuffer>
  /** The id of the answer, beside the one that the authenticator has attested. */
  readonly id?: string
  /** The COSE algorithm of the key, -25 to -256, instead of ES256. */
  readonly algorithm?: number
  /** The bytes of modulus and exponent of a key of RSA, which signs nothing. */
  readonly rsa?: readonly [modulus: number, exponent: number]
  /** Instead of "none" and an empty map. */
  readonly attestation?: Attestation
}

export class Authenticator {
  count = 0
  credentialId: Buffer<ArrayBuffer> = randomBytes(32)
  userHandle = ""
  privateKey: KeyObject
  private publicKey: KeyObject
  constructor() {
    const pair = generateKeyPairSync("ec", { namedCurve: "P-256" })
    this.privateKey = pair.privateKey
    this.publicKey = pair.publicKey
  }

  get id() {
    return base64url(this.credentialId)
  }

  private data({ count, rpId = "localhost", userVerified = true }: Said, attested: Uint8Array = Buffer.alloc(0)) {
    this.count = count ?? this.count + 1
    const counter = Buffer.alloc(4)
    counter.writeUInt32BE(this.count)
    const flags = 0x01 | (userVerified ? 0x04 : 0) | (attested.length > 0 ? 0x40 : 0)
    return Buffer.concat([sha256(rpId), Buffer.from([flags]), counter, attested])
  }

  /** The answer to `navigator.credentials.create`, as the script sends it. */
  create(options: any, said: Said = {}): string {
    const { x = "", y = "" } = this.publicKey.export({ format: "jwk" })
    // {1: 2, 3: -7, -1: 1, -2: x, -3: y}
    const elliptic = Buffer.concat([
      Buffer.from("a5010203", "hex"),
      Buffer.from(said.algorithm === undefined ? [0x26] : [0x38, -1 - said.algorithm]),
      Buffer.from("20012158", "hex"),
      Buffer.from([32]),
      Buffer.from(x, "base64url"),
      Buffer.from("2258", "hex"),
      Buffer.from([32]),
      Buffer.from(y, "base64url")
    ])
    // {1: 3, 3: -257, -1: n, -2: e}
    const rsa = (modulus: number, exponent: number) =>
      Buffer.concat([
        Buffer.from("a40103033901002059", "hex"),
        u16(modulus),
        Buffer.alloc(modulus, 0xff),
        Buffer.from([0x21, 0x40 + exponent]),
        Buffer.alloc(exponent, 0xff)
      ])
    const cose = said.rsa === undefined ? elliptic : rsa(...said.rsa)
    this.userHandle = options.user.id
    this.credentialId = said.credentialId ?? this.credentialId
    const attested = Buffer.concat([Buffer.alloc(16), u16(this.credentialId.length), this.credentialId, cose])
    const data = this.data(said, attested)
    const clientData = clientDataOf("webauthn.create", options, said)
    const attestation: Attestation = said.attestation ?? (() => ["none", Buffer.from([0xa0])])
    const [format, statement] = attestation(Buffer.concat([data, sha256(clientData)]), this.privateKey)
    const attestationObject = Buffer.concat([
      Buffer.from([0xa3, 0x63]),
      Buffer.from("fmt"),
      Buffer.from([0x60 + format.length]),
      Buffer.from(format),
      Buffer.from([0x67]),
      Buffer.from("attStmt"),
      statement,
      Buffer.from([0x68]),
      Buffer.from("authData"),
      Buffer.from([0x59]),
      u16(data.length),
      data
    ])
    return JSON.stringify({
      id: said.id ?? this.id,
      type: "public-key",
      response: { clientDataJSON: base64url(clientData), attestationObject: base64url(attestationObject) }
    })
  }

  /** The answer to `navigator.credentials.get`. */
  get(options: any, said: Said = {}): string {
    const data = this.data(said)
    const clientData = clientDataOf("webauthn.get", options, said)
    const signature = sign("sha256", Buffer.concat([data, sha256(clientData)]), this.privateKey)
    return JSON.stringify({
      id: this.id,
      type: "public-key",
      response: {
        clientDataJSON: base64url(clientData),
        authenticatorData: base64url(data),
        signature: base64url(signature),
        userHandle: said.userHandle ?? this.userHandle
      }
    })
  }
}

const clientDataOf = (type: string, { challenge }: { readonly challenge: string }, said: Said) =>
  Buffer.from(
    JSON.stringify({
      type: said.type ?? type,
      challenge: said.challenge ?? challenge,
      origin: said.origin ?? named,
      crossOrigin: said.crossOrigin ?? false
    })
  )

export const optionsToSignIn = (person: Person) =>
  Effect.map(person.post("/console/sign-in/options", {}), ({ body }) => body)

/** Signs in with a fresh challenge. */
export const signInWith = Effect.fnUntraced(function* (
  person: Person,
  authenticator: Authenticator,
  said: Said = {},
  to = ""
) {
  const credential = authenticator.get(yield* optionsToSignIn(person), said)
  return yield* person.post("/console/sign-in", { credential, to })
})

/** What a page of this person's session says is its value, and the options to add a passkey. */
export const optionsToAdd = Effect.fnUntraced(function* (person: Person) {
  const csrf = csrfOf(yield* person.get("/console/keys"))
  return { csrf, answer: yield* person.post("/console/keys/options", { csrf }) }
})

export const addKey = Effect.fnUntraced(function* (
  person: Person,
  authenticator: Authenticator,
  said: Said = {},
  label = "Laptop"
) {
  const { answer, csrf } = yield* optionsToAdd(person)
  const credential = authenticator.create(answer.body, said)
  return yield* person.post("/console/keys", { csrf, label, credential, action: "add" })
})

/** A person who is signed in by project token and has added a passkey. */
export const makeHolder = Effect.fnUntraced(function* (
  service: Instance,
  options: Parameters<typeof makeToken>[1] = {}
) {
  const made = yield* makeToken(service, options)
  const person = new Person(service.url, named)
  yield* person.signIn(made.token)
  const authenticator = new Authenticator()
  const added = yield* addKey(person, authenticator)
  return { ...made, person, authenticator, added, home: `/console/${made.project_id}` }
})
