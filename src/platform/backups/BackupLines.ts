/** Lines with their line feed. The last line of a truncated file has none. Linear, however long a line is. */
import { Stream } from "effect"

export const lines = <E>(file: Stream.Stream<Uint8Array, E>): Stream.Stream<string, E> =>
  file.pipe(
    Stream.decodeText,
    Stream.mapAccum(
      (): Array<string> => [],
      (begun, text): readonly [Array<string>, ReadonlyArray<string>] => {
        const parts = text.split("\n")
        const rest = parts.pop()!
        if (parts.length === 0) {
          begun.push(rest)
          return [begun, []]
        }
        parts[0] = begun.join("") + parts[0]
        return [[rest], parts.map((line) => `${line}\n`)]
      },
      { onHalt: (begun) => (begun.every((part) => part === "") ? [] : [begun.join("")]) }
    )
  )
