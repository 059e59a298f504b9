/** The header that signs a message: who sends it, and to which push service (VAPID, RFC 8292 2 and 3). */
import { Duration, Redacted } from "effect"
import { type P256Key, signToken } from "../../../platform/crypto/P256.ts"
import { after } from "../../../wire/Instant.ts"

/** RFC 8292 allows a day at most. */
const lasts = Duration.hours(12)

/** `contact`: whom the push service may ask about the messages, a mailto or https address. */
export const authorization = (
  { point, privateKey }: P256Key,
  { origin }: URL,
  contact: string,
  now: Date
): Redacted.Redacted<string> => {
  const exp = Math.floor(after(now, lasts).getTime() / 1000)
  const token = signToken({ typ: "JWT" }, { aud: origin, exp, sub: contact }, privateKey)
  return Redacted.make(`vapid t=${token}, k=${Buffer.from(point).toString("base64url")}`)
}
