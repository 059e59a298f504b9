/**
 * Writes a project as a folder of Markdown: a file for each active entry and each task, which people review in git and
 * `import-memory` reads again. The same project gives the same files. Runs in a transaction of the caller.
 *
 * A file keeps its name when its entry is superseded under the same title: the name ends with the id of the first entry.
 */
import { Effect, Option, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { done, expect } from "../../platform/metrics/Progress.ts"
import { refuse } from "../continuity/Errors.ts"
import { normalTag } from "../continuity/Shapes.ts"
import { FlatEntry } from "../memory/Shapes.ts"
import { Task } from "../tasks/Shapes.ts"
import { type Kind, pageSize } from "./Shapes.ts"
import { mark } from "./sources/exported.ts"
import * as FrontMatter from "./sources/FrontMatter.ts"
import * as Store from "./TransferStore.ts"

export type MarkdownCounts = Readonly<Record<"memory" | "task", number>>

const { depends_on: _, ready: __, ...columns } = Task.fields
const Dependency = Schema.Struct({ task_id: Schema.String, depends_on: Schema.String })

export const exportMarkdown = Effect.fnUntraced(function* <E>(
  project_id: string,
  write: (path: string, text: string) => Effect.Effect<void, E>
) {
  const store = Store.make(yield* SqlClient.SqlClient)
  yield* store.snapshot
  const project = yield* store.findProject(project_id)
  if (Option.isNone(project)) return yield* refuse("project_not_found")
  yield* expect(store.amount(project_id, ["memory", "dependency", "task"]))
  const counts = { memory: 0, task: 0 }
  const names = new Set<string>()
  /** The first entry of each succession. */
  const firsts = new Map<string, string>()
  const waits = new Map<string, Array<string>>()

  const nameOf = (folder: string, title: string, id: string) => {
    const slug = Buffer.from(normalTag(title).replaceAll(/[^\p{L}\p{N}]/gu, "-"))
      .subarray(0, 80)
      .toString("utf8")
    const stem = `${folder}/${slug.replaceAll("\ufffd", "")}`
    const name = names.has(`${stem}-${id.slice(-8)}`) ? `${stem}-${id}` : `${stem}-${id.slice(-8)}`
    names.add(name)
    return `${name}.md`
  }

  const each = Effect.fnUntraced(function* <A, E2>(
    kind: Kind,
    row: Schema.Codec<A, unknown>,
    use: (row: A) => Effect.Effect<void, E2>
  ) {
    const decode = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Struct({ [kind]: row })))
    let after = ""
    do {
      const page = yield* store.page(project_id, kind, after, pageSize)
      after = page.length === pageSize ? page.at(-1)!.key : ""
      for (const { line } of page) yield* use(decode(line)[kind]!)
      yield* done(page.length)
    } while (after !== "")
  })

  yield* each("memory", FlatEntry, ({ active, body, created_at, id, kind, source, supersedes, tags, title }) => {
    const first = supersedes === null ? id : (firsts.get(supersedes) ?? supersedes)
    if (supersedes !== null) firsts.set(id, first)
    if (!active) return Effect.void
    counts.memory += 1
    const fields = {
      [mark]: "entry",
      id,
      kind,
      title,
      tags,
      created_at: created_at.toISOString(),
      ...given({ source })
    }
    return write(nameOf(`memory/${kind}s`, title, first), `${FrontMatter.write(fields)}${body}\n`)
  })
  yield* each("dependency", Dependency, ({ depends_on, task_id }) =>
    Effect.sync(() => {
      const known = waits.get(task_id)
      if (known === undefined) waits.set(task_id, [depends_on])
      else known.push(depends_on)
    })
  )
  yield* each("task", Schema.Struct(columns), ({ body, closed_at, created_at, id, parent = null, ...task }) => {
    const { assignee, blocked_kind, blocked_reason, priority, status, tags, title, version } = task
    counts.task += 1
    const fields = {
      [mark]: "task",
      id,
      version,
      title,
      status,
      priority,
      tags,
      ...given({ assignee, depends_on: waits.get(id)?.toSorted() ?? null, parent, blocked_kind, blocked_reason }),
      created_at: created_at.toISOString(),
      ...given({ closed_at: closed_at?.toISOString() ?? null })
    }
    return write(nameOf("tasks", title, id), `${FrontMatter.write(fields)}${body}\n`)
  })
  yield* write("README.md", about(project.value, counts))
  return counts
})

const given = (fields: Readonly<Record<string, unknown>>) =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null))

const about = ({ id, name }: { readonly id: string; readonly name: string }, { memory, task }: MarkdownCounts) =>
  `${FrontMatter.write({ [mark]: "project", id, name })}# ${name}

The active memory (${memory}) and the tasks (${task}) of a project of Bridge Service, one file each. Edit a file below its
front matter, or its title, tags, kind, status or priority, and bring the folder back:

    service-admin import-memory --project ${id} --from markdown --dry-run .

An edited entry supersedes the old one; an edited task gets a new version. A new Markdown file becomes a new entry. Deleting
a file changes nothing.
`
