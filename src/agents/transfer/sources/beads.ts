/**
 * The issues of beads (`bd export`, `.beads/issues.jsonl`): a line of JSON each.
 *
 *     issue                          task
 *     blocks, conditional-blocks,
 *     waits-for                      depends_on; other dependencies are named in the body
 *     parent-child                   parent
 *     hooked; deferred; closed       in_progress; blocked; done; a deleted issue (tombstone) is skipped
 *     design, notes, ...             sections of the body
 *     comments                       notes of the task
 *     memory (bd remember)           entry
 */
import { Effect, Schema } from "effect"
import { uuidOf } from "../../../platform/crypto/Random.ts"
import { Instant } from "../../../wire/Instant.ts"
import type { Status } from "../../tasks/Shapes.ts"
import { entriesOf, type Item, originOf, type Skipped, tagsOf, taskOf, titleOf } from "./Item.ts"
import { fieldsOf, invalid, type Place, type SourceFile } from "./Place.ts"
import { objectsOf } from "./text.ts"

const text = Schema.optionalKey(Schema.NullOr(Schema.String))
const Issue = Schema.Struct({
  id: Schema.NonEmptyString,
  title: Schema.NonEmptyString,
  description: text,
  design: text,
  acceptance_criteria: text,
  notes: text,
  status: text,
  priority: Schema.optionalKey(Schema.NullOr(Schema.Int)),
  issue_type: text,
  assignee: text,
  external_ref: text,
  spec_id: text,
  owner: text,
  created_by: text,
  estimated_minutes: Schema.optionalKey(Schema.NullOr(Schema.Int)),
  metadata: Schema.optionalKey(Schema.Unknown),
  close_reason: text,
  defer_until: text,
  due_at: text,
  created_at: Schema.optionalKey(Instant),
  closed_at: Schema.optionalKey(Schema.NullOr(Instant)),
  labels: Schema.optionalKey(Schema.NullOr(Schema.Array(Schema.String))),
  dependencies: Schema.optionalKey(
    Schema.NullOr(Schema.Array(Schema.Struct({ depends_on_id: Schema.String, type: Schema.String })))
  ),
  comments: Schema.optionalKey(
    Schema.NullOr(
      Schema.Array(
        Schema.Struct({
          id: Schema.Union([Schema.String, Schema.Int]),
          author: Schema.String,
          text: Schema.String,
          created_at: Instant
        })
      )
    )
  )
})
type Issue = typeof Issue.Type
const issue = fieldsOf(Issue)
const memory = fieldsOf(Schema.Struct({ key: Schema.NonEmptyString, value: Schema.String }))

const statuses: Readonly<Record<string, Status>> = {
  open: "open",
  in_progress: "in_progress",
  hooked: "in_progress",
  blocked: "blocked",
  deferred: "blocked",
  closed: "done"
}
const waiting = ["blocks", "conditional-blocks", "waits-for"]

export const readBeads = Effect.fnUntraced(function* (label: string, files: ReadonlyArray<SourceFile>) {
  const issues = new Map<string, { readonly place: Place; readonly issue: Issue }>()
  const items: Array<Item> = []
  const skipped: Array<Skipped> = []
  for (const file of files) {
    for (const { place, value } of yield* objectsOf(file)) {
      const type = value["_type"] ?? "issue"
      if (type === "memory") {
        const { key, value: text } = yield* memory(place, value)
        const origin = originOf("beads", label, `memory:${key}`)
        items.push(...(yield* entriesOf({ place, origin, kind: "note", title: key, text, tags: [] })))
      } else if (type !== "issue") skipped.push({ place, why: "It is neither an issue nor a memory" })
      else if (value["status"] === "tombstone") skipped.push({ place, why: "The issue was deleted" })
      else {
        const decoded = yield* issue(place, value)
        const known = issues.get(decoded.id)
        if (known !== undefined) return yield* invalid(place, `It repeats the issue of line ${known.place.line}`)
        issues.set(decoded.id, { place, issue: decoded })
      }
    }
  }
  const idOf = (id: string) => uuidOf(originOf("beads", label, id))
  for (const { issue, place } of issues.values()) {
    const related = (issue.dependencies ?? []).filter(
      ({ depends_on_id, type }) => !issues.has(depends_on_id) || !(waiting.includes(type) || type === "parent-child")
    )
    const linked = (types: ReadonlyArray<string>) =>
      (issue.dependencies ?? []).flatMap(({ depends_on_id, type }) =>
        types.includes(type) && issues.has(depends_on_id) ? [idOf(depends_on_id)] : []
      )
    const status = statuses[issue.status ?? "open"] ?? "open"
    const [parent, ...otherParents] = linked(["parent-child"])
    if (otherParents.length > 0) return yield* invalid(place, "The issue has more than one parent")
    const tags = [...(issue.labels ?? []), ...(issue.issue_type === "task" ? [] : [issue.issue_type ?? ""])]
    items.push(
      yield* taskOf({
        place,
        origin: originOf("beads", label, issue.id),
        id: idOf(issue.id),
        title: titleOf(issue.title),
        body: bodyOf(issue, related),
        status,
        // Earlier releases of beads leave out 0.
        priority: issue.priority ?? 0,
        tags: tagsOf(tags),
        depends_on: linked(waiting),
        parent: parent ?? null,
        assignee: issue.assignee || null,
        blocked_kind: status === "blocked" ? "other" : null,
        blocked_reason: status === "blocked" ? reasonOf(issue) : null,
        version: undefined,
        created_at: issue.created_at,
        closed_at: status === "done" ? (issue.closed_at ?? undefined) : undefined,
        notes: (issue.comments ?? []).map(({ author, created_at, id, text }) => ({
          key: `comment:${id}`,
          text: `${author}: ${text}`,
          created_at
        }))
      })
    )
  }
  return { items, skipped }
})

const reasonOf = ({ defer_until, status }: Issue) =>
  status === "deferred" ? `Deferred${defer_until ? ` until ${defer_until}` : ""} in beads` : "Blocked in beads"

/** An object, or the text of one. */
const metadataOf = (metadata: unknown) => {
  const text = typeof metadata === "string" ? metadata : metadata === null ? undefined : JSON.stringify(metadata)
  return text === "{}" ? undefined : text
}

/** Everything that a task has no field for. */
const bodyOf = (issue: Issue, related: NonNullable<Issue["dependencies"]>) => {
  const status = issue.status ?? "open"
  const facts: ReadonlyArray<readonly [string, string | null | undefined]> = [
    ["beads", issue.id],
    ["title", titleOf(issue.title) === issue.title ? undefined : issue.title],
    ["status", Object.hasOwn(statuses, status) ? undefined : status],
    ["reference", issue.external_ref],
    ["specification", issue.spec_id],
    ["owner", issue.owner],
    ["created by", issue.created_by],
    ["estimated minutes", issue.estimated_minutes?.toString()],
    ["metadata", metadataOf(issue.metadata)],
    ["due", issue.due_at],
    ["closed", issue.close_reason === "Closed" ? undefined : issue.close_reason],
    ...related.map(({ depends_on_id, type }) => [type, depends_on_id] as const)
  ]
  const section = (heading: string, text: string | null | undefined) =>
    text?.trim() ? [`## ${heading}\n\n${text.trim()}`] : []
  return [
    ...(issue.description?.trim() ? [issue.description.trim()] : []),
    ...section("Design", issue.design),
    ...section("Acceptance criteria", issue.acceptance_criteria),
    ...section("Notes", issue.notes),
    facts.flatMap(([name, value]) => (value ? [`- ${name}: ${value}`] : [])).join("\n")
  ].join("\n\n")
}
