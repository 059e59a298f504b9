/** The index of the search: the text of each section of each page. The script of the pages searches it (Script.ts). */
import { Effect } from "effect"
import type { Entry } from "./Contents.ts"
import { outline } from "./Outline.ts"

/** All pages together take a tenth of a second to render: other requests get their turn in between. */
export const searchIndex = (entries: ReadonlyArray<Entry>, body: (entry: Entry) => string): Effect.Effect<string> =>
  Effect.map(
    Effect.forEach(entries, (entry) =>
      Effect.andThen(
        Effect.yieldNow,
        Effect.sync(() => indexed(entry, body(entry)))
      )
    ),
    (pages) => JSON.stringify(pages)
  )

const indexed = ({ about, path, title }: Entry, body: string) => ({
  path,
  title,
  about,
  sections: outline(body).map(({ id, level, text, title }) => [level === 1 ? "" : id, title, text])
})
