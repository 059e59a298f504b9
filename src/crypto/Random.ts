/** Randomness for identifiers and salts. Secrets are minted in Tokens.ts. */
import { Effect } from "effect"
import { randomBytes, randomUUID } from "node:crypto"

/** A random UUID (RFC 9562, version 4). */
export const uuid: Effect.Effect<string> = Effect.sync(() => randomUUID())

/** A UUID that sorts by `now` (RFC 9562, version 7); the identifier of every row that is inserted often. */
export const uuidAt = (now: Date): Effect.Effect<string> =>
  Effect.sync(() => {
    const random = randomBytes(10).toString("hex")
    const millis = now.getTime().toString(16).padStart(12, "0")
    const variant = ((Number.parseInt(random[3]!, 16) & 0b0011) | 0b1000).toString(16)
    return `${millis.slice(0, 8)}-${millis.slice(8)}-7${random.slice(0, 3)}-${variant}${random.slice(4, 7)}-${random.slice(7, 19)}`
  })

/** 32 random bytes. */
export const salt: Effect.Effect<Uint8Array> = Effect.sync(() => randomBytes(32))
