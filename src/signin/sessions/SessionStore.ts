/** The statements for console sessions and the links that open an operator's. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { isOpen, openSessions, sessionJoined } from "../../platform/sql/access/OpenSession.ts"
import type { Page } from "../../platform/sql/Page.ts"
import { firstRow, rows } from "../../platform/sql/Rows.ts"
import { tokenInForce } from "../../platform/sql/access/StandingToken.ts"
import { Role, Scope } from "../../wire/Scopes.ts"

export const Token = Schema.Struct({
  token_id: Schema.String,
  project_id: Schema.String,
  opens_console: Schema.Boolean,
  expires_at: Schema.NullOr(Schema.Date),
  limits: Schema.Record(Schema.String, Schema.Number)
})

const Open = Schema.Struct({
  session_id: Schema.String,
  actor: Schema.String,
  last_used_at: Schema.Date,
  last_visit_at: Schema.NullOr(Schema.Date),
  person_key_id: Schema.NullOr(Schema.String),
  token_id: Schema.NullOr(Schema.String),
  label: Schema.NullOr(Schema.String),
  project_id: Schema.NullOr(Schema.String),
  project_name: Schema.NullOr(Schema.String),
  role: Schema.NullOr(Role),
  scopes: Schema.NullOr(Schema.Array(Scope)),
  limits: Schema.NullOr(Schema.Record(Schema.String, Schema.Number))
})
export type Open = typeof Open.Type

export const ConsoleSession = Schema.Struct({
  session_id: Schema.String,
  project_id: Schema.NullOr(Schema.String),
  project_token_id: Schema.NullOr(Schema.String),
  /** The passkey that opened it. */
  person_key_id: Schema.NullOr(Schema.String),
  actor: Schema.String,
  user_agent: Schema.String,
  created_at: Schema.Date,
  last_used_at: Schema.Date,
  expires_at: Schema.Date
})

export const Ended = Schema.Struct({ session_id: Schema.String, project_id: Schema.NullOr(Schema.String) })

const Link = Schema.Struct({ actor: Schema.String, project_id: Schema.NullOr(Schema.String) })

export interface NewSession {
  readonly session_id: string
  readonly secret_hash: Uint8Array
  readonly project_token_id: string | null
  readonly project_id: string | null
  readonly person_key_id: string | null
  readonly actor: string
  readonly user_agent: string
  readonly expires_at: Date
}

