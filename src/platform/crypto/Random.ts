/** Randomness for identifiers and salts. Secrets are minted in Tokens.ts. */
import { Clock, Effect } from "effect"
import { randomBytes, randomInt, randomUUID } from "node:crypto"
import { sha256 } from "./Sha256.ts"

/** A random UUID (RFC 9562, version 4). */
export const uuid: Effect.Effect<string> = Effect.sync(() => randomUUID())

/**
 * A UUID that sorts by time (RFC 9562, version 7); the id of tables with many inserts.
 *
 * Within a millisecond this process counts up (RFC 9562 6.2, method 1), so that its rows keep their order of creation.
 */
export const uuidAt = (now: Date): Effect.Effect<string> =>
  Effect.sync(() => {
    const millis = now.getTime()
    count = millis === latest && count < 0xfff ? count + 1 : randomInt(0x800)
    latest = millis
    const time = timeOf(now)
    const random = randomBytes(8)
    random[0] = (random[0]! & 0x3f) | 0x80
    const tail = random.toString("hex")
    const counted = count.toString(16).padStart(3, "0")
    return `${time}-7${counted}-${tail.slice(0, 4)}-${tail.slice(4)}`
  })

/** `uuidAt` the time of this machine, for ids that are made before the database is asked. */
export const uuidHere: Effect.Effect<string> = Effect.flatMap(Clock.currentTimeMillis, (now) => uuidAt(new Date(now)))

/** The UUID of version 7 of what is asked for by this text at this time: whoever asks again gets the same one. */
export const uuidFor = (time: Date, text: string): string => {
  const hash = Buffer.from(sha256(text))
  hash[2] = (hash[2]! & 0x3f) | 0x80
  const hex = hash.toString("hex")
  return `${timeOf(time)}-7${hex.slice(0, 3)}-${hex.slice(4, 8)}-${hex.slice(8, 20)}`
}

/** The UUID of version 8 of a text (RFC 9562 5.8): the same text always has the same one. */
export const uuidOf = (text: string): string => {
  const hash = Buffer.from(sha256(text))
  hash[6] = (hash[6]! & 0x0f) | 0x80
  hash[8] = (hash[8]! & 0x3f) | 0x80
  const hex = hash.toString("hex")
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20, 32)}`
}

/** The smallest UUID of version 7 at this time or later. */
export const firstUuidAt = (time: Date): string => `${timeOf(time)}-7000-8000-000000000000`

/** The first two groups: milliseconds since 1970 as 48 bits. */
const timeOf = (time: Date) => {
  const millis = Math.max(0, time.getTime()).toString(16).padStart(12, "0")
  return `${millis.slice(0, 8)}-${millis.slice(8)}`
}

let latest = 0
let count = 0

/** 32 random bytes. */
export const salt: Effect.Effect<Uint8Array> = Effect.sync(() => randomBytes(32))
