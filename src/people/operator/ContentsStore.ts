/** What commands show of a project's content, and the ids that begin with what an operator typed. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { IdRange } from "../../operator/IdPrefix.ts"
import type { Page } from "../../platform/sql/Page.ts"
import { mostCounted } from "../../platform/sql/access/StandingGrant.ts"
import { firstRow, rows } from "../../platform/sql/Rows.ts"

export const TaskRow = Schema.Struct({
  id: Schema.String,
  status: Schema.String,
  priority: Schema.Int,
  title: Schema.String,
  assignee: Schema.NullOr(Schema.String),
  blocked_kind: Schema.NullOr(Schema.String),
  tags: Schema.Array(Schema.String),
  created_at: Schema.Date,
  updated_at: Schema.Date
})

export const EntryRow = Schema.Struct({
  id: Schema.String,
  kind: Schema.String,
  title: Schema.String,
  tags: Schema.Array(Schema.String),
  active: Schema.Boolean,
  actor: Schema.String,
  created_at: Schema.Date
})

export const ProjectRow = Schema.Struct({
  project_id: Schema.String,
  name: Schema.String,
  created_at: Schema.Date,
  disabled_at: Schema.NullOr(Schema.Date),
  bridges: Schema.Int,
  project_tokens: Schema.Int,
  agents: Schema.Int,
  devices: Schema.Int,
  tasks_unfinished: Schema.Int,
  entries: Schema.Int,
  documents: Schema.Int
})

const Candidate = Schema.Struct({ id: Schema.String, name: Schema.NullOr(Schema.String) })

/** Where the ids of a kind are. Those of tasks and entries are looked up in one project. */
const places = {
  credential: { table: "bridge_enrollment_credential", id: "credential_id", name: null },
  token: { table: "project_token", id: "token_id", name: "label" },
  grant: { table: "oauth_grant", id: "grant_id", name: "client_id" },
  key: { table: "person_key", id: "person_key_id", name: "label" },
  session: { table: "console_session", id: "session_id", name: null },
  device: { table: "mobile_device", id: "device_id", name: "topic" },
  channel: { table: "mobile_device", id: "device_id", name: "topic" },
  task: { table: "task", id: "id", name: "title" },
  entry: { table: "memory_entry", id: "id", name: "title" }
} as const

export type Kind = keyof typeof places

export interface TaskFilter {
  readonly status: string | undefined
  /** Changed since then. */
  readonly since: Date | undefined
}

export const make = (sql: SqlClient.SqlClient) => {
  const after = (key: string, page: Page) =>
    page.after === undefined ? sql`true` : sql`${sql(key)} < ${page.after}::uuid`

  /** Newest first: the ids are in the order of their creation. */
  const tasks = (project_id: string, page: Page, { since, status }: Partial<TaskFilter> = {}) =>
    rows(TaskRow)(sql`
      select id, status, priority, title, assignee, blocked_kind, tags, created_at, updated_at
        from task
       where project_id = ${project_id}::uuid
         and ${after("id", page)}
         and ${status === undefined ? sql`true` : sql`status = ${status}`}
         and ${since === undefined ? sql`true` : sql`updated_at >= ${since}`}
       order by id desc
       limit ${page.limit}`)

  const entries = (project_id: string, page: Page) =>
    rows(EntryRow)(sql`
      select id, kind, title, tags, active, actor, created_at
        from memory_entry
       where project_id = ${project_id}::uuid
         and ${after("id", page)}
       order by id desc
       limit ${page.limit}`)

  const project = (project_id: string) =>
    firstRow(ProjectRow)(sql`
      select p.project_id, p.name, p.created_at, p.disabled_at,
             (select count(*)::int from bridge_identity where project_id = p.project_id and status = 'active') as bridges,
             (select count(*)::int from project_token where project_id = p.project_id and revoked_at is null)
               as project_tokens,
             (select count(*)::int
                from project_token t
               cross join lateral (
                 select
                   from oauth_grant g
                  where g.project_token_id = t.token_id
                    and g.revoked_at is null
                    and g.activated_at is not null
                  limit ${mostCounted}) used
               where t.project_id = p.project_id) as agents,
             (select count(*)::int from mobile_device where project_id = p.project_id and state = 'active') as devices,
             (select count(*)::int from task where project_id = p.project_id and closed_at is null)
               as tasks_unfinished,
             coalesce((select entries from project_usage where project_id = p.project_id), 0)::int as entries,
             (select count(*)::int from pinned_document where project_id = p.project_id) as documents
        from project p
       where p.project_id = ${project_id}::uuid
         and p.deleted_at is null`)

  /** At most six projects with this name, or whose id is in the range. */
  const projects = (name: string, range: IdRange | undefined) =>
    rows(Candidate)(sql`
      select project_id as id, name
        from project
       where (name = ${name} or ${range === undefined ? sql`false` : between("project_id", range)})
         and deleted_at is null
       order by project_id
       limit 6`)

  const ids = (kind: Kind, { from, to }: IdRange, project_id: string | undefined) => {
    const { id, name, table } = places[kind]
    return rows(Candidate)(sql`
      select ${sql(id)} as id, ${name === null ? sql`null::text` : sql(name)} as name
        from ${sql(table)}
       where ${between(id, { from, to })}
         and ${project_id === undefined ? sql`true` : sql`project_id = ${project_id}::uuid`}
       order by ${sql(id)}
       limit 6`)
  }

  const between = (column: string, { from, to }: IdRange) => sql`${sql(column)} between ${from}::uuid and ${to}::uuid`

  return { tasks, entries, project, projects, ids }
}
