/**
 * The statements for an authorization request, from its arrival to its decision and code.
 *
 * Locks are taken in one order: request, grant, code.
 */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { crowd } from "../../../platform/sql/Crowded.ts"
import { firstRow, rows } from "../../../platform/sql/Rows.ts"
import { isOpen, isUsable, sessionJoined } from "../../../platform/sql/access/OpenSession.ts"
import { type Audience, instanceId } from "../../../platform/sql/access/StandingGrant.ts"
import { tokenInForce } from "../../../platform/sql/access/StandingToken.ts"
import { Role, Scope } from "../../../wire/Scopes.ts"
import type { Client } from "../clients/Shapes.ts"

const Scopes = Schema.Array(Scope)
const At = Schema.Date

export const Request = Schema.Struct({
  request_id: Schema.String,
  browser_hash: Schema.Uint8Array,
  client_id: Schema.String,
  redirect_uri: Schema.String,
  state: Schema.NullOr(Schema.String),
  scopes: Scopes,
  code_challenge: Schema.String,
  dpop_jkt: Schema.NullOr(Schema.Uint8Array),
  expires_at: At,
  wrong_tokens: Schema.Int,
  decided_at: Schema.NullOr(At),
  grant_id: Schema.NullOr(Schema.String),
  /**
   * This and the fields below: of the project token that the person entered, while it is valid, or of a console session,
   * while it is open, or of a passkey, until it is removed. Otherwise null.
   */
  project_token_id: Schema.NullOr(Schema.String),
  /** The passkey that stood for the token. */
  person_key_id: Schema.NullOr(Schema.String),
  project_id: Schema.NullOr(Schema.String),
  project_name: Schema.NullOr(Schema.String),
  role: Schema.NullOr(Role),
  token_scopes: Schema.NullOr(Scopes),
  token_expires_at: Schema.NullOr(At)
})
export type Request = typeof Request.Type

/** A token in force; `opens_console` says whether a person may enter it. */
const EnteredToken = Schema.Struct({
  token_id: Schema.String,
  project_id: Schema.String,
  opens_console: Schema.Boolean
})

/** The project token of a request, and what stood for it: itself, a console session or a passkey. */
export interface Bearer {
  readonly token_id: string
  readonly session_id: string | null
  readonly person_key_id: string | null
}

interface NewRequest {
  readonly request_id: string
  readonly browser_hash: Uint8Array
  readonly client_id: string
  /** What limits count as one client address. */
  readonly network: string
  /** The IPv6 site of the network, or the network. */
  readonly site: string
  readonly redirect_uri: string
  readonly state: string | undefined
  readonly scopes: ReadonlyArray<Scope>
  readonly code_challenge: string
  readonly dpop_jkt: Uint8Array | null
  readonly expires_at: Date
}

interface NewGrant extends Audience {
  readonly grant_id: string
  readonly scopes: ReadonlyArray<Scope>
  readonly label: string | null
  readonly expires_at: Date
}

