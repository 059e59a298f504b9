/**
 * The collection that measures the search: 300 entries of five invented projects and 150 questions, in the text files
 * beside this one. The questions were written before anything was tuned, in the words of somebody who did not write the
 * entry; both were written for this repository.
 *
 *     e ID SESSION KIND AUTHOR|TITLE|TAGS|BODY    an entry, in the order in which they were written
 *     q KIND IDS|QUESTION                         a question and the entries that answer it
 *
 * The kind of a question is what is difficult about it: `plain` words of others, `context` that stands in the entry before,
 * `typo`, `identifier`, `path`, `commit`, `error`, `date`, `name`, `cjk` and `mixed` scripts.
 */
import { Context, Effect, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import * as Ranking from "../../src/agents/memory/Ranking.ts"
import { firstLine } from "../../src/agents/memory/Memory.ts"
import { Search } from "../../src/agents/search/Search.ts"
import { Transfer } from "../../src/agents/transfer/Transfer.ts"
import type { Stages } from "../../src/agents/ranking/Stages.ts"
import { Projects } from "../../src/operator/projects/Projects.ts"
import { uuidAt } from "../../src/platform/crypto/Random.ts"

const lines = readdirSync(import.meta.dirname)
  .filter((name) => name.endsWith(".txt"))
  .toSorted()
  .flatMap((name) =>
    readFileSync(join(import.meta.dirname, name), "utf8")
      .split("\n")
      .map((line) => ({ line, project: name.slice(0, -4) }))
  )

export const entries = lines.flatMap(({ line, project }) => {
  const [, name, session, kind, author, title, tags, body] =
    /^e (\w+) (\w+) (note|decision) (\w+)\|(.*?)\|(.*?)\|(.+)$/.exec(line) ?? []
  if (name === undefined) return []
  return [
    { name, session: `${project} ${session}`, kind: kind!, author: author!, title: title!, tags: tags!, body: body! }
  ]
})

export const questions = lines.flatMap(({ line }) => {
  const [, kind, names, text] = /^q (\w+) ([\w ]+)\|(.+)$/.exec(line) ?? []
  return kind === undefined ? [] : [{ kind, relevant: names!.split(" "), text: text! }]
})

const at = (n: number) => new Date(Date.UTC(2026, 5, 1) + n * 60_000)
const tagsOf = (tags: string) => tags.split(" ").filter((tag) => tag !== "")

/** Fills one project with all entries, so that a question meets the words of every project. */
export const fill = Effect.fnUntraced(function* (services: Context.Context<Projects | Transfer>) {
  const { project_id } = yield* Context.get(services, Projects).create("Collection")
  const names = new Map<string, string>()
  const rows: Array<unknown> = []
  for (const [n, { author, body, kind, name, session, tags, title }] of entries.entries()) {
    const id = yield* uuidAt(at(n))
    names.set(id, name)
    const provenance = { actor: author, role: "contributor", session_ref: session, task_id: null, source: "collection" }
    const state = { active: true, supersedes: null, superseded_by: null, superseded_at: null }
    const text = {
      title: title === "" ? firstLine(body) : title,
      body,
      tags: tagsOf(tags)
    }
    rows.push({ memory: { id, kind, ...text, ...state, ...provenance, created_at: at(n) } })
  }
  const header = { export: "bridge-service project", project: { id: project_id, name: "x" }, created_at: at(0) }
  const counts = { memory: rows.length, task: 0, dependency: 0, receipt: 0 }
  const file = Stream.fromIterable([header, ...rows, { counts }]).pipe(
    Stream.map((line) => Buffer.from(`${JSON.stringify(line)}\n`))
  )
  yield* Context.get(services, Transfer).load(project_id, file)
  return { project_id, names }
})

/** The same entries as open tasks of a project of their own. */
export const fillTasks = Effect.fnUntraced(function* (services: Context.Context<Projects>) {
  const { project_id } = yield* Context.get(services, Projects).create("Tasks")
  const sql = yield* SqlClient.SqlClient
  const names = new Map<string, string>()
  const rows: Array<unknown> = []
  for (const [n, { author, body, name, tags, title }] of entries.entries()) {
    const id = yield* uuidAt(at(n))
    names.set(id, name)
    rows.push({ id, title: title || `Task ${n}`, body, tags: tagsOf(tags), author, at: at(n) })
  }
  yield* sql`
    insert into task (
      project_id, id, title, body, status, priority, tags, version, created_by, created_at, updated_at)
    select ${project_id}::uuid, id, title, body, 'open', 2, tags, 1, author, at, at
      from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb)
        as t (id uuid, title text, body text, tags text[], author text, at timestamptz)`
  return { project_id, names }
})

export interface Quality {
  /** Percent of the relevant entries among the first ten, on average over the questions. */
  readonly recall: number
  /** 100 divided by the place of the first relevant entry, on average; 0 if it is not among the first ten. */
  readonly mrr: number
}

export interface Answer extends Quality {
  readonly kind: string
  readonly text: string
}

type Filled = Effect.Success<ReturnType<typeof fill>>

/** Asks every question, and compares the first ten with the entries that answer it. */
const answersOf = <E, R>(
  { names }: Filled,
  search: (text: string) => Effect.Effect<ReadonlyArray<{ readonly id: string }>, E, R>
) =>
  Effect.forEach(questions, ({ kind, relevant, text }) =>
    Effect.map(search(text), (hits) => {
      const found = hits.map(({ id }) => relevant.includes(names.get(id)!))
      const first = found.indexOf(true)
      const recall = (100 * found.filter(Boolean).length) / relevant.length
      return { kind, text, recall, mrr: first === -1 ? 0 : 100 / (first + 1) } satisfies Answer
    })
  )

/** Searches the memory of `fill` with these stages. */
export const answers = Effect.fnUntraced(function* (filled: Filled, stages: Stages) {
  const { search } = Ranking.make(yield* SqlClient.SqlClient)
  return yield* answersOf(filled, (text) =>
    Effect.map(search(filled.project_id, text, {}, 10, stages), (hits = []) => hits)
  )
})

/** Searches the tasks of `fillTasks`. */
export const answersOfTasks = (filled: Filled, services: Context.Context<Search>) =>
  answersOf(filled, (query) =>
    Effect.map(Context.get(services, Search).search(filled, { query, in: ["tasks"], limit: 10 }), ({ hits }) => hits)
  )

export const averageOf = (all: ReadonlyArray<Quality>): Quality => ({
  recall: all.reduce((sum, { recall }) => sum + recall, 0) / all.length,
  mrr: all.reduce((sum, { mrr }) => sum + mrr, 0) / all.length
})
