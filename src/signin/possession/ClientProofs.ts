/**
 * Proofs of OAuth clients (RFC 9449; decisions.md, Tokens bound to a key): a token that is bound to a key works only with
 * a proof by that key. The key is the client's own; the service knows its thumbprint.
 */
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { Ed25519 } from "../../platform/crypto/Ed25519.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { sharedPersistence } from "../../platform/database/Persistence.ts"
import { inTurn } from "../../platform/database/Shares.ts"
import {
  type Claim,
  type Presented,
  readWith,
  requireSigned,
  type Unproven,
  type UsedProof,
  usedProof
} from "../../platform/proofs/DpopProof.ts"
import { remember } from "../../platform/proofs/ProofStore.ts"
import type { SharedRefusal } from "../../wire/Errors.ts"

/** The values of `alg`; `EdDSA` and `Ed25519` are one algorithm. */
export const dpopAlgorithms = ["EdDSA", "Ed25519", "ES256"] as const

const accepted = { algorithms: ["EdDSA", "ES256"], named: "EdDSA, Ed25519 or ES256", keys: "Ed25519 or P-256" } as const

/** A client that has proved its key, if `used` was not used before. */
export interface Proven {
  /** The thumbprint of the key. */
  readonly jkt: Uint8Array
  readonly used: UsedProof
}

/** A client that says so; `requireSigned` tells whether it is true. */
export interface Claimed extends Proven, Pick<Claim, "isSigned"> {}

/** Whether a credential that is bound to `jkt` may be used by who has proved a key, or none. */
export const mayUse = (jkt: Uint8Array | null, proven: Proven | undefined): boolean =>
  jkt === null || isKey(jkt, proven)

/** Whether both are the same key, or no key. */
export const isKey = (jkt: Uint8Array | null, proven: Proven | undefined): boolean =>
  jkt === null || proven === undefined ? jkt === null && proven === undefined : Buffer.from(jkt).equals(proven.jkt)

interface About extends Pick<Presented, "method" | "path"> {
  readonly baseUrl: URL
  /** Undefined at /token: the request gets a token and has none. */
  readonly tokenHash: Uint8Array | undefined
}

type Unavailable = SharedRefusal<"bridge_persistence_error">

export class ClientProofs extends Context.Service<
  ClientProofs,
  {
    /** What a proof that is about the request says, before its signature is verified. */
    readonly read: (proof: string, about: About) => Effect.Effect<Claimed, Unproven | Unavailable>
    /** The key of a proof that is valid for the request, whether or not it was used before. */
    readonly check: (proof: string, about: About) => Effect.Effect<Proven, Unproven | Unavailable>
    /** False if the proof was used before. */
    readonly remember: (used: UsedProof) => Effect.Effect<boolean, Unavailable>
  }
>()("service/signin/ClientProofs") {
  static readonly layer = Layer.effect(
    ClientProofs,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const readProof = readWith(yield* Ed25519, accepted)

      const read: ClientProofs["Service"]["read"] = Effect.fnUntraced(function* (proof, about) {
        const now = yield* clock.now
        const { isSigned, jti, key } = yield* readProof(proof, { ...about, now })
        const jkt = key.thumbprint
        return { jkt, isSigned, used: usedProof(Buffer.from(jkt).toString("base64url"), jti, now) }
      })

      const check: ClientProofs["Service"]["check"] = (proof, about) => Effect.tap(read(proof, about), requireSigned)

      const use = Effect.fnUntraced(function* (used: UsedProof) {
        return (yield* inTurn(remember(sql, used))).length > 0
      }, sharedPersistence)

      return { read, check, remember: use }
    })
  ).pipe(Layer.provide(Ed25519.layerNode))
}
