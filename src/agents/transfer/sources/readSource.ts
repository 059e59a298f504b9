/** Reads a source of any format. */
import { Effect } from "effect"
import { readBeads } from "./beads.ts"
import type { Format } from "./formats.ts"
import type { Source } from "./Item.ts"
import { readMarkdown } from "./markdown.ts"
import { invalid, type SourceFile } from "./Place.ts"
import { readServerMemory } from "./serverMemory.ts"

/** `label` names the source within its format: two folders with the same file do not overwrite each other. */
export interface Import {
  readonly format: Format
  readonly label: string
  readonly files: ReadonlyArray<SourceFile>
}

export const readSource = Effect.fnUntraced(function* ({
  files,
  format,
  label
}: Import): Effect.fn.Return<Source, ReturnType<typeof invalid>> {
  const source =
    format === "beads"
      ? yield* readBeads(label, files)
      : format === "server-memory"
        ? yield* readServerMemory(label, files)
        : yield* readMarkdown(format, label, files)
  const places = new Map<string, string>()
  for (const { id, place } of source.items) {
    const earlier = places.get(id)
    if (earlier !== undefined) return yield* invalid(place, `It repeats ${earlier}`)
    places.set(id, `${place.file}, line ${place.line}`)
  }
  return source
})
