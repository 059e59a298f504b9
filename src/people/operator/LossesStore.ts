/** What commands that nothing undoes would end, with counts: each statement returns what a person recognises it by. */
import { Schema } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { mostCounted } from "../../platform/sql/access/StandingGrant.ts"
import { firstRow } from "../../platform/sql/Rows.ts"

export const Loss = Schema.Record(
  Schema.String,
  Schema.NullOr(Schema.Union([Schema.String, Schema.Int, Schema.Date, Schema.Array(Schema.String)]))
)

/** Before these instants the periods that are to be set end; null keeps. */
export interface Retention {
  readonly memory_before: Date | null
  readonly receipts_before: Date | null
}

const found = firstRow(Loss)

export const make = (sql: SqlClient.SqlClient) => {
  /** Counts up to a thousand, as lists do: one token can leave hundreds of thousands of grants. */
  const upTo = (from: Statement.Fragment) => sql`
    (select count(*)::int from (select from ${from} limit ${mostCounted}) counted)`
  /** Those that clients use. */
  const signIns = (whose: Statement.Fragment) =>
    upTo(sql`oauth_grant g where ${whose} and g.revoked_at is null and g.activated_at is not null`)

  const bridge = (project_id: string, bridge_id: string) =>
    found(sql`
      select i.project_id, i.bridge_id, i.display_name, i.status, i.revoked_at,
             (select count(*)::int from bridge_token t where t.identity_id = i.identity_id and t.ended_at is null) as tokens
        from bridge_identity i
       where i.project_id = ${project_id}::uuid
         and i.bridge_id = ${bridge_id}`)

  const bridgeAccess = (project_id: string, bridge_id: string) =>
    found(sql`
      select i.project_id, i.bridge_id, i.display_name, i.access_role, i.access_granted_at
        from bridge_identity i
       where i.project_id = ${project_id}::uuid
         and i.bridge_id = ${bridge_id}
         and i.access_role is not null`)

  const credential = (credential_id: string) =>
    found(sql`
      select project_id, credential_id, account_references, expires_at, claimed_bridge_id, revoked_at
        from bridge_enrollment_credential
       where credential_id = ${credential_id}::uuid`)

  const reference = (project_id: string, name: string) =>
    found(sql`
      select a.project_id, a.reference, a.label, a.withdrawn_at,
             (select count(*)::int
                from bridge_enrollment_credential c
               where c.project_id = a.project_id
                 and a.reference = any (c.account_references)
                 and c.revoked_at is null
                 and not exists (
                   select 1
                     from enrollment_challenge h
                    where h.credential_id = c.credential_id
                      and h.consumed_at is not null)) as unused_credentials
        from approved_account_reference a
       where a.project_id = ${project_id}::uuid
         and a.reference = ${name}`)

  const projectToken = (token_id: string) =>
    found(sql`
      select t.project_id, t.token_id, t.label, t.role, t.last_used_at, t.revoked_at,
             ${signIns(sql`g.project_token_id = t.token_id`)} as sign_ins,
             (select count(*)::int from console_session s where s.project_token_id = t.token_id and s.ended_at is null)
               as console_sessions,
             (select count(*)::int from person_key k where k.project_token_id = t.token_id and k.removed_at is null)
               as passkeys
        from project_token t
       where t.token_id = ${token_id}::uuid`)

  const personKey = (person_key_id: string) =>
    found(sql`
      select k.project_id, k.person_key_id, k.label, k.project_token_id, k.last_used_at, k.removed_at,
             (select count(*)::int
                from console_session s
               where s.project_token_id = k.project_token_id
                 and s.person_key_id = k.person_key_id
                 and s.ended_at is null) as console_sessions
        from person_key k
       where k.person_key_id = ${person_key_id}::uuid`)

  const grant = (grant_id: string) =>
    found(sql`
      select g.project_id, g.grant_id, g.client_id, g.label, g.last_used_at, g.revoked_at,
             (select count(*)::int from mobile_device d where d.grant_id = g.grant_id and d.state = 'active') as devices
        from oauth_grant g
       where g.grant_id = ${grant_id}::uuid`)

  /** A row for an unknown client, too: it may be blocked in advance. */
  const client = (client_id: string) =>
    found(sql`
      select asked.client_id, c.name, c.disabled_at,
             ${signIns(sql`g.client_id = asked.client_id`)} as sign_ins
        from (select ${client_id}::text as client_id) asked
        left join oauth_client c on c.client_id = asked.client_id`)

  /** A phone, a browser or a channel. */
  const device = (device_id: string) =>
    found(sql`
      select d.project_id, d.device_id, d.provider, d.topic, d.state,
             (select count(*)::int from push_outbox o where o.device_id = d.device_id and o.state in ('pending', 'leased'))
               as notifications
        from mobile_device d
       where d.device_id = ${device_id}::uuid`)

  const operatorToken = (token_id: string) =>
    found(sql`
      select token_id, label, scopes, expires_at, last_used_at, revoked_at
        from operator_token
       where token_id = ${token_id}::uuid`)

  const memory = (project_id: string, id: string) =>
    found(sql`
      select project_id, id, kind, title, actor, created_at
        from memory_entry
       where project_id = ${project_id}::uuid
         and id = ${id}::uuid`)

  const task = (project_id: string, id: string) =>
    found(sql`
      select t.project_id, t.id, t.status, t.title,
             (select count(*)::int from receipt r where r.project_id = t.project_id and r.task_id = t.id) as receipts,
             (select count(*)::int from task_note n where n.project_id = t.project_id and n.task_id = t.id) as notes,
             (select count(*)::int from task_dependency d where d.project_id = t.project_id and d.depends_on = t.id)
               as tasks_that_wait
        from task t
       where t.project_id = ${project_id}::uuid
         and t.id = ${id}::uuid`)

  const document = (project_id: string, id: string) =>
    found(sql`
      select project_id, document_id, repository, commit, path, title
        from pinned_document
       where project_id = ${project_id}::uuid
         and document_id = ${id}::uuid`)

  const project = (project_id: string) =>
    found(sql`
      select p.project_id, p.name, p.disabled_at, p.delete_after,
             (select count(*)::int from bridge_identity where project_id = p.project_id) as bridges,
             (select count(*)::int from project_token where project_id = p.project_id) as project_tokens,
             ${upTo(sql`oauth_grant where project_id = p.project_id`)} as sign_ins,
             (select count(*)::int from mobile_device where project_id = p.project_id) as devices,
             (select count(*)::int from memory_entry where project_id = p.project_id) as entries,
             (select count(*)::int from task where project_id = p.project_id) as tasks,
             (select count(*)::int from receipt where project_id = p.project_id) as receipts,
             (select count(*)::int from pinned_document where project_id = p.project_id) as documents
        from project p
       where p.project_id = ${project_id}::uuid
         and p.deleted_at is null`)

  /** Nothing if the project has no token with this label. */
  const subject = (project_id: string, label: string) =>
    found(sql`
      with token as materialized (
        select token_id
          from project_token
         where project_id = ${project_id}::uuid
           and label = ${label}
      )
      select ${project_id}::text as project_id, ${label}::text as label,
             (select count(*)::int from token) as tokens,
             ${upTo(sql`oauth_grant join token on project_token_id = token_id`)} as sign_ins,
             (select count(*)::int from mobile_device join token on subject = token_id) as devices,
             (select count(*)::int from console_session join token on project_token_id = token_id) as console_sessions,
             (select count(*)::int from person_key join token on project_token_id = token_id) as passkeys
       where exists (select from token)`)

  const retention = (project_id: string, { memory_before, receipts_before }: Retention) =>
    found(sql`
      select p.project_id, p.name,
             (select count(*)::int
                from memory_entry
               where project_id = p.project_id
                 and created_at < ${memory_before}::timestamptz) as entries,
             (select count(*)::int
                from receipt
               where project_id = p.project_id
                 and created_at < ${receipts_before}::timestamptz) as receipts
        from project p
       where p.project_id = ${project_id}::uuid
         and p.deleted_at is null`)

  return {
    bridge,
    bridgeAccess,
    credential,
    reference,
    projectToken,
    personKey,
    grant,
    client,
    device,
    operatorToken,
    memory,
    task,
    document,
    project,
    subject,
    retention
  }
}
