/** Statements of erasures: what a deleted project leaves, what is due, and the tombstones. */
import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { done, expect } from "../../platform/metrics/Progress.ts"
import { auditRow, type Trace } from "../../platform/sql/AuditRow.ts"
import { firstRow, rows } from "../../platform/sql/Rows.ts"
import { nil } from "../../wire/Ids.ts"
import type { Erased } from "./ErasureFile.ts"

const ProjectId = Schema.Struct({ project_id: Schema.String })

/** Rows that one statement deletes of a table of `derived`. */
const batch = 10_000

/**
 * The tables with rows of a project, in an order in which no foreign key is broken, and the condition that finds them.
 */
const ofProject = "project_id = $1::uuid"
const ofGrant = "grant_id in (select grant_id from oauth_grant where project_id = $1::uuid)"
const ofToken = "project_token_id in (select token_id from project_token where project_id = $1::uuid)"
const ofIdentity = "identity_id in (select identity_id from bridge_identity where project_id = $1::uuid)"
const ofCredential =
  "credential_id in (select credential_id from bridge_enrollment_credential where project_id = $1::uuid)"

const emptied: ReadonlyArray<readonly [table: string, condition: string]> = [
  ["embedding_queue", ofProject],
  ["memory_embedding", ofProject],
  ["embedding_block", ofProject],
  ["memory_reindex", ofProject],
  ["memory_posting", ofProject],
  ["memory_count", ofProject],
  ["idempotency_record", ofProject],
  ["task_dependency", ofProject],
  ["task_note", ofProject],
  ["receipt", ofProject],
  ["task", ofProject],
  ["memory_entry", ofProject],
  ["project_usage", ofProject],
  ["push_outbox", ofProject],
  ["mobile_registration", ofProject],
  ["mobile_device", ofProject],
  ["console_link", ofProject],
  ["oauth_request", `${ofGrant} or ${ofToken}`],
  ["console_session", ofProject],
  ["person_key", ofProject],
  ["oauth_code", ofGrant],
  ["oauth_access_token", ofGrant],
  ["oauth_refresh_token", ofGrant],
  ["oauth_grant", ofProject],
  ["project_token", ofProject],
  ["enrollment_challenge", `${ofCredential} or ${ofIdentity}`],
  ["bridge_rotation", ofIdentity],
  ["bridge_key_rotation", ofIdentity],
  ["bridge_access_token", ofIdentity],
  ["bridge_token", ofIdentity],
  ["bridge_identity", ofProject],
  ["bridge_enrollment_credential", ofProject],
  ["approved_account_reference", ofProject]
]

/**
 * The tables of which a project can have millions of rows: what is derived from its texts, or will soon be over. They are
 * read by `key`, an index after the project, from its least value on.
 */
const derived = {
  memory_posting: {
    from: "memory_posting",
    place: "ctid",
    key: { lexeme: "text", entry_id: "uuid" },
    least: ["", nil]
  },
  memory_embedding: { from: "memory_embedding", place: "ctid", key: { entry_id: "uuid" }, least: [nil] },
  idempotency_record: {
    from: "idempotency_record",
    place: "ctid",
    key: { tool: "text", idempotency_key: "text" },
    least: ["", ""]
  },
  // Without the lateral join PostgreSQL may read the notifications of all devices between two of the project.
  push_outbox: {
    from: `mobile_device d cross join lateral (
      select ctid as place from push_outbox where device_id = d.device_id limit ${batch}) o`,
    place: "o.place",
    key: { device_id: "uuid" },
    least: [nil]
  }
} as const
export type Derived = keyof typeof derived
export const derivedTables = Object.keys(derived) as ReadonlyArray<Derived>

/** For a test that compares them with the database. */
export const emptiedTables = ["pinned_document", "document_blob", ...emptied.map(([table]) => table)]

