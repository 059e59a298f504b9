/** Fills the two projects before the attack. Rows of the hostile one are inserted past the limits of the tools. */
import { Context, Effect, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { body } from "../../../../../bench/support/corpus.ts"
import { Transfer } from "../../../../../src/agents/transfer/Transfer.ts"
import { uuidAt } from "../../../../../src/platform/crypto/Random.ts"
import { Database } from "../../../../../src/platform/database/Database.ts"

const entry = {
  kind: "note",
  tags: [],
  active: true,
  supersedes: null,
  superseded_by: null,
  superseded_at: null,
  actor: "chaos",
  role: "contributor",
  session_ref: null,
  task_id: null,
  source: "chaos"
}
const task = {
  body: "",
  status: "open",
  tags: [],
  assignee: null,
  claimed_at: null,
  version: 1,
  blocked_reason: null,
  blocked_kind: null,
  created_by: "chaos",
  closed_at: null
}

/** Imports ordinary entries and tasks; returns the ids of the entries. */
export const fillOrdinary = Effect.fnUntraced(function* (
  services: Context.Context<Transfer>,
  project_id: string,
  size: { readonly entries: number; readonly tasks: number }
) {
  const at = (n: number) => new Date(1_790_000_000_000 + n * 1000)
  const ids = yield* Effect.forEach(Array.from({ length: size.entries }), (_, n) => uuidAt(at(n)))
  const tasks = yield* Effect.forEach(Array.from({ length: size.tasks }), (_, n) => uuidAt(at(n)))
  const lines = [
    { export: "bridge-service project", project: { id: project_id, name: "x" }, created_at: at(0) },
    ...ids.map((id, n) => ({ memory: { ...entry, id, title: `Entry ${n}`, body: body(n), created_at: at(n) } })),
    ...tasks.map((id, n) => ({
      task: { ...task, id, title: `Task ${n}`, priority: n % 5, created_at: at(n), updated_at: at(n) }
    })),
    { counts: { memory: ids.length, task: tasks.length, dependency: 0, receipt: 0 } }
  ]
  const file = Stream.fromIterable(lines.map((line) => Buffer.from(`${JSON.stringify(line)}\n`)))
  yield* Context.get(services, Transfer).load(project_id, file)
  return ids
})

/** 333 different characters of a script without spaces. */
export const dense = String.fromCodePoint(...Array.from({ length: 333 }, (_, n) => 0x4e00 + n * 7))

/** Every entry holds the same text, so a search for it reads all postings. Each task waits for the 32 before it. */
export const fillHostile = Effect.fnUntraced(function* (
  services: Context.Context<Database>,
  project_id: string,
  size: { readonly entries: number; readonly tasks: number }
) {
  const grams = [1, 2, 3].flatMap((length) =>
    Array.from(dense)
      .slice(length - 1)
      .map((_, start) =>
        Array.from(dense)
          .slice(start, start + length)
          .join("")
      )
  )
  const insert = Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* sql`
      insert into memory_entry (project_id, id, kind, title, body, tags, actor, role, created_at)
      select ${project_id}::uuid, gen_random_uuid(), 'note', 'Dense', ${dense}, '{}', 'chaos', 'contributor', clock_timestamp()
        from generate_series(1, ${size.entries}::int)`
    yield* sql`
      insert into memory_posting (project_id, lexeme, entry_id, tf, dl)
      select project_id, lexeme, id, 1, ${grams.length}::int
        from memory_entry
       cross join unnest(${grams}::text[]) as lexeme
       where project_id = ${project_id}::uuid`
    yield* sql`insert into memory_count (project_id, part, active) values (${project_id}::uuid, 0, ${size.entries}::int)`
    yield* sql`
      insert into task (project_id, id, title, body, status, priority, tags, version, created_by, created_at, updated_at)
      select ${project_id}::uuid, ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'Task ' || n, '', 'open',
             2, '{}', 1, 'chaos', clock_timestamp(), clock_timestamp()
        from generate_series(1, ${size.tasks}::int) n`
    // Checking the foreign keys of 640,000 rows would take longer than the attack. Only a superuser may skip it.
    yield* sql.withTransaction(
      Effect.andThen(
        sql`
          select case when current_setting('is_superuser') = 'on'
                      then set_config('session_replication_role', 'replica', true) end`,
        sql`
          insert into task_dependency (project_id, task_id, depends_on)
          select ${project_id}::uuid,
                 ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid,
                 ('00000000-0000-7000-8000-' || lpad(to_hex(n - back), 12, '0'))::uuid
            from generate_series(1, ${size.tasks}::int) n, generate_series(1, 32) back
           where n > back`
      )
    )
    yield* sql`vacuum analyze`
  })
  // Past the statement timeout of the service's own connections.
  yield* Context.get(services, Database).dedicated(insert)
})
