/**
 * Finds secrets in text that would be stored (spec 1.5): private keys, and credentials whose form tells them with certainty.
 *
 * A text is searched as it is and, if it has escapes or runs of base64, with these decoded. The texts of one call are
 * searched together as well: a key may be cut in two, and a pair of credentials given in two fields.
 */
import { Schema } from "effect"
import { rules, type SecretKind } from "./Rules.ts"

/** Group n + 1 is the beginning of rule n; of two rules with the same beginning, the first one counts. */
const anyBeginning = new RegExp(rules.map(({ begins }) => `(${begins})`).join("|"), "g")
const escapes = /%([0-9a-fA-F]{2})|\\u00([0-9a-fA-F]{2})|(\\[nrt])/g
const base64 = /(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{32,}={0,2}/g

/**
 * The kind of the first secret in the text, in linear time. `now` decides whether a JWT has expired; without it none counts,
 * as in names, which are too short for one.
 */
export const findSecret = (text: string, now?: Date): SecretKind | undefined =>
  findPlain(text, now) ?? findEncoded(text, now)

/** A check of text that a person types: with a secret in it, the secret would end up in the database and in lists. */
export const noSecret = Schema.makeFilter((given: string) => findSecret(given) === undefined, { expected: "no secret" })

const findPlain = (text: string, now?: Date): SecretKind | undefined => {
  for (const match of text.matchAll(anyBeginning)) {
    const rule = rules[match.indexOf(match[0], 1) - 1]
    if (rule?.holds(text, match.index, now) === true) return rule.kind
  }
}

const findEncoded = (text: string, now?: Date): SecretKind | undefined => {
  const unescaped = text.replaceAll(escapes, (_, percent, unicode, space) =>
    space === undefined ? String.fromCharCode(Number.parseInt(percent ?? unicode, 16)) : "\n"
  )
  const found = unescaped === text ? undefined : findPlain(unescaped, now)
  if (found !== undefined) return found
  for (const [run] of text.matchAll(base64)) {
    const inner = findPlain(Buffer.from(run, "base64").toString("latin1"), now)
    if (inner !== undefined) return inner
  }
}

export interface Found {
  /** The path of the field, `""` if the secret is spread over several. */
  readonly field: string
  readonly kind: SecretKind
}

/** The first secret in any string of a value, or in all of them together. */
export const findSecretIn = (value: unknown, now: Date): Found | undefined => {
  const texts: Array<string> = []
  const found = findWithin(value, "", now, texts)
  if (found !== undefined || texts.length < 2) return found
  const kind = findPlain(texts.join(""), now) ?? findPlain(texts.join("\n"), now)
  return kind && { field: "", kind }
}

const findWithin = (value: unknown, field: string, now: Date, texts: Array<string>): Found | undefined => {
  if (typeof value === "string") {
    texts.push(value)
    const kind = findSecret(value, now)
    return kind && { field, kind }
  }
  if (typeof value !== "object" || value === null) return undefined
  for (const [name, member] of Object.entries(value)) {
    const found = findWithin(member, field === "" ? name : `${field}.${name}`, now, texts)
    if (found !== undefined) return found
  }
}
