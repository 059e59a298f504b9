/** The text of a source's file, and its lines of JSON. */
import { Effect, Result } from "effect"
import { isUtf8 } from "node:buffer"
import { invalid, type Place, type SourceFile } from "./Place.ts"

/** Without a byte order mark, and with `\n` at the ends of lines. */
export const textOf = ({ bytes, path }: SourceFile) => {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (!isUtf8(buffer)) return invalid({ file: path, line: brokenLine(buffer) }, "The line is not UTF-8")
  const text = buffer.toString("utf8")
  return Effect.succeed((text.startsWith("\ufeff") ? text.slice(1) : text).replaceAll("\r\n", "\n"))
}

const brokenLine = (bytes: Buffer) => {
  let number = 1
  for (let start = 0, end = bytes.indexOf(0x0a); end !== -1; start = end + 1, end = bytes.indexOf(0x0a, start)) {
    if (!isUtf8(bytes.subarray(start, end))) return number
    number += 1
  }
  return number
}

/** Longer than a line of any of the programs. */
const longestLine = 1024 * 1024

/** The objects of a file of JSON Lines, with their places. Blank lines are left out. */
export const objectsOf = Effect.fnUntraced(function* (file: SourceFile) {
  const found: Array<{ readonly place: Place; readonly value: Readonly<Record<string, unknown>> }> = []
  for (const [index, line] of (yield* textOf(file)).split("\n").entries()) {
    const place = { file: file.path, line: index + 1 }
    if (line.trim() === "") continue
    if (line.length > longestLine) return yield* invalid(place, `The line has more than ${longestLine} characters`)
    const value = Result.getOrUndefined(Result.try(() => JSON.parse(line) as unknown))
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      return yield* invalid(place, "It is not a JSON object")
    }
    found.push({ place, value: value as Readonly<Record<string, unknown>> })
  }
  return found
})
