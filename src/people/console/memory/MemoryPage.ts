/** The memory of a project: the agents' own search, or the newest entries. */
import { Effect, Result, Schema } from "effect"
import { Memory } from "../../../agents/memory/Memory.ts"
import { type MemoryHits, MemorySearch } from "../../../agents/memory/Shapes.ts"
import { html, type Html } from "../../../platform/html/Html.ts"
import { empty, mark, meta, more, options, prose, tags, time } from "../Parts.ts"
import { addEntryForm } from "./MemoryForms.ts"
import { NotHere, pathOf, type View } from "../View.ts"

const kinds = [
  ["", "Notes and decisions"],
  ["note", "Notes"],
  ["decision", "Decisions"]
] as const

const decode = Schema.decodeUnknownResult(MemorySearch)

export const memoryPage = Effect.gen(function* () {
  const memory = yield* Memory
  return Effect.fnUntraced(function* (view: View) {
    const { now, project, query } = view
    const given = (name: string) => (query.get(name) ?? "").trim()
    const kind = kinds.find(([value]) => value === given("kind"))?.[0] ?? ""
    const search = decode({
      query: given("query"),
      limit: 25,
      ...(kind !== "" && { kind }),
      ...(given("tag") !== "" && { tags: [given("tag")] }),
      ...(given("after") !== "" && { cursor: given("after") })
    })
    const none: MemoryHits = { entries: [], matched: "recent" }
    const found = Result.isSuccess(search)
      ? yield* memory.search(project, search.success).pipe(
          Effect.map((hits) => ({ hits, problem: undefined })),
          Effect.catchTags({
            cursor_invalid: () => new NotHere(),
            search_too_broad: ({ message }) => Effect.succeed({ hits: none, problem: message })
          })
        )
      : { hits: none, problem: undefined }
    const { entries, next_cursor } = found.hits
    const next = next_cursor === undefined ? undefined : { after: next_cursor }
    const isFiltered = ["query", "kind", "tag", "after"].some((name) => given(name) !== "")
    return {
      title: "Memory",
      body: html`<h1>Memory</h1>
        ${addEntryForm(view)}
        <form class="filters" method="get" role="search" aria-label="Search memory">
          <div class="wide">
            <label for="query">Search</label>
            <input id="query" name="query" type="search" maxlength="1000" value="${given("query")}" />
          </div>
          <div>
            <label for="kind">Kind</label>
            <select id="kind" name="kind">
              ${options(kinds, kind)}
            </select>
          </div>
          <div>
            <label for="tag">Tag</label>
            <input id="tag" name="tag" maxlength="64" value="${given("tag")}" />
          </div>
          <div><button>Search</button></div>
        </form>
        ${found.problem !== undefined && html`<div class="note" role="alert"><p>${found.problem}</p></div>`}
        ${entries.length > 0 && entryList(view, entries, now)}
        ${
          entries.length === 0 &&
          found.problem === undefined &&
          (isFiltered
            ? empty("Nothing in memory matches.")
            : empty(
                "This project remembers nothing yet.",
                "Agents add notes and decisions with the tool memory_add, people here."
              ))
        }
        ${more(pathOf(view, "memory"), query, next)}`
    }
  })
})

const entryList = (view: View, entries: MemoryHits["entries"], now: Date): Html =>
  html` <ul class="rows">
    ${entries.map(
      (entry) =>
        html`<li>
          <div class="line">
            <a class="name" href="${pathOf(view, "memory", entry.id)}">${entry.title}</a>
            <span>${kindMark(entry.kind)}</span>
          </div>
          ${entry.excerpt !== entry.title && html`<div class="small">${prose(entry.excerpt)}</div>`}
          ${meta(
            time(entry.created_at, now),
            entry.tags.length > 0 && tags(entry.tags),
            entry.matched !== undefined && reasonOf(entry.matched)
          )}
        </li>`
    )}
  </ul>`

const reasons = { words: "its words", related: "related words", context: "an entry beside it", meaning: "its meaning" }

const reasonOf = (matched: NonNullable<MemoryHits["entries"][number]["matched"]>) =>
  `Found by ${matched.map((reason) => reasons[reason]).join(", ")}`

export const kindMark = (kind: "note" | "decision"): Html => mark(kind, kind === "decision" ? "info" : undefined)
