/**
 * Where a fragment of a UTF-8 document begins and ends. The fragments of a document, one after the other, are its bytes.
 */

const newline = 0x0a
const isContinuation = (byte: number | undefined) => byte !== undefined && (byte & 0b1100_0000) === 0b1000_0000

/** The last beginning of a character at or before `offset`; `offset` itself, unless it lies inside one. */
export const boundaryBefore = (bytes: Uint8Array, offset: number): number => {
  let boundary = offset
  while (boundary > 0 && isContinuation(bytes[boundary])) boundary -= 1
  return boundary
}

/**
 * At most `max_bytes`, at least one character. It ends after a line where one ends in the second half of the window, and
 * not between `\r` and `\n` where that can be avoided.
 */
export const endOf = (bytes: Uint8Array, offset: number, max_bytes: number): number => {
  const furthest = offset + max_bytes
  if (furthest >= bytes.length) return bytes.length
  const lineEnd = bytes.lastIndexOf(newline, furthest - 1) + 1
  if (lineEnd > offset + max_bytes / 2) return lineEnd
  const end = boundaryBefore(bytes, furthest)
  const whole = end > offset ? end : characterEnd(bytes, offset)
  const splitsLineBreak = bytes[whole - 1] === 0x0d && bytes[whole] === newline
  return splitsLineBreak && whole - 1 > offset ? whole - 1 : whole
}

const characterEnd = (bytes: Uint8Array, offset: number) => {
  let end = offset + 1
  while (isContinuation(bytes[end])) end += 1
  return end
}

/** The line that `offset` lies in, from 1. */
export const lineAt = (bytes: Uint8Array, offset: number): number => countNewlines(bytes, offset) + 1

/** Where a line begins; undefined past the last one. */
export const offsetOfLine = (bytes: Uint8Array, line: number): number | undefined => {
  let offset = 0
  for (let current = 1; current < line; current += 1) {
    const end = bytes.indexOf(newline, offset)
    if (end === -1) return undefined
    offset = end + 1
  }
  return line > 1 && offset === bytes.length ? undefined : offset
}

/** A last line without newline counts. */
export const lineCount = (bytes: Uint8Array): number =>
  countNewlines(bytes, bytes.length) + (bytes.length > 0 && bytes.at(-1) !== newline ? 1 : 0)

const countNewlines = (bytes: Uint8Array, end: number) => {
  let count = 0
  for (let at = bytes.indexOf(newline); at !== -1 && at < end; at = bytes.indexOf(newline, at + 1)) count += 1
  return count
}
