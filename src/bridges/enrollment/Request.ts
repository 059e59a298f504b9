import { sha256 } from "../../platform/crypto/Sha256.ts"

/** What two requests under one Idempotency-Key are compared by: the decoded fields, in the order of the contract. */
export const requestHash = (fields: ReadonlyArray<string | Uint8Array>): Uint8Array =>
  sha256(
    JSON.stringify(
      fields.map((field) => (typeof field === "string" ? field : Buffer.from(field).toString("base64url")))
    )
  )
