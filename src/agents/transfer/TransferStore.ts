/** Statements for export and import. PostgreSQL converts rows to JSON and back. */
import { Effect, Option, Schema, Struct } from "effect"
import type { SqlClient } from "effect/sql"
import { auditRow, type Trace } from "../../platform/sql/AuditRow.ts"
import { type Added, charge, type Usage } from "../../platform/sql/ProjectUsage.ts"
import { firstRow, rows } from "../../platform/sql/Rows.ts"
import { nil } from "../../wire/Ids.ts"
import { FlatEntry } from "../memory/Shapes.ts"
import type { Kind } from "./Shapes.ts"

const Line = Schema.Struct({ key: Schema.String, line: Schema.String })

const LastEntry = Schema.Struct({
  first: Schema.String,
  ...Struct.pick(FlatEntry.fields, ["id", "kind", "title", "body", "tags", "active", "source"])
})
export type LastEntry = typeof LastEntry.Type

const tables = {
  memory: { table: "memory_entry", key: "id" },
  task: { table: "task", key: "id" },
  dependency: { table: "task_dependency", key: "task_id, depends_on" },
  receipt: { table: "receipt", key: "id" },
  note: { table: "task_note", key: "id" }
} as const

export const make = (sql: SqlClient.SqlClient) => {
  const snapshot = sql`set transaction isolation level repeatable read, read only`

  const findProject = (project_id: string) =>
    firstRow(Schema.Struct({ id: Schema.String, name: Schema.String }))(sql`
      select project_id as id, name
        from project
       where project_id = ${project_id}::uuid
         and deleted_at is null`)

  /** The limits of an existing project that differ from the defaults. */
  const findLimits = (project_id: string) =>
    firstRow(Schema.Struct({ limits: Schema.Record(Schema.String, Schema.Number) }))(sql`
      select limits
        from project
       where project_id = ${project_id}::uuid
         and deleted_at is null`)

  /** Adds the rows of an import to the project's usage; returns nothing if it would pass one of `maxima`. */
  const chargeImport = (
    project_id: string,
    { index_bytes, ...added }: Added & Pick<Usage, "index_bytes">,
    maxima: Usage
  ) =>
    rows(Schema.Struct({ project_id: Schema.String }))(sql`
      with imported as (
        select 1
      ), charged as (
        ${charge(sql, project_id, "imported", added, maxima, sql`${index_bytes}::bigint`)}
      )
      select project_id from charged`)

  /** A page of rows after the key `after`, one line of the file each. */
  const page = (project_id: string, kind: Kind, after: string, limit: number) => {
    const { key, table } = tables[kind]
    const [first = nil, second = nil] = after === "" ? [] : after.split(" ")
    return rows(Line)(sql`
      select concat_ws(' ', ${sql.literal(key)}) as key,
             jsonb_build_object(${kind}::text, to_jsonb(t) - array['project_id', 'waits_for'])::text as line
        from ${sql.literal(table)} t
       where project_id = ${project_id}::uuid
         and (${sql.literal(key)}) > ${
           kind === "dependency" ? sql`(${first}::uuid, ${second}::uuid)` : sql`(${first}::uuid)`
         }
       order by ${sql.literal(key)}
       limit ${limit}`)
  }

  /** How many rows of these kinds the project has. */
  const amount = (project_id: string, kinds: ReadonlyArray<Kind>) =>
    Effect.map(
      Effect.forEach(kinds, (kind) =>
        firstRow(Schema.Struct({ rows: Schema.Int }))(sql`
          select count(*)::int as rows
            from ${sql.literal(tables[kind].table)}
           where project_id = ${project_id}::uuid`)
      ),
      (found) => found.reduce((sum, count) => sum + Option.getOrThrow(count).rows, 0)
    )

  /** Checks foreign keys at the end of the transaction, because entries refer to each other in both directions. */
  const deferReferences = sql`set constraints all deferred`

  /** Inserts the rows whose key the project does not have yet, and returns their keys. */
  const add = (project_id: string, kind: Kind, json: string) => {
    const { key, table } = tables[kind]
    return rows(Schema.Struct({ key: Schema.String }))(sql`
      insert into ${sql.literal(table)}
      select (jsonb_populate_record(null::${sql.literal(table)},
                                    item || jsonb_build_object('project_id', ${project_id}::text, 'waits_for', 0))).*
        from jsonb_array_elements(${json}::jsonb) item
          on conflict do nothing
      returning concat_ws(' ', ${sql.literal(key)}) as key`)
  }

  /** The `ids` that do not name a task of the project. */
  const unknownTasks = (project_id: string, ids: ReadonlyArray<string>) =>
    rows(Schema.Struct({ id: Schema.String }))(sql`
      select asked.id
        from unnest(${ids}::uuid[]) as asked (id)
        left join task t on t.project_id = ${project_id}::uuid and t.id = asked.id
       where t.id is null`)

  /**
   * Finds an imported entry or task that refers to a row which the project does not have. Constraints prevent this for all
   * other rows. Each reference is looked up by itself: in a database without statistics a join of 100,000 rows with
   * themselves took minutes.
   */
  const dangling = (project_id: string) => {
    const lacks = (table: "memory_entry" | "task", reference: string) => sql`
      ${sql.literal(reference)} is not null
      and not exists (
        select from ${sql(table)} r where r.project_id = ${project_id}::uuid and r.id = ${sql.literal(reference)})`
    return rows(Schema.Struct({ kind: Schema.Literals(["memory", "task"]), id: Schema.String }))(sql`
      (select 'memory' as kind, e.id
         from memory_entry e
        where e.project_id = ${project_id}::uuid
          and (${lacks("memory_entry", "e.supersedes")}
               or ${lacks("memory_entry", "e.superseded_by")}
               or ${lacks("task", "e.task_id")})
        order by e.id
        limit 1)
       union all
      (select 'task', t.id
         from task t
        where t.project_id = ${project_id}::uuid
          and (${lacks("memory_entry", "t.answer_entry_id")}
               or ${lacks("task", "t.parent")})
        order by t.id
        limit 1)`)
  }

  /** The last entry of each succession that begins with one of `ids`. */
  const lastEntries = (project_id: string, ids: ReadonlyArray<string>) =>
    rows(LastEntry)(sql`
      with recursive succession (first, id) as (
        select id, id
          from memory_entry
         where project_id = ${project_id}::uuid
           and id = any (${ids}::uuid[])
         union all
        select s.first, e.superseded_by
          from succession s
          join memory_entry e on e.project_id = ${project_id}::uuid and e.id = s.id
         where e.superseded_by is not null
      )
      select s.first, e.id, e.kind, e.title, e.body, e.tags, e.active, e.source
        from succession s
        join memory_entry e on e.project_id = ${project_id}::uuid and e.id = s.id
       where e.superseded_by is null`)

  /** Active entries that an import wrote. */
  const importedEntries = (project_id: string) =>
    rows(Schema.Struct({ id: Schema.String, source: Schema.String }))(sql`
      select id, source
        from memory_entry
       where project_id = ${project_id}::uuid
         and active
         and source is not null
       order by id`)

  const audited = (
    project_id: string,
    action: string,
    actor: string,
    subject: Readonly<Record<string, unknown>>,
    trace: Trace
  ) => sql`
    with imported as (select 1)
    ${auditRow(sql, trace, {
      action,
      from: "imported",
      project: sql`${project_id}::uuid`,
      actor: sql`${actor}::text`,
      subject: sql`${JSON.stringify(subject)}::jsonb`
    })}`

  return {
    snapshot,
    findProject,
    findLimits,
    chargeImport,
    page,
    amount,
    deferReferences,
    add,
    unknownTasks,
    dangling,
    lastEntries,
    importedEntries,
    audited
  }
}
