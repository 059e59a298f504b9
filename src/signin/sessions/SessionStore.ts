/** The statements for console sessions and the links that open an operator's. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { Page } from "../../platform/sql/Page.ts"
import { firstRow, rows } from "../../platform/sql/Rows.ts"
import { Role, Scope } from "../../wire/Scopes.ts"

const Token = Schema.Struct({
  token_id: Schema.String,
  project_id: Schema.String,
  expires_at: Schema.NullOr(Schema.Date)
})

const Open = Schema.Struct({
  session_id: Schema.String,
  actor: Schema.String,
  created_at: Schema.Date,
  last_used_at: Schema.Date,
  expires_at: Schema.Date,
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
  actor: Schema.String,
  user_agent: Schema.String,
  created_at: Schema.Date,
  last_used_at: Schema.Date,
  expires_at: Schema.Date
})

export interface NewSession {
  readonly session_id: string
  readonly secret_hash: Uint8Array
  readonly project_token_id: string | null
  readonly project_id: string | null
  readonly actor: string
  readonly user_agent: string
  readonly expires_at: Date
}

/** `since`: a session that was not used after this instant has ended. */
interface At {
  readonly now: Date
  readonly since: Date
}

export const make = (sql: SqlClient.SqlClient) => {
  const isOpen = ({ now, since }: At) => sql`
    s.ended_at is null and s.expires_at > ${now} and s.last_used_at > ${since}`

  /** A token that may open a session. */
  const findToken = (token_hash: Uint8Array, now: Date) =>
    firstRow(Token)(sql`
      select t.token_id, t.project_id, t.expires_at
        from project_token t
        join project p on p.project_id = t.project_id
       where t.token_hash = ${token_hash}
         and t.revoked_at is null
         and t.opens_console
         and (t.expires_at is null or t.expires_at > ${now})
         and p.disabled_at is null`)

  /** Locks the project's row, so that concurrent sign-ins are counted one after the other. */
  const countOpen = (project_id: string, at: At) =>
    Schema.Struct({ open: Schema.Int }).pipe(firstRow)(sql`
      with locked as materialized (
        select project_id from project where project_id = ${project_id}::uuid for no key update
      )
      select count(s.session_id)::int as open
        from locked
        left join console_session s on s.project_id = locked.project_id and ${isOpen(at)}`)

  /** Ends the token's open session that was used least recently. */
  const endOldest = (project_token_id: string, at: At) =>
    rows(Schema.Struct({ session_id: Schema.String }))(sql`
      update console_session
         set ended_at = ${at.now}
       where session_id in (
         select s.session_id
           from console_session s
          where s.project_token_id = ${project_token_id}::uuid
            and ${isOpen(at)}
          order by s.last_used_at, s.session_id
          limit 1)
      returning session_id`)

  const insert = (session: NewSession, now: Date) => sql`
    insert into console_session (
      session_id, secret_hash, project_token_id, project_id, actor, user_agent, created_at, last_used_at, expires_at)
    values (${session.session_id}::uuid, ${session.secret_hash}, ${session.project_token_id}::uuid,
            ${session.project_id}::uuid, ${session.actor}, ${session.user_agent}, ${now}, ${now}, ${session.expires_at})`

  /** An open session whose token and project are in force. */
  const find = (secret_hash: Uint8Array, at: At) =>
    firstRow(Open)(sql`
      select s.session_id, s.actor, s.created_at, s.last_used_at, s.expires_at, t.token_id, t.label, p.project_id,
             p.name as project_name, t.role, t.scopes, p.limits
        from console_session s
        left join project_token t on t.token_id = s.project_token_id
        left join project p on p.project_id = s.project_id
       where s.secret_hash = ${secret_hash}
         and ${isOpen(at)}
         and t.revoked_at is null
         and (t.expires_at is null or t.expires_at > ${at.now})
         and p.disabled_at is null`)

  /** Skips a locked row: another request is already writing it. */
  const touch = (session_id: string, now: Date) => sql`
    update console_session
       set last_used_at = ${now}
     where session_id in (
       select session_id
         from console_session
        where session_id = ${session_id}::uuid
          for no key update skip locked)`

  const end = (session_id: string, now: Date) =>
    firstRow(Schema.Struct({ project_id: Schema.NullOr(Schema.String), first: Schema.Boolean }))(sql`
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
      returning s.project_id, found.ended_at is null as first`)

  /** Ends the sessions of a token, or of an operator. */
  const endAll = (of: Pick<Open, "actor" | "token_id">, now: Date) =>
    rows(Schema.Struct({ session_id: Schema.String }))(sql`
      update console_session
         set ended_at = ${now}
       where ended_at is null
         and project_token_id is not distinct from ${of.token_id}::uuid
         and actor = ${of.actor}
      returning session_id`)

  /** Open sessions of a project, or all of them. */
  const list = (project_id: string | undefined, { after, limit }: Page, at: At) =>
    rows(ConsoleSession)(sql`
      select s.session_id, s.project_id, s.project_token_id, s.actor, s.user_agent, s.created_at, s.last_used_at,
             s.expires_at
        from console_session s
       where ${project_id === undefined ? sql`true` : sql`s.project_id = ${project_id}::uuid`}
         and ${isOpen(at)}
         and ${after === undefined ? sql`true` : sql`s.session_id > ${after}::uuid`}
       order by s.session_id
       limit ${limit}`)

  /** Inserts nothing if the project does not exist. */
  const insertLink = (
    link: { readonly code_hash: Uint8Array; readonly project_id: string | null; readonly actor: string },
    expires_at: Date,
    now: Date
  ) =>
    rows(Schema.Struct({ expires_at: Schema.Date }))(sql`
      insert into console_link (code_hash, project_id, actor, created_at, expires_at)
      select ${link.code_hash}::bytea, ${link.project_id}::uuid, ${link.actor}::text, ${now}::timestamptz,
             ${expires_at}::timestamptz
       where ${link.project_id}::uuid is null
          or exists (select 1 from project where project_id = ${link.project_id}::uuid)
      returning expires_at`)

  const useLink = (code_hash: Uint8Array, now: Date) =>
    firstRow(Schema.Struct({ actor: Schema.String, project_id: Schema.NullOr(Schema.String) }))(sql`
      update console_link
         set used_at = ${now}
       where code_hash = ${code_hash}
         and used_at is null
         and expires_at > ${now}
      returning actor, project_id`)

  return { findToken, countOpen, endOldest, insert, find, touch, end, endAll, list, insertLink, useLink }
}
