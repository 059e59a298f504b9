/** Lines with their line feed. The last line of a truncated file has none. Linear, however long a line is. */
import { Stream } from "effect"

/**
 * In characters: twice as many as the longest row has, a document of 1 MiB with two hexadecimal digits a byte. Without a
 * bound, a file without line feeds in the folder of the backups would fill the memory.
 */
export const longestLine = 4 * 1024 * 1024

interface Begun {
  readonly parts: Array<string>
  readonly length: number
}

/** A line that is too long for a backup becomes undefined; the stream is of no use after it. */
export const lines = <E>(file: Stream.Stream<Uint8Array, E>): Stream.Stream<string | undefined, E> =>
  file.pipe(
    Stream.decodeText,
    Stream.mapAccum(
      (): Begun => ({ parts: [], length: 0 }),
      (begun, text): readonly [Begun, ReadonlyArray<string | undefined>] => {
        const parts = text.split("\n")
        const length = begun.length + parts[0]!.length
        if (length > longestLine) return [{ parts: [], length: 0 }, [undefined]]
        const rest = parts.pop()!
        if (parts.length === 0) {
          begun.parts.push(rest)
          return [{ parts: begun.parts, length }, []]
        }
        parts[0] = begun.parts.join("") + parts[0]
        return [{ parts: [rest], length: rest.length }, parts.map((line) => `${line}\n`)]
      },
      { onHalt: ({ parts }) => (parts.every((part) => part === "") ? [] : [parts.join("")]) }
    )
  )
