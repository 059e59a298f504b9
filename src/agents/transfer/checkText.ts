/** Refuses text with a secret, or with characters that hide text, and names the file and the line. */
import { Effect } from "effect"
import { secretReason } from "../../platform/secrets/Guard.ts"
import { findSecret, findSecretIn } from "../../platform/secrets/Secrets.ts"
import { findUnacceptable } from "../continuity/Acceptable.ts"
import type { Item } from "./sources/Item.ts"
import { invalid } from "./sources/Place.ts"

/** `now` decides which JWTs have expired. */
export const checkText = Effect.fnUntraced(function* (item: Item, now: Date) {
  const { body, place, tags, title } = item
  const { assignee, blocked_reason, source } = { assignee: null, blocked_reason: null, source: null, ...item }
  const fields = { body, title, tags, source, assignee, blocked_reason }
  const refused = (field: string, reason: string, isIn: (text: string) => boolean) =>
    invalid({ ...place, line: place.line + (field === "body" ? lineWhere(body, isIn) : 0) }, reason)
  const hidden = findUnacceptable(fields)
  if (hidden !== undefined) {
    const { field, reason } = hidden
    return yield* refused(field, `${field}: ${reason}`, (text) => findUnacceptable({ body: text }) !== undefined)
  }
  const secret = findSecretIn(fields, now)
  if (secret !== undefined) {
    const reason = `${secret.field || "It"} ${secretReason(secret)}`
    return yield* refused(secret.field, reason, (text) => findSecret(text, now) !== undefined)
  }
})

/** The line, from 0, up to which a text has to be read to find what is in it. */
const lineWhere = (text: string, isIn: (beginning: string) => boolean) => {
  const lines = text.split("\n")
  let [low, high] = [0, lines.length - 1]
  while (low < high) {
    const middle = (low + high) >> 1
    if (isIn(lines.slice(0, middle + 1).join("\n"))) high = middle
    else low = middle + 1
  }
  return low
}
