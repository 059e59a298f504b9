/** The statements of export and import. Rows travel as JSON made and read by PostgreSQL. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { auditRow, type Trace } from "../../platform/sql/AuditRow.ts"
import { firstRow, rows } from "../../platform/sql/Rows.ts"

const Line = Schema.Struct({ key: Schema.String, line: Schema.String })

/** In the order of the file: what is referred to comes first. */
export const kinds = ["memory", "task", "dependency", "receipt"] as const
export type Kind = (typeof kinds)[number]

const tables = {
  memory: { table: "memory_entry", key: "id" },
  task: { table: "task", key: "id" },
  dependency: { table: "task_dependency", key: "task_id, depends_on" },
  receipt: { table: "receipt", key: "id" }
} as const

const nil = "00000000-0000-0000-0000-000000000000"

export const make = (sql: SqlClient.SqlClient) => {
  const snapshot = sql`set transaction isolation level repeatable read, read only`

  const findProject = (project_id: string) =>
    firstRow(Schema.Struct({ id: Schema.String, name: Schema.String }))(sql`
      select project_id as id, name
        from project
       where project_id = ${project_id}::uuid`)

  /** The rows after `key`, one JSON object each, without the project. */
  const page = (project_id: string, kind: Kind, after: string, limit: number) => {
    const { key, table } = tables[kind]
    const [first = nil, second = nil] = after === "" ? [] : after.split(" ")
    return rows(Line)(sql`
      select concat_ws(' ', ${sql.literal(key)}) as key,
             jsonb_build_object(${kind}::text, to_jsonb(t) - 'project_id')::text as line
        from ${sql.literal(table)} t
       where project_id = ${project_id}::uuid
         and (${sql.literal(key)}) > ${
           kind === "dependency" ? sql`(${first}::uuid, ${second}::uuid)` : sql`(${first}::uuid)`
         }
       order by ${sql.literal(key)}
       limit ${limit}`)
  }

  /** Entries refer to each other in both directions: the references are checked at the end. */
  const deferReferences = sql`set constraints all deferred`

  /** Adds those rows whose id the project does not have, and returns their keys. */
  const add = (project_id: string, kind: Kind, json: string) => {
    const { key, table } = tables[kind]
    return rows(Schema.Struct({ key: Schema.String }))(sql`
      insert into ${sql.literal(table)}
      select (jsonb_populate_record(null::${sql.literal(table)},
                                    item || jsonb_build_object('project_id', ${project_id}::text))).*
        from jsonb_array_elements(${json}::jsonb) item
          on conflict do nothing
      returning concat_ws(' ', ${sql.literal(key)}) as key`)
  }

  /** Those of `ids` that are no task of the project. */
  const unknownTasks = (project_id: string, ids: ReadonlyArray<string>) =>
    rows(Schema.Struct({ id: Schema.String }))(sql`
      select asked.id
        from unnest(${ids}::uuid[]) as asked (id)
        left join task t on t.project_id = ${project_id}::uuid and t.id = asked.id
       where t.id is null`)

  /** Entries that refer to what the project does not have: of those that were just added, because others cannot. */
  const dangling = (project_id: string) =>
    rows(Schema.Struct({ id: Schema.String }))(sql`
      select e.id
        from memory_entry e
        left join memory_entry old on old.project_id = e.project_id and old.id = e.supersedes
        left join memory_entry new on new.project_id = e.project_id and new.id = e.superseded_by
        left join task t on t.project_id = e.project_id and t.id = e.task_id
       where e.project_id = ${project_id}::uuid
         and (e.supersedes is not null and old.id is null
              or e.superseded_by is not null and new.id is null
              or e.task_id is not null and t.id is null)
       order by e.id
       limit 1`)

  const audited = (project_id: string, counts: Readonly<Record<Kind, number>>, trace: Trace) => sql`
    with imported as (select 1)
    ${auditRow(sql, trace, {
      action: "project.imported",
      from: "imported",
      project: sql`${project_id}::uuid`,
      actor: sql`'operator'`,
      subject: sql`${JSON.stringify(counts)}::jsonb`
    })}`

  return { snapshot, findProject, page, deferReferences, add, unknownTasks, dangling, audited }
}
