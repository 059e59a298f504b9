/** Where a fragment of a UTF-8 document starts and ends. Consecutive fragments concatenate to the document's bytes. */

const newline = 0x0a
const isContinuation = (byte: number | undefined) => byte !== undefined && (byte & 0b1100_0000) === 0b1000_0000

/** The start of the character that contains the byte at `offset`; at the end of the text, `offset` itself. */
export const boundaryBefore = (bytes: Uint8Array, offset: number): number => {
  let boundary = offset
  while (boundary > 0 && isContinuation(bytes[boundary])) boundary -= 1
  return boundary
}

/**
 * The end of a fragment of at most `max_bytes`, but at least one character. If a line ends in the second half of the
 * window, the fragment ends there. It does not end between `\r` and `\n` unless it would be empty.
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

/** The number of the line that contains `offset`, counted from 1. */
export const lineAt = (bytes: Uint8Array, offset: number): number => countNewlines(bytes, offset) + 1

/** The offset of a line, undefined past the last one. */
export const offsetOfLine = (bytes: Uint8Array, line: number): number | undefined => {
  let offset = 0
  for (let current = 1; current < line; current += 1) {
    const end = bytes.indexOf(newline, offset)
    if (end === -1) return undefined
    offset = end + 1
  }
  return line > 1 && offset === bytes.length ? undefined : offset
}

/** The number of lines. A last line without newline counts. */
export const lineCount = (bytes: Uint8Array): number =>
  countNewlines(bytes, bytes.length) + (bytes.length > 0 && bytes.at(-1) !== newline ? 1 : 0)

const countNewlines = (bytes: Uint8Array, end: number) => {
  let count = 0
  for (let at = bytes.indexOf(newline); at !== -1 && at < end; at = bytes.indexOf(newline, at + 1)) count += 1
  return count
}
