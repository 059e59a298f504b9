/** The statements for passkeys and their challenges. Locks are taken in one order: project, project token, passkey. */
import { Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { crowd } from "../../platform/sql/Crowded.ts"
import type { Page } from "../../platform/sql/Page.ts"
import { firstRow, rows } from "../../platform/sql/Rows.ts"
import { tokenInForce } from "../../platform/sql/access/StandingToken.ts"
import { Token } from "../sessions/SessionStore.ts"

/** Of one project token. */
export const maxKeys = 10

const Challenge = Schema.Struct({
  used_at: Schema.NullOr(Schema.Date),
  expires_at: Schema.Date,
  browser_hash: Schema.Uint8Array
})

/** A passkey and the project token that it stands for. */
const Found = Schema.Struct({
  ...Token.fields,
  person_key_id: Schema.String,
  public_key: Schema.Uint8Array,
  disabled_at: Schema.NullOr(Schema.Date),
  removed_at: Schema.NullOr(Schema.Date),
  /** Whether the token still opens the console. */
  token_in_force: Schema.Boolean
})
export type Found = typeof Found.Type

export const PersonKey = Schema.Struct({
  person_key_id: Schema.String,
  label: Schema.String,
  project_id: Schema.String,
  project_token_id: Schema.String,
  status: Schema.Literals(["active", "disabled", "ended"]),
  created_at: Schema.Date,
  last_used_at: Schema.NullOr(Schema.Date),
  disabled_at: Schema.NullOr(Schema.Date)
})

const Own = Schema.Struct({ ...PersonKey.fields, credential_id: Schema.Uint8Array })

const Changed = Schema.Struct({ project_id: Schema.String, first: Schema.Boolean })

interface NewChallenge {
  readonly challenge_hash: Uint8Array
  readonly browser_hash: Uint8Array
  /** A session, or the network of a browser that is not signed in. */
  readonly asked_by: string
  /** The IPv6 site of the network, or the network; null for a session. */
  readonly site: string | null
}

interface NewKey {
  readonly person_key_id: string
  readonly credential_id: Uint8Array
  readonly public_key: Uint8Array
  readonly sign_count: number
  readonly label: string
  readonly project_token_id: string
}

export const make = (sql: SqlClient.SqlClient) => {
  const open = crowd(sql, {
    table: sql`person_key_challenge`,
    key: sql`challenge_hash`,
    network: sql`asked_by`,
    counted: sql`used_at is null`
  })

  const insertChallenge = (challenge: NewChallenge, expires_at: Date, now: Date) => sql`
    with dropped as (${open.besides(challenge.asked_by, challenge.site)})
    insert into person_key_challenge (challenge_hash, browser_hash, asked_by, site, created_at, expires_at)
    values (${challenge.challenge_hash}, ${challenge.browser_hash}, ${challenge.asked_by}, ${challenge.site}::text, ${now},
            ${expires_at})`

  /** Uses the challenge up, whatever becomes of the answer. */
  const useChallenge = (challenge_hash: Uint8Array, browser_hash: Uint8Array, now: Date) =>
    firstRow(Schema.Struct({ challenge_hash: Schema.Uint8Array }))(sql`
      update person_key_challenge
         set used_at = ${now}
       where challenge_hash = ${challenge_hash}
         and browser_hash = ${browser_hash}
         and used_at is null
         and expires_at > ${now}
      returning challenge_hash`)

  const findChallenge = (challenge_hash: Uint8Array) =>
    firstRow(Challenge)(sql`
      select used_at, expires_at, browser_hash
        from person_key_challenge
       where challenge_hash = ${challenge_hash}`)

  const inForce = (now: Date) => sql`
    (t.opens_console and ${tokenInForce(sql, now)})`

  const find = (credential_id: Uint8Array, now: Date) =>
    firstRow(Found)(sql`
      select k.person_key_id, k.public_key, k.disabled_at, k.removed_at, t.token_id,
             t.project_id, t.opens_console, t.expires_at, p.limits, ${inForce(now)} as token_in_force
        from person_key k
        join project_token t on t.token_id = k.project_token_id
        join project p on p.project_id = k.project_id
       where k.credential_id = ${credential_id}`)

  /** An authenticator that counts always counts up. One that does not count sends 0. */
  const accept = (person_key_id: string, sign_count: number, now: Date) =>
    firstRow(Schema.Struct({ person_key_id: Schema.String }))(sql`
      update person_key k
         set sign_count = ${sign_count}::bigint,
             last_used_at = ${now}
        from project_token t
        join project p on p.project_id = t.project_id
       where k.person_key_id = ${person_key_id}::uuid
         and t.token_id = k.project_token_id
         and k.disabled_at is null
         and k.removed_at is null
         and (k.sign_count < ${sign_count}::bigint or (k.sign_count = 0 and ${sign_count}::bigint = 0))
         and ${inForce(now)}
      returning k.person_key_id`)

  /** Switches the passkey off if `sign_count`, which its authenticator has just signed, is not higher than the last one. */
  const disable = (person_key_id: string, sign_count: number, now: Date) =>
    firstRow(Schema.Struct({ person_key_id: Schema.String }))(sql`
      update person_key
         set disabled_at = ${now}
       where person_key_id = ${person_key_id}::uuid
         and disabled_at is null
         and removed_at is null
         and sign_count >= ${sign_count}::bigint
         and sign_count > 0
      returning person_key_id`)

  /** Whoever adds a passkey waits here for others who do, so that each counts the passkeys of those before. */
  const lockToken = (token_id: string, now: Date) =>
    firstRow(Schema.Struct({ token_id: Schema.String }))(sql`
      select t.token_id
        from project_token t
        join project p on p.project_id = t.project_id
       where t.token_id = ${token_id}::uuid
         and ${inForce(now)}
         for no key update of t`)

  /** A second statement after `lockToken`: its snapshot is newer than the lock. Returns nothing if there are `maxKeys`. */
  const insert = ({ project_token_id, ...key }: NewKey, now: Date) =>
    firstRow(Schema.Struct({ project_id: Schema.String }))(sql`
      insert into person_key (
        person_key_id, credential_id, public_key, sign_count, label, project_token_id, project_id, created_at, expires_at)
      select ${key.person_key_id}::uuid, ${key.credential_id}::bytea, ${key.public_key}::bytea, ${key.sign_count}::bigint,
             ${key.label}::text, t.token_id, t.project_id, ${now}::timestamptz, t.expires_at
        from project_token t
       where t.token_id = ${project_token_id}::uuid
         and (select count(*)
                from person_key k
               where k.project_token_id = t.token_id
                 and k.removed_at is null) < ${maxKeys}
          on conflict do nothing
      returning project_id`)

  const columns = (now: Date) => sql`
    k.person_key_id, k.label, k.project_id, k.project_token_id, k.created_at, k.last_used_at, k.disabled_at,
    case when not ${inForce(now)} then 'ended' when k.disabled_at is not null then 'disabled' else 'active' end as status`

  /** Of one project token, in the order in which they were added. */
  const own = (token_id: string, now: Date) =>
    rows(Own)(sql`
      select ${columns(now)}, k.credential_id
        from person_key k
        join project_token t on t.token_id = k.project_token_id
        join project p on p.project_id = k.project_id
       where k.project_token_id = ${token_id}::uuid
         and k.removed_at is null
       order by k.person_key_id`)

  /** Of one project, or of all. */
  const list = (project_id: string | undefined, { after, limit }: Page, now: Date) =>
    rows(PersonKey)(sql`
      select ${columns(now)}
        from person_key k
        join project_token t on t.token_id = k.project_token_id
        join project p on p.project_id = k.project_id
       where ${project_id === undefined ? sql`true` : sql`k.project_id = ${project_id}::uuid`}
         and k.removed_at is null
         and ${after === undefined ? sql`true` : sql`k.person_key_id > ${after}::uuid`}
       order by k.person_key_id
       limit ${limit}`)

  /** `token_id`: only a passkey of this token. */
  const remove = (person_key_id: string, token_id: string | undefined, now: Date) =>
    firstRow(Changed)(sql`
      with found as materialized (
        select person_key_id, removed_at
          from person_key
         where person_key_id = ${person_key_id}::uuid
           and ${token_id === undefined ? sql`true` : sql`project_token_id = ${token_id}::uuid`}
           for no key update
      )
      update person_key k
         set removed_at = coalesce(k.removed_at, ${now})
        from found
       where k.person_key_id = found.person_key_id
      returning k.project_id, found.removed_at is null as first`)

  const rename = (person_key_id: string, token_id: string, label: string) =>
    firstRow(Changed)(sql`
      with found as materialized (
        select person_key_id, label
          from person_key
         where person_key_id = ${person_key_id}::uuid
           and project_token_id = ${token_id}::uuid
           and removed_at is null
           for no key update
      )
      update person_key k
         set label = ${label}
        from found
       where k.person_key_id = found.person_key_id
      returning k.project_id, found.label <> ${label} as first`)

  return {
    insertChallenge,
    boundChallenges: open.altogether,
    useChallenge,
    findChallenge,
    find,
    accept,
    disable,
    lockToken,
    insert,
    own,
    list,
    remove,
    rename
  }
}
