/** Refuses input that would be stored with a secret in it (spec 1.5). What was sent is never repeated or logged. */
import { Effect } from "effect"
import { refuse } from "../../wire/Errors.ts"
import { withDetails } from "../../wire/Refusal.ts"
import { secretKinds } from "./Rules.ts"
import { type Found, findSecretYielding } from "./Secrets.ts"

/** What is wrong with the field, and the way out. */
export const secretReason = ({ kind }: Found) =>
  `contains a ${secretKinds[kind]}; leave it out, or write where it is kept`

/** `secret_detected` with the field and the kind of the first secret in the values of `input`. */
export const secretIn = Effect.fnUntraced(function* (input: object, now: Date) {
  const found = yield* findSecretYielding(input, now)
  if (found === undefined) return undefined
  const { field, kind } = found
  const where = field === "" ? "What the fields say together" : field
  return withDetails(refuse("secret_detected"), { field, kind }, `${where} ${secretReason(found)}. Nothing was stored.`)
})
