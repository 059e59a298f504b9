/** Cuts a text that is longer than a field may be. */

export interface Piece {
  /** The line where it begins, from 0. */
  readonly from: number
  readonly text: string
}

/**
 * Pieces of at most `limit` bytes: cut at the last blank line that fits, else between two lines. A line that is too long by
 * itself is cut between characters if `anywhere`, otherwise its index is returned. Blank pieces are left out. Each line is
 * read at most twice.
 */
export const pieces = (
  whole: string,
  limit: number,
  anywhere = false
): { readonly pieces: ReadonlyArray<Piece> } | { readonly tooLong: number } => {
  if (Buffer.byteLength(whole) <= limit) return { pieces: whole.trim() === "" ? [] : [{ from: 0, text: whole }] }
  const lines = whole.split("\n")
  const found: Array<Piece> = []
  const add = (from: number, to: number) => {
    const text = lines.slice(from, to).join("\n")
    const blank = text.split("\n").findIndex((line) => line.trim() !== "")
    if (blank !== -1)
      found.push({
        from: from + blank,
        text: lines
          .slice(from + blank, to)
          .join("\n")
          .trimEnd()
      })
  }
  let start = 0
  let blank = 0
  let bytes = 0
  for (let index = 0; index < lines.length; index++) {
    const size = Buffer.byteLength(lines[index]!) + 1
    if (size - 1 > limit) {
      if (!anywhere) return { tooLong: index }
      add(start, index)
      for (const text of cut(lines[index]!, limit)) found.push({ from: index, text })
      start = index + 1
      bytes = 0
      continue
    }
    if (bytes + size - 1 > limit) {
      const end = blank > start ? blank : index
      add(start, end)
      start = end
      bytes = 0
      index = end - 1
      continue
    }
    bytes += size
    if (lines[index]!.trim() === "") blank = index
  }
  add(start, lines.length)
  return { pieces: found }
}

/** Cuts between characters. */
const cut = (line: string, limit: number): ReadonlyArray<string> => {
  const bytes = Buffer.from(line)
  const parts: Array<string> = []
  for (let from = 0; from < bytes.length;) {
    let to = Math.min(from + limit, bytes.length)
    while (to < bytes.length && (bytes[to]! & 0b1100_0000) === 0b1000_0000) to -= 1
    parts.push(bytes.toString("utf8", from, to))
    from = to
  }
  return parts.filter((part) => part.trim() !== "")
}
