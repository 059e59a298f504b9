/** The answers of the service that check-bridge plays, and what its requests are compared and verified with. */
import { createPublicKey, verify } from "node:crypto"
import { enrollmentTable } from "../../wire/bridges/EnrollmentApi.ts"
import { keysTable } from "../../wire/bridges/KeysApi.ts"

export interface Answer {
  readonly status: number
  /** Undefined for a success. */
  readonly code: string | undefined
  readonly headers: Readonly<Record<string, string>>
  readonly body: object
}

const table = {
  ...enrollmentTable,
  ...keysTable,
  bridge_persistence_error: [503, "The database did not answer.", "retry"]
} as const
type Code = keyof typeof table

export const refusal = (code: Code, retryAfter?: number): Answer => {
  const [status, message] = table[code]
  return {
    status,
    code,
    headers: {
      ...(status === 401
        ? { "www-authenticate": code === "bridge_proof_of_possession_invalid" ? "DPoP" : "Bearer" }
        : {}),
      ...(retryAfter === undefined ? {} : { "retry-after": `${retryAfter}` })
    },
    body: { error: { code, message } }
  }
}

/** A body with its fields in one order, so that exact repeats can be recognised however they are written. */
export const canonical = (fields: object) =>
  JSON.stringify(Object.entries(fields).map(([name, value]) => [name, String(value)]))

export const isSigned = (message: Uint8Array, signature: Uint8Array, publicKey: Uint8Array) => {
  if (signature.length !== 64 || publicKey.length !== 32) return false
  const key = { kty: "OKP", crv: "Ed25519", x: Buffer.from(publicKey).toString("base64url") }
  return verify(null, message, createPublicKey({ key, format: "jwk" }), signature)
}

export const success = (status: number, body: object, replayed = false): Answer => ({
  status,
  code: undefined,
  headers: replayed ? { "idempotency-replayed": "true" } : {},
  body
})

/** The refusal to begin another rotation while one is pending; nothing if none is. */
export const inProgress = (
  code: "bridge_rotation_in_progress" | "bridge_key_rotation_in_progress",
  pending: { readonly ends_at: number } | undefined,
  now: number
) => (pending === undefined ? undefined : refusal(code, Math.max(1, Math.ceil((pending.ends_at - now) / 1000))))
