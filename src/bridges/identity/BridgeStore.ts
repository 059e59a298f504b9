/** The statements of the operator's commands for Bridges. */
import { Schema } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { firstRow, rows } from "../../platform/sql/Rows.ts"
import type { Page } from "../../platform/sql/Page.ts"
import { Role } from "../../wire/Scopes.ts"

const Status = Schema.Literals(["pending", "active", "revoked"])

export const Bridge = Schema.Struct({
  bridge_id: Schema.String,
  status: Status,
  device_id: Schema.String,
  display_name: Schema.String,
  public_key_fingerprint: Schema.String,
  account_references: Schema.Array(Schema.String),
  created_at: Schema.Date,
  enrolled_at: Schema.NullOr(Schema.Date),
  revoked_at: Schema.NullOr(Schema.Date),
  token_expires_at: Schema.NullOr(Schema.Date),
  pending_rotation_id: Schema.NullOr(Schema.String),
  /** Since when it has to prove its key with every request. */
  dpop_required_since: Schema.NullOr(Schema.Date),
  /** When it got its key, by enrollment or key rotation. */
  key_since: Schema.NullOr(Schema.Date),
  /** Since when an operator wants a new key. */
  key_rotation_required_since: Schema.NullOr(Schema.Date),
  /** The role with which it reaches the project's memory and tasks; null: it does not. */
  access_role: Schema.NullOr(Role),
  access_granted_at: Schema.NullOr(Schema.Date)
})

/** A Bridge as people watch it: how long its token still lives. */
export const Watched = Schema.Struct({
  identity_id: Schema.String,
  project_id: Schema.String,
  bridge_id: Schema.String,
  display_name: Schema.String,
  device_id: Schema.String,
  status: Status,
  enrolled_at: Schema.NullOr(Schema.Date),
  revoked_at: Schema.NullOr(Schema.Date),
  /** When the active token began its life: its proof or its confirm. Null without an active token. */
  token_started_at: Schema.NullOr(Schema.Date),
  token_expires_at: Schema.NullOr(Schema.Date),
  /** The end of the window of a pending rotation. */
  rotation_expires_at: Schema.NullOr(Schema.Date),
  access_role: Bridge.fields.access_role
})

export const Token = Schema.Struct({
  token_id: Schema.String,
  state: Schema.Literals(["pending", "active", "revoked", "expired"]),
  created_at: Schema.Date,
  expires_at: Schema.NullOr(Schema.Date),
  ended_at: Schema.NullOr(Schema.Date),
  end_reason: Schema.NullOr(Schema.String)
})

/** Bridges of a project that are read rather than looked for. */
const many = 500

