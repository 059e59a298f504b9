/** The statements of export and import. Rows travel as JSON made and read by PostgreSQL. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { auditRow, type Trace } from "../wire/AuditRow.ts"
import { firstRow, rows } from "../wire/Rows.ts"

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

  const audited = (project_id: string, counts: Readonly<Record<Kind, number>>, trace: Trace) => sql`
    with imported as (select 1)
    ${auditRow(sql, trace, {
      action: "project.imported",
      from: "imported",
      project: sql`${project_id}::uuid`,
      actor: sql`'operator'`,
      subject: sql`${JSON.stringify(counts)}::jsonb`
    })}`

  return { snapshot, findProject, page, deferReferences, add, audited }
}
