import { sha256 } from "../../platform/crypto/Sha256.ts"

/** Tells an exact retry from another request with the same Idempotency-Key: a hash of the decoded fields, in wire order. */
export const requestHash = (fields: ReadonlyArray<string | Uint8Array>): Uint8Array =>
  sha256(
    JSON.stringify(
      fields.map((field) => (typeof field === "string" ? field : Buffer.from(field).toString("base64url")))
    )
  )
