/** Statements for what is stored about one person: the holder of the project tokens with one label, and of what came from them. */
import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { firstRow, rows } from "../../platform/sql/Rows.ts"

const Id = Schema.Struct({ id: Schema.String })

/** The tables with rows of a person, without what authenticates: their key, which also orders them, and whose rows they are. */
const ofToken = "project_token_id = any ($2::uuid[])"
const byActor = (column: string) => `${column} = any ($3::text[])`
export const sections = {
  project_token: { key: "token_id", of: "token_id = any ($2::uuid[])", without: ["token_hash"] },
  oauth_grant: { key: "grant_id", of: ofToken, without: [] },
  person_key: { key: "person_key_id", of: ofToken, without: ["credential_id", "public_key"] },
  console_session: { key: "session_id", of: ofToken, without: ["secret_hash"] },
  mobile_device: {
    key: "device_id",
    of: "subject = any ($2::uuid[])",
    without: ["token_sealed", "token_lookup", "token_key_id"]
  },
  memory_entry: { key: "id", of: byActor("actor"), without: [] },
  task: {
    key: "id",
    of: "array[created_by, updated_by, asked_by, answered_by, claimed_by] && $3::text[] or assignee = $4",
    without: []
  },
  receipt: { key: "id", of: `${byActor("actor")} or worker = $4`, without: [] },
  task_note: { key: "id", of: byActor("actor"), without: [] },
  audit_event: { key: "event_id", of: byActor("actor"), without: [] }
} as const
export type Section = keyof typeof sections

export interface Person {
  readonly project_id: string
  readonly label: string
  readonly tokens: ReadonlyArray<string>
  /** The tokens and the grants that came from them, as they are named where somebody wrote. */
  readonly actors: ReadonlyArray<string>
}

export const make = (sql: SqlClient.SqlClient) => {
  const tokens = (project_id: string, label: string) =>
    rows(Id)(sql`
      select token_id as id
        from project_token
       where project_id = ${project_id}::uuid
         and label = ${label}
       order by token_id`)

  const grants = (token_ids: ReadonlyArray<string>) =>
    rows(Id)(sql`
      select grant_id as id
        from oauth_grant
       where project_token_id = any (${token_ids}::uuid[])
       order by grant_id`)

  /** A page of rows after the key `after`, as JSON. */
  const page = (section: Section, { actors, label, project_id, tokens }: Person, after: string, limit: number) => {
    const { key, of, without } = sections[section]
    return rows(Schema.Struct({ id: Schema.String, line: Schema.String }))(
      sql.unsafe(
        `select ${key}::text as id, (to_jsonb(t) - $5::text[])::text as line
           from ${section} t
          where project_id = $1::uuid
            and (${of})
            and ($2::uuid[] is not null and $3::text[] is not null and $4::text is not null)
            and ${key} > $6::uuid
          order by ${key}
          limit $7`,
        [project_id, tokens, actors, label, without, after, limit]
      )
    )
  }

  /**
   * Deletes what a token and its grants have beside them, ends both, and replaces their names by `pseudonym`, also where the
   * label stands as an assignee, also in the note of a takeover, a worker or the author of an answer. Returns nothing if the
   * project has no such token.
   */
  const eraseToken = Effect.fnUntraced(function* (project_id: string, token_id: string, pseudonym: string, now: Date) {
    const found = yield* firstRow(Schema.Struct({ label: Schema.NullOr(Schema.String) }))(sql`
      select label
        from project_token
       where project_id = ${project_id}::uuid
         and token_id = ${token_id}::uuid
         for update`)
    if (found._tag === "None") return false
    const { label } = found.value
    yield* sql`
      delete from mobile_device
       where project_id = ${project_id}::uuid
         and subject = ${token_id}::uuid`
    yield* sql`
      delete from mobile_registration
       where project_id = ${project_id}::uuid
         and subject = ${token_id}::uuid`
    yield* sql`delete from oauth_request where project_token_id = ${token_id}::uuid`
    yield* sql`delete from person_key where project_token_id = ${token_id}::uuid`
    yield* sql`delete from console_session where project_token_id = ${token_id}::uuid`
    yield* sql`
      update oauth_grant
         set label = null,
             end_reason = coalesce(end_reason, 'project_token_revoked'),
             revoked_at = coalesce(revoked_at, ${now})
       where project_token_id = ${token_id}::uuid`
    // Results that are remembered for retries name an assignee, a worker, or the token that answered.
    yield* sql`
      with named as (
        select tool, idempotency_key, octet_length(result) as bytes
          from idempotency_record
         where project_id = ${project_id}::uuid
           and (strpos(result, '"assignee":' || to_jsonb(${label}::text)::text) > 0
             or strpos(result, '"worker":' || to_jsonb(${label}::text)::text) > 0
             or strpos(result, ${token_id}) > 0 and strpos(result, to_jsonb(${label}::text)::text) > 0)
           for update
      ), emptied as (
        update idempotency_record r
           set result = ''
          from named
         where r.project_id = ${project_id}::uuid
           and r.tool = named.tool
           and r.idempotency_key = named.idempotency_key
      )
      update project_usage
         set stored_bytes = greatest(0, stored_bytes - (select coalesce(sum(bytes), 0) from named))
       where project_id = ${project_id}::uuid`
    yield* sql`
      update task
         set answer = jsonb_set(answer, '{by,label}', to_jsonb(${pseudonym}::text))
       where project_id = ${project_id}::uuid
         and (answer->'by'->>'id' = ${token_id} or answered_by = 'project_token:' || ${token_id}::text)`
    yield* sql`
      update task
         set assignee = ${pseudonym}
       where project_id = ${project_id}::uuid
         and assignee = ${label}`
    yield* sql`
      update receipt
         set worker = ${pseudonym}
       where project_id = ${project_id}::uuid
         and worker = ${label}`
    // The note of a takeover names the assignee at its beginning (Claims.ts).
    yield* sql`
      update task_note
         set text = overlay(text placing ${pseudonym} from length('Taken over from ') + 1 for length(${label}::text))
       where project_id = ${project_id}::uuid
         and starts_with(text, 'Taken over from ' || ${label}::text || ', at work since ')`
    yield* sql`
      update project_token
         set label = ${pseudonym},
             revoked_at = coalesce(revoked_at, ${now})
       where token_id = ${token_id}::uuid`
    return true
  })

  return { tokens, grants, page, eraseToken }
}
