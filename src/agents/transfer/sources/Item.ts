/**
 * What a source becomes: entries of memory and tasks, within the limits of the tools.
 *
 * Each item has an origin, such as `markdown:shop/docs/setup.md#install`, which is an entry's `provenance.source`. The id of
 * what is first made of an item is derived from its origin, so that the next import of the source finds it.
 */
import { Effect, Schema, Struct } from "effect"
import { uuidOf } from "../../../platform/crypto/Random.ts"
import { sha256 } from "../../../platform/crypto/Sha256.ts"
import { excerpt, withoutHidden } from "../../../wire/Text.ts"
import { normalTag } from "../../continuity/Shapes.ts"
import { firstLine } from "../../memory/Memory.ts"
import { MemoryAdd } from "../../memory/Shapes.ts"
import { type Note, NoteText, type Task, TaskCreate, TaskUpdate } from "../../tasks/Shapes.ts"
import { pieces } from "./pieces.ts"
import type { Format } from "./formats.ts"
import { fieldsOf, invalid, type Place } from "./Place.ts"

export interface EntryItem {
  readonly is: "entry"
  readonly place: Place
  readonly id: string
  readonly source: string
  readonly kind: "note" | "decision"
  readonly title: string
  readonly body: string
  readonly tags: ReadonlyArray<string>
}

export interface TaskItem extends Pick<
  Task,
  "title" | "body" | "status" | "priority" | "tags" | "depends_on" | "assignee" | "blocked_kind" | "blocked_reason"
> {
  readonly is: "task"
  readonly place: Place
  readonly id: string
  readonly parent: string | null
  /** Of the task that an export wrote. */
  readonly version: number | undefined
  readonly created_at: Date | undefined
  readonly closed_at: Date | undefined
  readonly notes: ReadonlyArray<Pick<Note, "id" | "text"> & { readonly created_at: Date | undefined }>
}

export type Item = EntryItem | TaskItem

/** What becomes nothing, and why. */
export interface Skipped {
  readonly place: Place
  readonly why: string
}

export interface Source {
  readonly items: ReadonlyArray<Item>
  readonly skipped: ReadonlyArray<Skipped>
}

/** A file or entity of a source. What follows `#` in an origin is a part of it. */
export const unitOf = (source: string) => {
  const end = source.indexOf("#")
  return end === -1 ? source : source.slice(0, end)
}

export const originOf = (format: Format, label: string, key: string) =>
  `${format}:${label}/${short(key.replaceAll("%", "%25").replaceAll("#", "%23"))}`

/** With part, an origin fits `provenance.source`, 256 bytes. */
const short = (key: string) =>
  Buffer.byteLength(key) <= 120 ? key : `${excerpt(key, 80)}${Buffer.from(sha256(key)).toString("hex").slice(0, 32)}`

const entryFields = fieldsOf(Schema.Struct(Struct.pick(MemoryAdd.fields, ["kind", "title", "body", "tags"])))
const taskFields = fieldsOf(
  Schema.Struct({
    ...Struct.pick(TaskCreate.fields, ["title", "body", "priority", "tags", "depends_on"]),
    ...Struct.pick(TaskUpdate.fields, ["status", "assignee", "blocked_kind", "blocked_reason"])
  })
)
const noteText = fieldsOf(NoteText)

/** The most that one field may have, in bytes. */
const longest = { body: 16_384, note: 4000, title: 200 }

/** One line of a text as a title: cut, and without what a title may not show. */
export const titleOf = (text: string) => excerpt(withoutHidden(text.replaceAll("\t", " ")).trim(), longest.title)

/** Tags that the tools take, at most 16. */
export const tagsOf = (written: ReadonlyArray<string>) =>
  [...new Set(written.map(normalTag))].filter((tag) => tag !== "" && Buffer.byteLength(tag) <= 64).slice(0, 16)

/** The entries of a text: one, or several if it is too long for one. `place` is where the text begins. */
export const entriesOf = Effect.fnUntraced(function* (draft: {
  readonly place: Place
  readonly origin: string
  readonly kind: "note" | "decision"
  readonly title?: string | undefined
  readonly text: string
  readonly tags: ReadonlyArray<string>
  /** The entry that an export wrote. */
  readonly id?: string | undefined
}) {
  const { file, line } = draft.place
  const parts = pieces(draft.text, longest.body)
  if ("tooLong" in parts) {
    return yield* invalid({ file, line: line + parts.tooLong }, `The line has more than ${longest.body} bytes`)
  }
  return yield* Effect.forEach(parts.pieces, ({ from, text }, index) =>
    Effect.gen(function* () {
      const place = { file, line: line + from }
      const source = index === 0 ? draft.origin : `${draft.origin}${draft.origin.includes("#") ? "" : "#"}+${index + 1}`
      const given = draft.id === undefined ? titleOf(draft.title ?? "") : draft.title
      const whole = given || firstLine(text)
      const title = index === 0 ? whole : `${excerpt(whole, longest.title - 10)} (${index + 1})`
      const {
        body,
        kind,
        tags = []
      } = yield* entryFields(place, {
        kind: draft.kind,
        title,
        body: text,
        tags: draft.tags
      })
      return {
        is: "entry" as const,
        place,
        id: index === 0 ? (draft.id ?? uuidOf(source)) : uuidOf(source),
        source,
        kind,
        title,
        body,
        tags: [...new Set(tags)]
      }
    })
  )
})

/** A task, with what does not fit its body as notes before the others. */
export const taskOf = Effect.fnUntraced(function* (
  draft: Omit<TaskItem, "is" | "notes"> & {
    readonly origin: string
    readonly notes: ReadonlyArray<{
      readonly key: string
      readonly text: string
      readonly created_at: Date | undefined
    }>
  }
) {
  const { notes, origin, ...task } = draft
  const split = (text: string, limit: number) => {
    const parts = pieces(text, limit, true)
    return "tooLong" in parts ? [] : parts.pieces.map(({ text }) => text)
  }
  const [body = "", ...rest] = split(task.body, longest.body)
  const given = Object.entries({ ...task, body }).filter(([, value]) => value !== null)
  const fields = yield* taskFields(task.place, Object.fromEntries(given))
  if (fields.status !== "blocked" && fields.blocked_reason !== undefined) {
    return yield* invalid(task.place, "blocked_reason: Only with status blocked")
  }
  const all = [
    ...rest.map((text, index) => ({ key: `body+${index + 2}`, text, created_at: undefined })),
    ...notes
  ].flatMap(({ created_at, key, text }) =>
    split(text, longest.note).map((text, index) => ({ key: `${key}+${index + 1}`, text, created_at }))
  )
  return {
    ...task,
    is: "task" as const,
    title: fields.title,
    body: fields.body ?? "",
    status: fields.status ?? "open",
    priority: fields.priority ?? 2,
    tags: [...new Set(fields.tags)],
    depends_on: [...new Set(fields.depends_on)].toSorted(),
    assignee: fields.assignee ?? null,
    blocked_kind: fields.status === "blocked" ? (fields.blocked_kind ?? "other") : null,
    blocked_reason: fields.blocked_reason ?? null,
    notes: yield* Effect.forEach(all, ({ created_at, key, text }) =>
      Effect.map(noteText(task.place, text), (text) => ({
        id: uuidOf(`${origin}#${key}`),
        text,
        created_at
      }))
    )
  }
})