export const make = (sql: SqlClient.SqlClient) => {
  const on = (statement: string, project_id: string) => sql.unsafe(statement, [project_id])

  /** Fails after a tenth of a second instead of waiting for a lock while others wait for this transaction. */
  const waitBriefly = sql`select set_config('lock_timeout', '100ms', true)`

  /** Locks the project's row: statements that insert rows of the project wait until the transaction ends. */
  const lockProject = (project_id: string) =>
    firstRow(
      Schema.Struct({
        name: Schema.String,
        disabled_at: Schema.NullOr(Schema.Date),
        delete_after: Schema.NullOr(Schema.Date),
        deleted_at: Schema.NullOr(Schema.Date)
      })
    )(sql`
      select name, disabled_at, delete_after, deleted_at
        from project
       where project_id = ${project_id}::uuid
         for update`)

  /** From then on the project cannot be enabled (ProjectStore.ts): its deletion is due since it was disabled. */
  const begin = (project_id: string) => sql`
    update project
       set delete_after = least(delete_after, disabled_at)
     where project_id = ${project_id}::uuid`

  /**
   * Deletes a batch of the project's rows, and returns the key at which the next one begins; nothing after the last one. A
   * batch that began at the first row would read what the batches before have left in the index.
   */
  const dropDerived = (table: Derived, project_id: string, start: ReadonlyArray<string> = derived[table].least) => {
    const { from, key, place } = derived[table]
    const columns = Object.keys(key).join(", ")
    const least = Object.values(key).map((type, index) => `$${index + 2}::${type}`)
    return firstRow(Schema.Struct({ next: Schema.Array(Schema.String) }))(
      sql.unsafe(
        `with batch as materialized (
           select ${place} as place, ${columns}
             from ${from}
            where project_id = $1::uuid
              and (${columns}) >= (${least.join(", ")})
            order by ${columns}
            limit ${batch}
         ), gone as (
           delete from ${table}
            where ctid = any (array(select place from batch))
         )
         select array[${Object.keys(key)
           .map((column) => `${column}::text`)
           .join(", ")}] as next
           from batch
          order by ${columns}
         offset ${batch - 1}`,
        [project_id, ...start]
      )
    )
  }

  /** Deletes every row of the project but its own, which loses its name and limits, and those of the audit log. */
  const dropProject = Effect.fnUntraced(function* (project_id: string, now: Date) {
    yield* sql`set constraints all deferred`
    const blobs = yield* rows(Schema.Struct({ blob_oid: Schema.String }))(sql`
      delete from pinned_document
       where project_id = ${project_id}::uuid
      returning blob_oid`)
    yield* sql`
      delete from document_blob b
       where b.blob_oid = any (${blobs.map(({ blob_oid }) => blob_oid)}::text[])
         and not exists (select from pinned_document d where d.blob_oid = b.blob_oid)`
    yield* on(
      `update bridge_identity
          set pending_rotation_id = null, pending_key_rotation_id = null, key_rotation_until = null
        where ${ofProject}`,
      project_id
    )
    yield* expect(Effect.succeed(emptied.length))
    for (const [table, condition] of emptied) {
      yield* on(`delete from ${table} where ${condition}`, project_id)
      yield* done(1)
    }
    yield* sql`
      update project
         set name = 'deleted',
             limits = '{}',
             disabled_at = coalesce(disabled_at, ${now}),
             deleted_at = coalesce(deleted_at, ${now})
       where project_id = ${project_id}::uuid`
  })

  /** Returns nothing if the project is not there, not disabled or deleted. */
  const schedule = (project_id: string, delete_after: Date, trace: Trace, actor: string) =>
    firstRow(Schema.Struct({ delete_after: Schema.Date }))(sql`
      with found as materialized (
        select project_id, delete_after
          from project
         where project_id = ${project_id}::uuid
           and disabled_at is not null
           and deleted_at is null
           for no key update
      ), scheduled as (
        update project p
           set delete_after = ${delete_after}
          from found
         where p.project_id = found.project_id
           and found.delete_after is null
        returning p.project_id, p.delete_after
      ), audited as (${auditRow(sql, trace, {
        action: "project.deletion_scheduled",
        from: "scheduled",
        project: sql`project_id`,
        actor: sql`${actor}::text`,
        subject: sql`jsonb_build_object('project_id', project_id)`
      })})
      select coalesce(scheduled.delete_after, found.delete_after) as delete_after
        from found
        left join scheduled on true`)

  const due = (now: Date) =>
    rows(ProjectId)(sql`
      select project_id
        from project
       where delete_after <= ${now}
         and deleted_at is null
       order by delete_after`)

  /** Projects with a retention period, in the order of their ids. */
  const retained = (after: string) =>
    firstRow(
      Schema.Struct({
        project_id: Schema.String,
        memory_days: Schema.NullOr(Schema.Number),
        receipt_days: Schema.NullOr(Schema.Number)
      })
    )(sql`
      select project_id, (limits->>'memory_days')::int as memory_days, (limits->>'receipt_days')::int as receipt_days
        from project
       where limits ?| array['memory_days', 'receipt_days']
         and project_id > ${after}::uuid
       order by project_id
       limit 1`)

  /**
   * One process at a time erases what a project's retention period has ended. Returns no row while another one does. Sign-ins
   * and `disable-project` lock the project's row, and do not wait for a batch.
   */
  const lockForRetention = (project_id: string) =>
    rows(ProjectId)(sql`
      select ${project_id}::text as project_id
       where pg_try_advisory_xact_lock(hashtextextended('retention of ' || ${project_id}::text, 0))`)

  const instance = firstRow(Schema.Struct({ instance_id: Schema.String }))(
    sql`select instance_id from service_instance`
  )

  /** Returns nothing if the tombstone is there. Waits for a transaction that has written the same, and not ended. */
  const bury = (
    erasure_id: string,
    { kind, memory_before, project_id, receipts_before, target_id }: Erased,
    erased_at: Date
  ) =>
    firstRow(Schema.Struct({ erasure_id: Schema.String }))(sql`
      insert into erasure (erasure_id, kind, project_id, target_id, memory_before, receipts_before, erased_at)
      values (${erasure_id}::uuid, ${kind}, ${project_id}::uuid, ${target_id}::uuid, ${memory_before}, ${receipts_before},
              ${erased_at})
          on conflict do nothing
      returning erasure_id`)

  /** Each pass of a retention period covers the earlier ones; the recent ones settle lines that are open. */
  const dropOldRetention = (project_id: string, before: Date) => sql`
    delete from erasure
     where project_id = ${project_id}::uuid
       and kind = 'retention'
       and erased_at < ${before}`

  const buried = ({ kind, project_id, target_id }: Erased) =>
    firstRow(Schema.Struct({ erasure_id: Schema.String, erased_at: Schema.Date }))(sql`
      select erasure_id, erased_at
        from erasure
       where project_id = ${project_id}::uuid
         and kind = ${kind}
         and target_id is not distinct from ${target_id}::uuid
       order by erased_at
       limit 1`)

  const audited = (
    project_id: string,
    action: string,
    actor: string,
    subject: Readonly<Record<string, string>>,
    trace: Trace
  ) => sql`
    with erased as (select 1)
    ${auditRow(sql, trace, {
      action,
      from: "erased",
      project: sql`(select project_id from project where project_id = ${project_id}::uuid)`,
      actor: sql`${actor}::text`,
      subject: sql`${JSON.stringify(subject)}::jsonb`
    })}`

  return {
    waitBriefly,
    lockProject,
    begin,
    dropDerived,
    dropProject,
    schedule,
    due,
    retained,
    lockForRetention,
    instance,
    bury,
    dropOldRetention,
    buried,
    audited
  }
}