export const make = (sql: SqlClient.SqlClient) => {
  const bridges = (project_id: string, which: Statement.Fragment) => sql`
    select i.bridge_id, i.status, i.device_id, i.display_name, i.public_key_fingerprint, i.account_references,
           i.created_at, i.enrolled_at, i.revoked_at, t.expires_at as token_expires_at, i.pending_rotation_id,
           i.dpop_required_since, coalesce(i.key_since, i.enrolled_at) as key_since, i.key_rotation_required_since,
           i.access_role, i.access_granted_at
      from bridge_identity i
      left join bridge_token t on t.identity_id = i.identity_id and t.state = 'active'
     where i.project_id = ${project_id}::uuid
       and ${which}`

  const list = (project_id: string, { after, limit }: Page, status?: typeof Status.Type) =>
    rows(Bridge)(sql`
      ${bridges(project_id, after === undefined ? sql`true` : sql`i.bridge_id > ${after}`)}
         and ${status === undefined ? sql`true` : sql`i.status = ${status}`}
       order by i.bridge_id
       limit ${limit}`)

  const find = (project_id: string, bridge_id: string) =>
    firstRow(Bridge)(bridges(project_id, sql`i.bridge_id = ${bridge_id}`))

  /** `place`: active ones by the end of their token, those without one first; then pending ones, then revoked ones. */
  const watched = (which: Statement.Fragment) => sql`
    select i.identity_id, i.project_id, i.bridge_id, i.display_name, i.device_id, i.status, i.enrolled_at, i.revoked_at,
           coalesce(s.ended_at, t.created_at) as token_started_at, t.expires_at as token_expires_at,
           r.confirmation_expires_at as rotation_expires_at, i.access_role,
           case i.status when 'active' then 0 when 'pending' then 1 else 2 end as place,
           coalesce(t.expires_at, '-infinity') as ends_at
      from bridge_identity i
      left join bridge_token t on t.identity_id = i.identity_id and t.state = 'active'
      left join bridge_rotation s on s.successor_id = t.token_id and s.state = 'confirmed'
      left join bridge_rotation r on r.rotation_id = i.pending_rotation_id
     where ${which}`

  const ofProject = (project_id: string) => sql`i.project_id = ${project_id}::uuid`
  const shown = sql`
    identity_id, project_id, bridge_id, display_name, device_id, status, enrolled_at, revoked_at, token_started_at,
    token_expires_at, rotation_expires_at, access_role`

  /**
   * Whether walking the tokens of all projects finds those of this one sooner than reading all of its Bridges. The orders
   * here and below keep PostgreSQL from reading other projects' Bridges when it plans for any project.
   */
  const size = (project_id: string) => sql`
    select count(*) > ${many} as is_large
      from (select from bridge_identity i where ${ofProject(project_id)} order by bridge_id limit ${many} + 1) counted`

  /** Active Bridges of a project without a token: few, and in front of all others. */
  const withoutToken = (project_id: string, comes: Statement.Fragment, limit: number) => sql`
    (select i.identity_id
       from bridge_identity i
      where ${ofProject(project_id)}
        and i.status = 'active'
        and i.without_token_since is not null
        and ${comes}
      order by i.bridge_id
      limit ${limit})`

  /** Those with a token, the first to end first; it needs the clause `size`. */
  const withToken = (project_id: string, comes: Statement.Fragment, limit: number) => sql`
    (select i.identity_id
       from bridge_token t
       join bridge_identity i on i.identity_id = t.identity_id
      where (select is_large from size)
        and t.state = 'active'
        and i.status = 'active'
        and ${ofProject(project_id)}
        and ${comes}
      order by t.expires_at, i.bridge_id
      limit ${limit})
    union all
    (select i.identity_id
       from (select identity_id, bridge_id
               from bridge_identity i
              where not (select is_large from size)
                and ${ofProject(project_id)}
                and i.status = 'active'
              order by bridge_id
              limit ${many}) i
       join bridge_token t on t.identity_id = i.identity_id and t.state = 'active'
      where ${comes}
      order by t.expires_at, i.bridge_id
      limit ${limit})`

  const listByEnd = (project_id: string, { after, limit }: Page) => {
    const comes = (place: Statement.Fragment, ends_at: Statement.Fragment) =>
      after === undefined
        ? sql`true`
        : sql`(${place}, ${ends_at}, i.bridge_id) > (select place, ends_at, bridge_id from last)`
    const [first, never] = [sql`0`, sql`'-infinity'::timestamptz`]
    // Where the walk over the tokens begins; behind all of them if the page before went past them.
    const from =
      after === undefined ? never : sql`(select case place when 0 then ends_at else 'infinity' end from last)`
    return rows(Watched)(sql`
      with last as materialized (${watched(sql`${ofProject(project_id)} and i.bridge_id = ${after ?? null}`)}),
           size as materialized (${size(project_id)}),
           next as materialized (
             ${withoutToken(project_id, comes(first, never), limit)}
             union all
             ${withToken(project_id, sql`t.expires_at >= ${from} and ${comes(first, sql`t.expires_at`)}`, limit)}
             union all
             (select i.identity_id
                from bridge_identity i
               where ${ofProject(project_id)}
                 and i.status <> 'active'
                 and ${comes(sql`case i.status when 'pending' then 1 else 2 end`, never)}
               order by i.status, i.bridge_id
               limit ${limit}))
      select ${shown}
        from (${watched(sql`i.identity_id = any (array(select identity_id from next))`)}) listed
       order by place, ends_at, bridge_id
       limit ${limit}`)
  }

  /** Active Bridges of every project that may work, the first to end first. `after` is an identity. */
  const listAllByEnd = ({ after, limit }: Page) => {
    const never = sql`'-infinity'::timestamptz`
    const works = sql`i.status = 'active'
          and exists (select from project p where p.project_id = i.project_id and p.disabled_at is null)`
    const comes = (ends_at: Statement.Fragment) =>
      after === undefined
        ? sql`true`
        : sql`(${ends_at}, i.identity_id) > (select ends_at, identity_id from last)
              and ${ends_at} >= (select ends_at from last)`
    return rows(Watched)(sql`
      with last as materialized (${watched(sql`i.identity_id = ${after ?? null}::uuid`)}),
           next as materialized (
             (select i.identity_id
                from bridge_identity i
               where i.without_token_since is not null
                 and ${works}
                 and ${comes(never)}
               order by i.identity_id
               limit ${limit})
             union all
             (select i.identity_id
                from bridge_token t
                join bridge_identity i on i.identity_id = t.identity_id
               where t.state = 'active'
                 and ${works}
                 and ${comes(sql`t.expires_at`)}
               order by t.expires_at, i.identity_id
               limit ${limit}))
      select ${shown}
        from (${watched(sql`i.identity_id = any (array(select identity_id from next))`)}) listed
       order by ends_at, identity_id
       limit ${limit}`)
  }

  /**
   * Active Bridges whose token has lived for `share` of its life or has ended, the first to end first. `nearly`: when a
   * token of the usual life ends that is as old as that now. Of one with a longer life more has to be over.
   */
  const listEnding = (project_id: string, share: number, now: Date, nearly: Date, limit: number) => {
    const started_at = sql`coalesce((select s.ended_at
                                       from bridge_rotation s
                                      where s.successor_id = t.token_id
                                        and s.state = 'confirmed'), t.created_at)`
    const isOld = sql`t.expires_at <= ${nearly}
        and ${started_at} + ${share}::float8 * (t.expires_at - ${started_at}) <= ${now}`
    return rows(Watched)(sql`
      with size as materialized (${size(project_id)}),
           next as materialized (
             ${withoutToken(project_id, sql`true`, limit)}
             union all ${withToken(project_id, isOld, limit)})
      select ${shown}
        from (${watched(sql`i.identity_id = any (array(select identity_id from next))`)}) listed
       order by ends_at, bridge_id
       limit ${limit}`)
  }

  const listTokens = (project_id: string, bridge_id: string) =>
    rows(Token)(sql`
      select t.token_id, t.state, t.created_at, t.expires_at, t.ended_at, t.end_reason
        from bridge_token t
        join bridge_identity i on i.identity_id = t.identity_id
       where i.project_id = ${project_id}::uuid
         and i.bridge_id = ${bridge_id}
       order by t.created_at desc, t.token_id desc
       limit 20`)

  /** Revokes the identity for good. Takes the lock that every writer of the identity takes first. */
  const revokeIdentity = (project_id: string, bridge_id: string, now: Date) =>
    firstRow(Schema.Struct({ identity_id: Schema.String, revoked_at: Schema.Date, first: Schema.Boolean }))(sql`
      with found as materialized (
        select identity_id, status
          from bridge_identity
         where project_id = ${project_id}::uuid
           and bridge_id = ${bridge_id}
           for no key update
      )
      update bridge_identity i
         set status = 'revoked',
             revoked_at = coalesce(i.revoked_at, ${now}),
             pending_rotation_id = null,
             pending_key_rotation_id = null,
             key_rotation_until = null
        from found
       where i.identity_id = found.identity_id
      returning i.identity_id, i.revoked_at, found.status <> 'revoked' as first`)

  /**
   * Ends tokens, the pending rotation and open challenges. This is a second statement so that its snapshot is newer than
   * the lock: it sees what was committed while the first statement waited.
   */
  const endCredentials = (identity_id: string, now: Date) => sql`
    with rotations as (
      update bridge_rotation
         set state = case when confirmation_expires_at <= ${now} then 'expired' else 'cancelled' end,
             ended_at = least(confirmation_expires_at, ${now})
       where identity_id = ${identity_id}::uuid
         and state = 'pending'
    ), challenges as (
      update enrollment_challenge
         set expires_at = ${now}
       where identity_id = ${identity_id}::uuid
         and consumed_at is null
         and expires_at > ${now}
    )
    update bridge_token
       set state = 'revoked', ended_at = ${now}, end_reason = 'identity_revoked'
     where identity_id = ${identity_id}::uuid
       and state in ('pending', 'active')`

  /** From now on the Bridge need not prove its key, until it does. */
  const liftDpop = (project_id: string, bridge_id: string) =>
    firstRow(Schema.Struct({ was_required: Schema.Boolean }))(sql`
      with found as materialized (
        select identity_id, dpop_required_since is not null as was_required
          from bridge_identity
         where project_id = ${project_id}::uuid
           and bridge_id = ${bridge_id}
           for no key update
      )
      update bridge_identity i
         set dpop_required_since = null
        from found
       where i.identity_id = found.identity_id
      returning found.was_required`)

  /** Asks an active Bridge for a new key. `required_since` is null, and nothing changes, for any other. */
  const requireKeyRotation = (project_id: string, bridge_id: string, now: Date) =>
    firstRow(Schema.Struct({ required_since: Schema.NullOr(Schema.Date), first: Schema.Boolean }))(sql`
      with found as materialized (
        select identity_id, key_rotation_required_since
          from bridge_identity
         where project_id = ${project_id}::uuid
           and bridge_id = ${bridge_id}
           for no key update
      )
      update bridge_identity i
         set key_rotation_required_since =
               case when i.status = 'active' then coalesce(i.key_rotation_required_since, ${now}) end
        from found
       where i.identity_id = found.identity_id
      returning i.key_rotation_required_since as required_since,
                i.status = 'active' and found.key_rotation_required_since is null as first`)

  /** Sets or withdraws (null) the role of an active Bridge. `status` tells why nothing changed. */
  const setAccess = (project_id: string, bridge_id: string, role: Role | null, now: Date) =>
    firstRow(
      Schema.Struct({ status: Status, before: Schema.NullOr(Role), granted_at: Schema.NullOr(Schema.Date) })
    )(sql`
      with found as materialized (
        select identity_id, status, access_role
          from bridge_identity
         where project_id = ${project_id}::uuid
           and bridge_id = ${bridge_id}
           for no key update
      ), set as (
        update bridge_identity i
           set access_role = ${role}::text,
               access_granted_at = case when ${role}::text is null then null
                                        when i.access_role = ${role}::text then i.access_granted_at
                                        else ${now}::timestamptz end
          from found
         where i.identity_id = found.identity_id
           and (found.status = 'active' or ${role}::text is null)
        returning i.access_granted_at
      )
      select found.status, found.access_role as before, set.access_granted_at as granted_at
        from found
        left join set on true`)

  return {
    list,
    find,
    listByEnd,
    listAllByEnd,
    listEnding,
    listTokens,
    revokeIdentity,
    endCredentials,
    liftDpop,
    requireKeyRotation,
    setAccess
  }
}
