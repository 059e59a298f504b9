/** The index of the search: each section of each page with the rows of its tables. Ranking.ts searches it in the browser. */
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
  sections: outline(body).map(({ id, level, rows, text, title }) => [
    level === 1 ? "" : id,
    title,
    text,
    rows.map(({ id, rest, title }) => [id, title, rest])
  ])
})
