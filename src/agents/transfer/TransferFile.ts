/**
 * The file of an export: one JSON object per line.
 *
 *     header   {"export":"bridge-service project","project":{"id":…,"name":…},"created_at":…}
 *     rows     {"memory":{…}}  {"task":{…}}  {"dependency":{…}}  {"receipt":{…}}  {"note":{…}}
 *              in this order
 *     end      {"counts":{"memory":…,"task":…,"dependency":…,"receipt":…,"note":…}}   a file without it is incomplete
 *
 * A file is untrusted: each row must have exactly the fields of an export, within the limits of the tools.
 */
import { Effect, Option, Result, Stream } from "effect"
import { isUtf8 } from "node:buffer"
import { secretReason } from "../../platform/secrets/Guard.ts"
import { findSecretIn } from "../../platform/secrets/Secrets.ts"
import { firstIssue } from "../../wire/Issue.ts"
import { withDetails } from "../../wire/Refusal.ts"
import { refuse } from "../continuity/Errors.ts"
import { type Counts, noRows, decoders, format, type Kind, kinds, type Row } from "./Shapes.ts"

/** Longer than the largest row, however its text is escaped. */
const longestLine = 256 * 1024

export const header = (project: { readonly id: string; readonly name: string }, created_at: Date) =>
  `${JSON.stringify({ export: format, project, created_at })}\n`
export const end = (counts: Counts) => `${JSON.stringify({ counts })}\n`

/** Splits a file into lines. A line that is not UTF-8 or is too long for a row becomes undefined. */
export const lines = <E>(file: Stream.Stream<Uint8Array, E>): Stream.Stream<string | undefined, E> =>
  Stream.mapAccum(
    file,
    () => ({ parts: new Array<Uint8Array>(), length: 0 }),
    (begun, chunk: Uint8Array) => {
      const found: Array<string | undefined> = []
      let from = 0
      const take = (to: number) => {
        if (begun.length === tooLong) return
        begun.parts.push(chunk.subarray(from, to))
        begun.length += to - from
        if (begun.length <= longestLine) return
        begun = { parts: [], length: tooLong }
        found.push(undefined)
      }
      for (let end = chunk.indexOf(0x0a); end !== -1; end = chunk.indexOf(0x0a, from)) {
        take(end)
        if (begun.length !== tooLong) found.push(textOf(begun.parts))
        begun = { parts: [], length: 0 }
        from = end + 1
      }
      take(chunk.length)
      return [begun, found] as const
    },
    { onHalt: (begun) => (begun.length === 0 || begun.length === tooLong ? [] : [textOf(begun.parts)]) }
  )

/** The length of a line that has been answered with undefined already. */
const tooLong = Infinity

const textOf = (parts: ReadonlyArray<Uint8Array>) => {
  const bytes = Buffer.concat(parts)
  return isUtf8(bytes) ? bytes.toString("utf8") : undefined
}

/** Checks line after line. Every refusal names the line. `now` decides which JWTs have expired. */
export const reader = (now: Date) => {
  let number = 0
  let section = 0
  let ended = false
  const counts = noRows()
  /** The line of every key that must be unique in the file. No other memory grows with the file. */
  const places = new Map<string, number>()

  const invalid = (line: number, reason: string) =>
    withDetails(
      refuse("import_invalid"),
      { line, reason },
      `Line ${line} of the file is not a valid line of an export: ${reason}; nothing was imported.`
    )
  const decoded = Effect.fnUntraced(function* (name: keyof typeof decoders, value: unknown) {
    const result = decoders[name](value)
    if (Result.isSuccess(result)) return result.success
    const [field, reason] = firstIssue(result.failure.issue)
    return yield* invalid(number, field === "" ? reason : `${field}: ${reason}`)
  })

  /** The row of a line; none for the header, the end and empty lines. */
  const read = Effect.fnUntraced(function* (text: string | undefined) {
    number += 1
    if (text?.trim() === "") return Option.none()
    const value = text === undefined ? undefined : Option.getOrUndefined(parse(text))
    if (typeof value !== "object" || value === null) return yield* invalid(number, "It is not a JSON object")
    if (ended) return yield* invalid(number, "It follows the line with the counts")
    if (number === 1) {
      yield* decoded("header", value)
      return Option.none()
    }
    const [[name, content] = ["", undefined], ...more] = Object.entries(value)
    if (name === "counts" && more.length === 0) {
      const expected: Counts = yield* decoded("counts", content)
      const wrong = kinds.find((kind) => expected[kind] !== counts[kind])
      if (wrong !== undefined)
        return yield* invalid(number, `The file does not have ${expected[wrong]} rows of ${wrong}`)
      ended = true
      return Option.none()
    }
    const kind = kinds.find((kind) => kind === name)
    if (kind === undefined || more.length > 0) return yield* invalid(number, `It must be one of ${kinds.join(", ")}`)
    if (kinds.indexOf(kind) < section)
      return yield* invalid(number, `It must come before the rows of ${kinds[section]}`)
    section = kinds.indexOf(kind)
    const row: Row = yield* decoded(kind, content)
    const secret = findSecretIn(row, now)
    if (secret !== undefined) return yield* invalid(number, `${secret.field} ${secretReason(secret)}`)
    for (const key of keysOf(kind, row)) {
      const earlier = places.get(key)
      if (earlier !== undefined) return yield* invalid(number, `It repeats line ${earlier}`)
      places.set(key, number)
    }
    counts[kind] += 1
    return Option.some({ kind, row })
  })

  const finish = Effect.suspend(() =>
    ended ? Effect.void : invalid(number + 1, "The file ends without the line with the counts; it is incomplete")
  )

  /** Refuses a row that was read earlier. */
  const refuseRow = (kind: Kind, row: Keyed, reason: string) =>
    invalid(places.get(keysOf(kind, row)[0]!) ?? number, reason)

  return { read, finish, refuseRow }
}

const parse = (text: string) => Result.getSuccess(Result.try(() => JSON.parse(text) as unknown))

interface Keyed {
  readonly id?: string
  readonly supersedes?: string | null
  readonly task_id?: string | null
  readonly depends_on?: string
  readonly session_ref?: string | null
}

/** The keys of a row that must be unique in the file. The first identifies the row. */
const keysOf = (kind: Kind, row: Keyed): ReadonlyArray<string> => {
  const { depends_on, id, session_ref, supersedes, task_id } = row
  switch (kind) {
    case "memory":
      return [`memory ${id}`, ...(typeof supersedes === "string" ? [`successor of ${supersedes}`] : [])]
    case "task":
      return [`task ${id}`]
    case "dependency":
      return [`dependency ${task_id} ${depends_on}`]
    case "receipt":
      return [`receipt ${id}`, `receipt of ${task_id} ${session_ref}`]
    case "note":
      return [`note ${id}`]
  }
}
