/** The files of `export-project --format markdown`, one for each entry and task; exportMarkdown.ts writes them. */
import { Effect, Schema } from "effect"
import { Uuid } from "../../../wire/Ids.ts"
import { Instant } from "../../../wire/Instant.ts"
import { Kind } from "../../memory/Shapes.ts"
import { Task } from "../../tasks/Shapes.ts"
import type { FrontMatter } from "./FrontMatter.ts"
import { entriesOf, type Item, type Skipped, taskOf } from "./Item.ts"
import { fieldsOf, invalid, type Place } from "./Place.ts"

/** The field that tells such files from others. */
export const mark = "bridge-service"

const Entry = Schema.Struct({
  id: Uuid,
  kind: Kind,
  title: Schema.String,
  tags: Schema.Array(Schema.String)
})
const NewTask = Schema.Struct({
  id: Uuid,
  title: Schema.String,
  version: Schema.Int,
  status: Task.fields.status,
  priority: Schema.Int,
  tags: Schema.Array(Schema.String),
  assignee: Schema.optionalKey(Schema.String),
  depends_on: Schema.optionalKey(Schema.Array(Uuid)),
  parent: Schema.optionalKey(Uuid),
  blocked_kind: Schema.optionalKey(Schema.Literals(["decision", "external", "other"])),
  blocked_reason: Schema.optionalKey(Schema.String),
  created_at: Instant,
  closed_at: Schema.optionalKey(Instant)
})
const entryFields = fieldsOf(Entry)
const taskFields = fieldsOf(NewTask)

/** Undefined if the file is not of an export. */
export const exported = Effect.fnUntraced(function* (
  place: Place,
  found: FrontMatter | undefined
): Effect.fn.Return<Skipped | { readonly items: ReadonlyArray<Item> } | undefined, ReturnType<typeof invalid>> {
  if (found?.fields[mark] === undefined) return undefined
  const { body, fields, lines } = found
  const what = fields[mark]
  const start = { file: place.file, line: 1 + lines }
  const written = body.endsWith("\n") ? body.slice(0, -1) : body
  if (what === "project") return { place, why: "It describes the export" }
  if (what === "entry") {
    const { id, kind, tags, title } = yield* entryFields(place, fields)
    return { items: yield* entriesOf({ place: start, origin: `markdown:${id}`, id, kind, title, text: written, tags }) }
  }
  if (what === "task") {
    const task = yield* taskFields(place, fields)
    const item = yield* taskOf({
      assignee: null,
      blocked_kind: null,
      blocked_reason: null,
      closed_at: undefined,
      depends_on: [],
      parent: null,
      ...task,
      place,
      origin: `markdown:${task.id}`,
      body: written,
      notes: []
    })
    return { items: [item] }
  }
  return yield* invalid(place, `${mark}: Expected entry, task or project`)
})
