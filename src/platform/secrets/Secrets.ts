/**
 * Finds secrets in text that would be stored (spec 1.5): private keys, and credentials whose form tells them with certainty.
 *
 * A text is searched as it is and, if it has escapes or runs of base64, with these decoded. The texts of one call are
 * searched together as well: a key may be cut in two, and a pair of credentials given in two fields.
 */
import { Effect, Schema, Semaphore } from "effect"
import { rules, type SecretKind } from "./Rules.ts"

/** Group n + 1 is the beginning of rule n; of two rules with the same beginning, the first one counts. */
const anyBeginning = new RegExp(rules.map(({ begins }) => `(${begins})`).join("|"), "g")
const escapes = /%([0-9a-fA-F]{2})|\\u00([0-9a-fA-F]{2})|(\\[nrt])/g
const base64 = /(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{32,}={0,2}/g

/** A search that yields where others may have the thread. */
type Search<A> = Generator<undefined, A | undefined>

/** Characters between two of these places. */
const stretch = 65_536

/**
 * The kind of the first secret in the text, in linear time. `now` decides whether a JWT has expired; without it none counts,
 * as in names, which are too short for one.
 */
export const findSecret = (text: string, now?: Date): SecretKind | undefined => toEnd(searchText(text, now))

/** A check of text that a person types: with a secret in it, the secret would end up in the database and in lists. */
export const noSecret = Schema.makeFilter((given: string) => findSecret(given) === undefined, { expected: "no secret" })

export interface Found {
  /** The path of the field, `""` if the secret is spread over several. */
  readonly field: string
  readonly kind: SecretKind
}

/** The first secret in any string of a value, or in all of them together. */
export const findSecretIn = (value: unknown, now: Date): Found | undefined => toEnd(search(value, now))

/** Long searches go on one at a time: all fibers that yield run in one stretch, before anything else arrives. */
const long = Semaphore.makeUnsafe(1)

/** The same for what one request sends, which can take a fifth of a second: it yields to the requests of others. */
export const findSecretYielding = Effect.fnUntraced(function* (value: unknown, now: Date) {
  const searching = search(value, now)
  const first = searching.next()
  return first.done === true ? first.value : yield* long.withPermit(rest(searching))
})

const rest = Effect.fnUntraced(function* <A>(searching: Search<A>) {
  for (;;) {
    yield* Effect.yieldNow
    const step = searching.next()
    if (step.done === true) return step.value
  }
})

const toEnd = <A>(searching: Search<A>): A | undefined => {
  for (let step = searching.next(); ; step = searching.next()) if (step.done === true) return step.value
}

function* search(value: unknown, now: Date): Search<Found> {
  const fields = [...textsIn(value, "")]
  let searched = 0
  for (const { field, text } of fields) {
    const kind = yield* searchText(text, now)
    if (kind !== undefined) return { field, kind }
    searched += text.length
    if (searched >= stretch) {
      searched = 0
      yield
    }
  }
  if (fields.length < 2) return undefined
  const texts = fields.map(({ text }) => text)
  const kind = (yield* searchPlain(texts.join(""), now)) ?? (yield* searchPlain(texts.join("\n"), now))
  return kind && { field: "", kind }
}

function* textsIn(value: unknown, field: string): Generator<{ readonly field: string; readonly text: string }> {
  if (typeof value === "string") yield { field, text: value }
  if (typeof value !== "object" || value === null) return
  for (const [name, member] of Object.entries(value)) yield* textsIn(member, field === "" ? name : `${field}.${name}`)
}

function* searchText(text: string, now?: Date): Search<SecretKind> {
  return (yield* searchPlain(text, now)) ?? (yield* searchEncoded(text, now))
}

function* searchPlain(text: string, now?: Date): Search<SecretKind> {
  let pause = stretch
  for (const match of text.matchAll(anyBeginning)) {
    if (match.index >= pause) {
      pause = match.index + stretch
      yield
    }
    const rule = rules[match.indexOf(match[0], 1) - 1]
    if (rule?.holds(text, match.index, now) === true) return rule.kind
  }
}

function* searchEncoded(text: string, now?: Date): Search<SecretKind> {
  const unescaped = text.replaceAll(escapes, (_, percent, unicode, space) =>
    space === undefined ? String.fromCharCode(Number.parseInt(percent ?? unicode, 16)) : "\n"
  )
  const found = unescaped === text ? undefined : yield* searchPlain(unescaped, now)
  if (found !== undefined) return found
  for (const [run] of text.matchAll(base64)) {
    const inner = yield* searchPlain(Buffer.from(run, "base64").toString("latin1"), now)
    if (inner !== undefined) return inner
  }
}
