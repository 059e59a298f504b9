/** What people do to memory: add a note or a decision, supersede an entry, archive one. */
import { Effect } from "effect"
import { Memory } from "../../../agents/memory/Memory.ts"
import { MemoryAdd, type MemoryEntry } from "../../../agents/memory/Shapes.ts"
import { html, type Html, type Part } from "../../../platform/html/Html.ts"
import type { Actor } from "../../../wire/Actor.ts"
import { command, options } from "../Parts.ts"
import { NotHere, pathOf, type View } from "../View.ts"
import {
  checked,
  commonRefusals,
  conflict,
  folded,
  given,
  keyOf,
  mayWrite,
  periodOf,
  sentHere,
  tagsIn,
  textArea,
  textField,
  typed,
  type Sent
} from "../Writing.ts"

const kinds = [
  ["note", "Note"],
  ["decision", "Decision"]
] as const

/** Each returns the page of the entry. */
export const memoryActions = Effect.gen(function* () {
  const memory = yield* Memory

  const write = Effect.fnUntraced(function* (view: View, author: Actor, sent: Sent, supersedes: string | undefined) {
    const { fields } = sent
    const title = typed(fields, "title").trim()
    const path = pathOf(view, "memory", ...(supersedes === undefined ? [] : [supersedes]))
    const input = yield* checked(
      view,
      MemoryAdd,
      given({
        kind: fields.get("kind") ?? "note",
        title: title === "" ? undefined : title,
        body: typed(fields, "body"),
        tags: tagsIn(fields),
        supersedes,
        idempotency_key: keyOf(view.session, path, sent)
      })
    )
    const added = yield* memory.add(author, input).pipe(
      Effect.catchTags({
        ...commonRefusals,
        task_not_found: Effect.die,
        memory_not_found: () => new NotHere(),
        memory_already_superseded: () => conflict(wasFirst)
      })
    )
    return pathOf(view, "memory", added.answer.id)
  })

  const archive = Effect.fnUntraced(function* (view: View, author: Actor) {
    yield* memory
      .archive(view.project.project_id, view.id, author)
      .pipe(Effect.catchTag("memory_not_found", () => new NotHere()))
    return pathOf(view, "memory", view.id)
  })

  return {
    archive,
    add: (view: View, author: Actor, sent: Sent) => write(view, author, sent, undefined),
    supersede: (view: View, author: Actor, sent: Sent) => write(view, author, sent, view.id)
  }
})

const wasFirst =
  "Somebody has superseded or archived this entry, so nothing was saved. Supersede its successor if your text still holds."

export const addEntryForm = (view: View): Part =>
  mayWrite(view, "memory:write") &&
  folded(view, "add", "Add a note or a decision", html`${periodOf(view)} ${entryFields(view, "add", undefined, "Add")}`)

export const supersedeForm = (view: View, entry: MemoryEntry): Part => {
  if (!mayWrite(view, "memory:write") || (!entry.active && sentHere(view, "supersede") === undefined)) return undefined
  return folded(
    view,
    "supersede",
    "Supersede this entry",
    html`<p class="soft small wide">Agents find the new entry instead of this one; this one stays readable.</p>
      ${entryFields(view, "supersede", entry, "Supersede")}`
  )
}

export const archiveForm = (view: View, { active, id }: MemoryEntry): Part =>
  active &&
  mayWrite(view, "memory:write") &&
  folded(
    view,
    "archive",
    "Archive this entry",
    html`<p class="wide">
        Agents no longer find it, in searches or in their context. Whoever has its address can still read it. It cannot
        be undone; a new entry can say the same.
      </p>
      ${
        view.session.token === undefined &&
        html`<p class="small wide">
          ${command(`service-admin archive-memory --project ${view.project.project_id} --entry ${id}`)}
        </p>`
      }
      <div class="wide"><button class="danger">Archive</button></div>`
  )

const entryFields = (view: View, action: string, entry: MemoryEntry | undefined, button: string): Html => {
  const sent = sentHere(view, action)
  const before: Readonly<Record<string, string>> = {
    kind: entry?.kind ?? "note",
    title: entry?.title ?? "",
    body: entry?.body ?? "",
    tags: entry?.tags.join(" ") ?? ""
  }
  const value = (name: string) => (sent === undefined ? before[name]! : typed(sent, name))
  return html`<div>
      <label for="new-kind">Kind</label>
      <select id="new-kind" name="kind">
        ${options(kinds, value("kind"))}
      </select>
    </div>
    ${textField("title", "Title", value("title"), html`maxlength="200"`)}
    ${textArea("body", "Text", value("body"), html`rows="8" maxlength="16384" required`)}
    ${textField("tags", "Tags (with spaces between)", value("tags"))}
    <div class="wide"><button class="primary">${button}</button></div>`
}