export const make = (sql: SqlClient.SqlClient) => {
  /** A token in force; `opens_console` says whether it may open a session. */
  const findToken = (token_hash: Uint8Array, now: Date) =>
    firstRow(Token)(sql`
      select t.token_id, t.project_id, t.opens_console, t.expires_at, p.limits
        from project_token t
        join project p on p.project_id = t.project_id
       where t.token_hash = ${token_hash}
         and ${tokenInForce(sql, now)}`)

  /** Sign-ins of a project wait for each other, so that each counts the sessions of those before it. */
  const lockProject = (project_id: string) => sql`
    select project_id
      from project
     where project_id = ${project_id}::uuid
       for no key update`

  /** A second statement after `lockProject`: its snapshot is newer than the lock. */
  const countOpen = (project_id: string, now: Date) =>
    firstRow(Schema.Struct({ open: Schema.Int }))(openSessions(sql, project_id, now))

  /**
   * Of the token with the most open sessions of the project, ends the one that was used least recently. Of several such
   * tokens, `preferred` comes first.
   */
  const endOneOfMost = (project_id: string, preferred: string, now: Date) =>
    rows(Ended)(sql`
      update console_session
         set ended_at = ${now}
       where session_id in (
         select s.session_id
           from console_session s
           ${sessionJoined(sql)}
          where s.project_id = ${project_id}::uuid
            and ${isOpen(sql, now)}
          order by count(*) over (partition by s.project_token_id) desc,
                   (s.project_token_id = ${preferred}::uuid) desc,
                   s.last_used_at, s.session_id
          limit 1)
      returning session_id, project_id`)

  /** The end of the visit before this one: a use before `visitEnds` was part of it. */
  const lastVisit = (visitEnds: Date) => sql`
    case when last_used_at < ${visitEnds} then last_used_at else last_visit_at end`

  /** A new session continues the visits of the last one of the same token or operator. */
  const insert = (session: NewSession, visitEnds: Date, now: Date) => sql`
    insert into console_session (
      session_id, secret_hash, project_token_id, project_id, person_key_id, actor, user_agent, created_at, last_used_at,
      last_visit_at, expires_at)
    values (${session.session_id}::uuid, ${session.secret_hash}, ${session.project_token_id}::uuid,
            ${session.project_id}::uuid, ${session.person_key_id}::uuid, ${session.actor}, ${session.user_agent}, ${now},
            ${now},
            (select ${lastVisit(visitEnds)}
               from console_session
              where ${
                session.project_token_id === null
                  ? sql`project_token_id is null and actor = ${session.actor}`
                  : sql`project_token_id = ${session.project_token_id}::uuid`
              }
              order by last_used_at desc
              limit 1),
            ${session.expires_at})`

  const find = (secret_hash: Uint8Array, now: Date) =>
    firstRow(Open)(sql`
      select s.session_id, s.actor, s.last_used_at, s.last_visit_at, s.person_key_id, t.token_id, t.label, p.project_id,
             p.name as project_name, t.role, t.scopes, p.limits
        from console_session s
        ${sessionJoined(sql)}
       where s.secret_hash = ${secret_hash}
         and ${isOpen(sql, now)}`)

  /** Skips a locked row: another request is already writing it. */
  const touch = (session_id: string, visitEnds: Date, now: Date) => sql`
    update console_session
       set last_used_at = ${now},
           last_visit_at = ${lastVisit(visitEnds)}
     where session_id in (
       select session_id
         from console_session
        where session_id = ${session_id}::uuid
          for no key update skip locked)`

  const end = (session_id: string, now: Date) =>
    firstRow(Schema.Struct({ ...Ended.fields, first: Schema.Boolean }))(sql`
      with found as materialized (
        select session_id, ended_at
          from console_session
         where session_id = ${session_id}::uuid
           for no key update
      )
      update console_session s
         set ended_at = coalesce(s.ended_at, ${now})
        from found
       where s.session_id = found.session_id
      returning s.session_id, s.project_id, found.ended_at is null as first`)

  /** Ends the sessions of a token, or of an operator. */
  const endAll = ({ actor, token_id }: { readonly actor: string; readonly token_id: string | null }, now: Date) =>
    rows(Ended)(sql`
      update console_session
         set ended_at = ${now}
       where ended_at is null
         and ${
           token_id === null
             ? sql`project_token_id is null and actor = ${actor}`
             : sql`project_token_id = ${token_id}::uuid`
         }
      returning session_id, project_id`)

  /** Open sessions of a project, or all of them. */
  const list = (project_id: string | undefined, { after, limit }: Page, now: Date) =>
    rows(ConsoleSession)(sql`
      select s.session_id, s.project_id, s.project_token_id, s.person_key_id, s.actor, s.user_agent, s.created_at,
             s.last_used_at, s.expires_at
        from console_session s
        ${sessionJoined(sql)}
       where ${project_id === undefined ? sql`true` : sql`s.project_id = ${project_id}::uuid`}
         and ${isOpen(sql, now)}
         and ${after === undefined ? sql`true` : sql`s.session_id > ${after}::uuid`}
       order by s.session_id
       limit ${limit}`)

  /** Inserts nothing if the project does not exist. */
  const insertLink = (
    link: { readonly code_hash: Uint8Array; readonly project_id: string | null; readonly actor: string },
    expires_at: Date,
    now: Date
  ) =>
    firstRow(Schema.Struct({ expires_at: Schema.Date }))(sql`
      insert into console_link (code_hash, project_id, actor, created_at, expires_at)
      select ${link.code_hash}::bytea, ${link.project_id}::uuid, ${link.actor}::text, ${now}::timestamptz,
             ${expires_at}::timestamptz
       where ${link.project_id}::uuid is null
          or exists (select 1 from project where project_id = ${link.project_id}::uuid)
      returning expires_at`)

  const useLink = (code_hash: Uint8Array, now: Date) =>
    firstRow(Link)(sql`
      update console_link
         set used_at = ${now}
       where code_hash = ${code_hash}
         and used_at is null
         and expires_at > ${now}
      returning actor, project_id`)

  /** A link that was used. */
  const findUsedLink = (code_hash: Uint8Array) =>
    firstRow(Link)(sql`
      select actor, project_id
        from console_link
       where code_hash = ${code_hash}
         and used_at is not null`)

  return {
    findToken,
    findUsedLink,
    lockProject,
    countOpen,
    endOneOfMost,
    insert,
    find,
    touch,
    end,
    endAll,
    list,
    insertLink,
    useLink
  }
}