export const make = (sql: SqlClient.SqlClient) => {
  const open = crowd(sql, {
    table: sql`oauth_request`,
    key: sql`request_id`,
    network: sql`network`,
    counted: sql`project_token_id is null`
  })

  const insert = (request: NewRequest, now: Date) => sql`
    with dropped as (${open.besides(request.network, request.site)})
    insert into oauth_request (
      request_id, browser_hash, client_id, network, site, redirect_uri, state, scopes, code_challenge, dpop_jkt,
      created_at, expires_at)
    values (${request.request_id}::uuid, ${request.browser_hash}, ${request.client_id}, ${request.network},
            ${request.site}, ${request.redirect_uri}, ${request.state ?? null}, ${request.scopes}::text[],
            ${request.code_challenge}, ${request.dpop_jkt}::bytea, ${now}, ${request.expires_at})`

  const found = (request_id: string, now: Date) => sql`
    select r.request_id, r.browser_hash, r.client_id, r.redirect_uri, r.state, r.scopes, r.code_challenge,
           r.dpop_jkt, r.expires_at, r.wrong_tokens, r.decided_at, r.grant_id, t.token_id as project_token_id,
           r.person_key_id, p.project_id, p.name as project_name, t.role, t.scopes as token_scopes,
           t.expires_at as token_expires_at
      from oauth_request r
      left join project_token t on t.token_id = r.project_token_id
                               and t.revoked_at is null
                               and (t.expires_at is null or t.expires_at > ${now})
                               and (r.console_session_id is null or exists (
                                      select 1
                                        from console_session s
                                        ${sessionJoined(sql)}
                                       where s.session_id = r.console_session_id
                                         and s.project_token_id = r.project_token_id
                                         and ${isOpen(sql, now)}))
                               and (r.person_key_id is null or exists (
                                      select 1
                                        from person_key k
                                       where k.person_key_id = r.person_key_id
                                         and k.project_token_id = r.project_token_id
                                         and ${isUsable(sql)}))
      left join project p on p.project_id = t.project_id and p.disabled_at is null
     where r.request_id = ${request_id}::uuid`

  const find = (request_id: string, now: Date) => firstRow(Request)(found(request_id, now))

  const lock = (request_id: string, now: Date) =>
    firstRow(Request)(sql`${found(request_id, now)} for no key update of r`)

  /** Finds only valid project tokens that people may use. */
  const findToken = (token_hash: Uint8Array, now: Date) =>
    firstRow(EnteredToken)(sql`
      select t.token_id, t.project_id, t.opens_console
        from project_token t
        join project p on p.project_id = t.project_id
       where t.token_hash = ${token_hash}
         and ${tokenInForce(sql, now)}`)

  /** Binds project token and browser to the request. Returns nothing if another form has renewed the browser's cookie. */
  const bindToken = (
    { browser_hash, request_id }: Pick<Request, "browser_hash" | "request_id">,
    { person_key_id, session_id, token_id }: Bearer,
    renewed_hash: Uint8Array
  ) =>
    firstRow(Schema.Struct({ request_id: Schema.String }))(sql`
      update oauth_request
         set project_token_id = ${token_id}::uuid,
             console_session_id = ${session_id}::uuid,
             person_key_id = ${person_key_id}::uuid,
             browser_hash = ${renewed_hash}
       where request_id = ${request_id}::uuid
         and browser_hash = ${browser_hash}
         and decided_at is null
      returning request_id`)

  const countWrongToken = (request_id: string) => sql`
    update oauth_request
       set wrong_tokens = wrong_tokens + 1
     where request_id = ${request_id}::uuid`

  /** Inserts or updates the row of a document's client. Returns nothing if the client was disabled or deleted meanwhile. */
  const keepClient = ({ client_id, ...client }: Client, now: Date) =>
    client.kind === "document"
      ? rows(Schema.Struct({ client_id: Schema.String }))(sql`
          insert into oauth_client as c (
            client_id, kind, name, redirect_uris, application_type, grant_types, scopes, created_at)
          values (${client_id}, 'document', ${client.name}, ${client.redirect_uris}::text[],
                  ${client.application_type}, ${client.grant_types}::text[], ${client.scopes}::text[], ${now})
              on conflict (client_id) do update
             set name = excluded.name,
                 redirect_uris = excluded.redirect_uris,
                 application_type = excluded.application_type,
                 grant_types = excluded.grant_types
           where c.disabled_at is null
          returning client_id`)
      : rows(Schema.Struct({ client_id: Schema.String }))(sql`
          select client_id
            from oauth_client
           where client_id = ${client_id}
             and disabled_at is null
             for key share`)

  const insertGrant = (request_id: string, grant: NewGrant, now: Date) => sql`
    insert into oauth_grant (
      grant_id, client_id, project_id, project_token_id, scopes, label, resource, instance_id, redirect_uri, created_at,
      expires_at)
    select ${grant.grant_id}::uuid, r.client_id, t.project_id, t.token_id, ${grant.scopes}::text[],
           ${grant.label}::text, ${grant.resource}, ${instanceId(sql, grant)},
           r.redirect_uri, ${now}::timestamptz, ${grant.expires_at}::timestamptz
      from oauth_request r
      join project_token t on t.token_id = r.project_token_id
     where r.request_id = ${request_id}::uuid`

  /** What the last click chose; none if it chose the same. A grant whose code was exchanged stays as it is. */
  const reviseGrant = ({ grant_id, label, scopes }: Pick<NewGrant, "grant_id" | "label" | "scopes">) =>
    firstRow(Schema.Struct({ grant_id: Schema.String }))(sql`
      update oauth_grant
         set scopes = ${scopes}::text[], label = ${label}
       where grant_id = ${grant_id}::uuid
         and activated_at is null
         and revoked_at is null
         and (scopes, label) is distinct from (${scopes}::text[], ${label}::text)
      returning grant_id`)

  const touchToken = (token_id: string, now: Date) => sql`
    update project_token
       set last_used_at = ${now}
     where token_id = ${token_id}::uuid`

  const decide = (request_id: string, grant_id: string | null, now: Date) => sql`
    update oauth_request
       set decided_at = ${now}, grant_id = ${grant_id}::uuid
     where request_id = ${request_id}::uuid`

  /** Replaces the grant's unused code, which the browser may have lost. Returns nothing if a code was exchanged. */
  const replaceCode = (
    grant_id: string,
    code: Pick<NewRequest, "code_challenge" | "dpop_jkt" | "expires_at"> & { readonly code_hash: Uint8Array },
    now: Date
  ) =>
    firstRow(Schema.Struct({ grant_id: Schema.String }))(sql`
      with open_grant as materialized (
        select grant_id
          from oauth_grant
         where grant_id = ${grant_id}::uuid
           and activated_at is null
           and revoked_at is null
           for no key update
      ), dropped as (
        delete from oauth_code c
         using open_grant g
         where c.grant_id = g.grant_id
      )
      insert into oauth_code (code_hash, grant_id, code_challenge, dpop_jkt, created_at, expires_at)
      select ${code.code_hash}::bytea, grant_id, ${code.code_challenge}, ${code.dpop_jkt}::bytea, ${now}::timestamptz,
             ${code.expires_at}::timestamptz
        from open_grant
      returning grant_id`)

  return {
    insert,
    boundAll: open.altogether,
    find,
    lock,
    findToken,
    bindToken,
    countWrongToken,
    keepClient,
    insertGrant,
    reviseGrant,
    touchToken,
    decide,
    replaceCode
  }
}
