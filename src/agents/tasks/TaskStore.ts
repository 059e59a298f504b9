/** Statements for tasks, and for the receipt that an update writes. */
import { pipe, Schema, Struct } from "effect"
import type { SqlClient } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"
import { auditRow, type Trace } from "../../platform/sql/AuditRow.ts"
import { charge, type Usage } from "../../platform/sql/ProjectUsage.ts"
import { firstRow, rows } from "../../platform/sql/Rows.ts"
import { type Belonging, make as makeBelonging, readFor } from "./Belonging.ts"
import { Answer, type Receipt, Task, TaskAnswered, TaskSummary } from "./Shapes.ts"

/** Columns are read as they are; `answer` is JSON. */
const answer = Schema.NullOr(Answer)
const TaskRow = Task.mapFields((fields) => ({
  ...pipe(fields, Struct.omit(["answer"]), Struct.map(Schema.toType)),
  answer
}))
const SummaryRow = Schema.toType(Schema.Struct({ ...TaskSummary.fields, created_at: Task.fields.created_at }))

const { body, blocked_reason, choices, claimed_at } = Task.fields
const UnfinishedTask = Schema.Struct({
  ...Struct.map({ ...TaskSummary.fields, body, claimed_at, blocked_reason, choices }, Schema.toType),
  answer
})
export type UnfinishedTask = typeof UnfinishedTask.Type

const Question = Schema.toType(
  Task.mapFields(Struct.pick(["id", "title", "priority", "assignee", "blocked_reason", "choices", "updated_at"]))
)
export type Question = typeof Question.Type

const TaskCounts = Schema.Struct({
  in_progress: Schema.Int,
  open: Schema.Int,
  blocked: Schema.Int,
  decisions: Schema.Int,
  closed: Schema.Int
})

export interface Filter {
  readonly status?: ReadonlyArray<string> | undefined
  readonly ready?: boolean | undefined
  readonly assignee?: string | undefined
  readonly tag?: string | undefined
  readonly parent?: string | undefined
}

export type After =
  | {
      readonly order: "priority"
      readonly keys: readonly [priority: number, created_at: string, id: string] | undefined
    }
  | { readonly order: "updated"; readonly keys: readonly [updated_at: string, id: string] | undefined }

export const make = (sql: SqlClient.SqlClient) => {
  const belonging = makeBelonging(sql)
  /** The order of unfinished tasks: in progress, ready, blocked, waiting. Ready: open, and every dependency is closed. */
  const place = sql.literal(`
    (case when t.status = 'in_progress' then 0
          when t.status = 'open' and t.waits_for = 0 then 1
          when t.status = 'blocked' then 2
          else 3 end)`)
  const ready = sql`${place} = 1`

  const summaryColumns = sql`
    t.id, t.title, t.status, t.priority, t.tags, (${ready}) as ready, t.assignee, t.version, t.blocked_kind,
    case when t.version = 1 then t.created_by else t.updated_by end as updated_by, t.updated_at`

  const taskColumns = sql`
    ${summaryColumns}, t.body,
    array(select d.depends_on::text
            from task_dependency d
           where d.project_id = t.project_id
             and d.task_id = t.id
           order by d.depends_on) as depends_on,
    t.parent, t.claimed_at, t.claimed_by, t.blocked_reason, t.choices, t.asked_by, t.answer, t.answered_by, t.answer_entry_id, t.created_by,
    t.created_at, t.closed_at`

  /**
   * Inserts the task with its dependencies. Inserts and returns nothing if a dependency or the parent does not exist, or
   * the project would pass one of `maxima`. Locks the dependencies before the project's usage, as every update does.
   */
  const insert = (project_id: string, task: Task, now: Date, trace: Trace, stored_bytes: number, maxima: Usage) =>
    firstRow(Schema.Struct({ ready: Schema.Boolean }))(sql`
      with dependency as materialized (
        select id, closed_at
          from task
         where project_id = ${project_id}::uuid
           and id = any (${task.depends_on}::uuid[])
       order by id
         for share
      ), known as (
        select 1
         where (select count(*) from dependency) = cardinality(${task.depends_on}::uuid[])
           and ${
             task.parent === null || task.parent === undefined
               ? sql`true`
               : sql`exists (
                   select 1
                     from task
                    where project_id = ${project_id}::uuid
                      and id = ${task.parent}::uuid)`
           }
      ), charged as (
        ${charge(sql, project_id, "known", { stored_bytes, tasks: 1 }, maxima)}
      ), added as (
        insert into task (
          project_id, id, title, body, status, priority, tags, parent, version, created_by, created_at, updated_at)
        select ${project_id}::uuid, ${task.id}::uuid, ${task.title}, ${task.body}, 'open', ${task.priority},
               ${task.tags}::text[], ${task.parent ?? null}::uuid, 1, ${task.created_by}, ${now}::timestamptz,
               ${now}::timestamptz
          from charged
        returning project_id, id
      ), linked as (
        insert into task_dependency (project_id, task_id, depends_on)
        select added.project_id, added.id, dependency.id
          from added, dependency
      ), audited as (${auditRow(sql, trace, {
        action: "task.created",
        from: "added",
        project: sql`project_id`,
        actor: sql`${task.created_by}::text`,
        subject: sql`jsonb_build_object('task_id', id)`
      })})
      select not exists (select 1 from dependency where closed_at is null) as ready from added`)

  const find = (project_id: string, id: string) =>
    firstRow(TaskRow)(sql`
      select ${taskColumns}
        from task t
       where t.project_id = ${project_id}::uuid
         and t.id = ${id}::uuid`)

  const findAll = (project_id: string, ids: ReadonlyArray<string>) =>
    rows(TaskRow)(sql`
      select ${taskColumns}
        from task t
       where t.project_id = ${project_id}::uuid
         and t.id = any (${ids}::uuid[])`)

  /** Like `find`, and locks the row until the transaction ends. */
  const lock = (project_id: string, id: string) =>
    firstRow(TaskRow)(sql`
      select ${taskColumns}
        from task t
       where t.project_id = ${project_id}::uuid
         and t.id = ${id}::uuid
         for no key update`)

  /** The receipt of an update: a clause after `updated`, so that nothing is inserted when the update wrote no row. */
  const insertReceipt = (receipt: Receipt) => sql`
    insert into receipt (
      project_id, id, task_id, session_ref, worker, thread, outcome, summary, next_steps, pitfalls, git_checkpoint,
      task_version_after, task_status_after, actor, created_at)
    select project_id, ${receipt.id}::uuid, id, ${receipt.session_ref}, ${receipt.worker}, ${receipt.thread},
           ${receipt.outcome}, ${receipt.summary}, ${receipt.next_steps}::text[], ${receipt.pitfalls}::text[],
           ${receipt.git_checkpoint === null ? null : JSON.stringify(receipt.git_checkpoint)}::jsonb,
           ${receipt.task_version_after}::int, ${receipt.task_status_after}, ${receipt.actor},
           ${receipt.created_at}::timestamptz
      from updated
        on conflict (project_id, task_id, session_ref) do nothing
    returning id`

  /**
   * Writes the next version and the receipt. `receipt_id` is null if the session already has a receipt for the task.
   * Writes and returns nothing if the project would pass one of `maxima`.
   */
  const update = (
    project_id: string,
    task: Task,
    receipt: Receipt | undefined,
    actor: string,
    now: Date,
    trace: Trace,
    stored_bytes: number,
    maxima: Usage
  ) =>
    firstRow(Schema.Struct({ receipt_id: Schema.NullOr(Schema.String) }))(sql`
      with locked as (
        select 1
      ), charged as (
        ${charge(sql, project_id, "locked", { stored_bytes, receipts: receipt === undefined ? 0 : 1 }, maxima)}
      ), updated as (
        update task
           set title = ${task.title},
               body = ${task.body},
               status = ${task.status},
               priority = ${task.priority},
               tags = ${task.tags}::text[],
               assignee = ${task.assignee},
               claimed_at = ${task.claimed_at}::timestamptz,
               claimed_by = ${task.claimed_by ?? null},
               version = ${task.version},
               blocked_reason = ${task.blocked_reason},
               blocked_kind = ${task.blocked_kind},
               choices = ${task.choices ?? null}::text[],
               asked_by = ${task.asked_by ?? null},
               answer = case when ${receipt === undefined} then answer end,
               updated_by = ${actor},
               updated_at = ${now},
               closed_at = ${task.closed_at}::timestamptz
          from charged
         where task.project_id = charged.project_id
           and id = ${task.id}::uuid
           and version = ${task.version} - 1
        returning task.project_id, id
      ), receipt as (
        ${receipt === undefined ? sql`select null::uuid as id where false` : insertReceipt(receipt)}
      ), audited as (${auditRow(sql, trace, {
        action: "task.updated",
        from: "updated",
        project: sql`project_id`,
        actor: sql`${actor}::text`,
        subject: sql`jsonb_strip_nulls(jsonb_build_object('task_id', id, 'receipt_id', (select id from receipt)))`
      })})
      select (select id from receipt) as receipt_id from updated`)

  /** Returns `limit` rows, and one more if there is a next page. */
  const list = (
    project_id: string,
    { assignee, parent, ready: isReady, status, tag }: Filter,
    after: After,
    limit: number
  ) =>
    rows(SummaryRow)(sql`
      select ${summaryColumns}, t.created_at
        from task t
       where t.project_id = ${project_id}::uuid
         and ${status === undefined ? sql`true` : sql`t.status = any (${status}::text[]) and ${closing(status)}`}
         and ${isReady === undefined ? sql`true` : isReady ? sql`t.closed_at is null and ${ready}` : sql`not (${ready})`}
         and ${assignee === undefined ? sql`true` : sql`t.assignee = ${assignee}`}
         and ${tag === undefined ? sql`true` : sql`t.tags @> array[${tag}]::text[]`}
         and ${parent === undefined ? sql`true` : sql`t.parent = ${parent}::uuid`}
         and ${following(after)}
       order by ${sql.literal(
         after.order === "priority" ? "t.priority, t.created_at, t.id" : "t.updated_at desc, t.id desc"
       )}
       limit ${limit + 1}`)

  /** What these states have in common, so that the tasks on the other side are not read: they may be many times as many. */
  const closing = (status: ReadonlyArray<string>) => {
    const closed = status.filter((one) => one === "done" || one === "cancelled").length
    if (closed === 0) return sql`t.closed_at is null`
    return closed === status.length ? sql`t.closed_at is not null` : sql`true`
  }

  const following = (after: After) => {
    if (after.keys === undefined) return sql`true`
    if (after.order === "updated") {
      const [updated_at, id] = after.keys
      return sql`(t.updated_at, t.id) < (${updated_at}::timestamptz, ${id}::uuid)`
    }
    const [priority, created_at, id] = after.keys
    return sql`(t.priority, t.created_at, t.id) > (${priority}::smallint, ${created_at}::timestamptz, ${id}::uuid)`
  }

  /**
   * Frees the task that waited for a decision, with the answer on it: back to work if it has an assignee and nothing to
   * wait for. The caller holds its lock and has charged for it.
   */
  const answered = (
    project_id: string,
    { answer, id, version }: { readonly id: string; readonly version: number; readonly answer: Answer },
    actor: string,
    trace: Trace
  ) =>
    firstRow(TaskAnswered)(sql`
      with updated as (
        update task
           set status = case when assignee is not null and waits_for = 0 then 'in_progress' else 'open' end,
               claimed_at = case when assignee is not null and waits_for = 0
                                 then coalesce(claimed_at, ${answer.at}::timestamptz) end,
               claimed_by = case when assignee is not null and waits_for = 0 then claimed_by end,
               version = ${version},
               blocked_reason = null,
               blocked_kind = null,
               choices = null,
               asked_by = null,
               answered_by = ${actor},
               answer_entry_id = ${answer.entry_id}::uuid,
               answer = ${JSON.stringify(encodeAnswer(answer))}::jsonb,
               updated_by = ${actor},
               updated_at = ${answer.at}
         where project_id = ${project_id}::uuid
           and id = ${id}::uuid
           and version = ${version} - 1
        returning project_id, id, status, version, assignee, answer_entry_id
      ), audited as (${auditRow(sql, trace, {
        action: "task.answered",
        from: "updated",
        project: sql`project_id`,
        actor: sql`${actor}::text`,
        subject: sql`jsonb_build_object('task_id', id, 'entry_id', answer_entry_id)`
      })})
      select id, status, version, assignee, answer_entry_id as entry_id from updated`)

  const unfinishedColumns = sql`
    ${summaryColumns}, left(t.body, 601) as body, t.claimed_at, t.blocked_reason, t.choices, t.answer`

  /** The first `limit` of `which` tasks in that order that the filter lets through. */
  const chosen = (project_id: string, which: Fragment, order: Fragment, filter: Belonging, limit: number) =>
    rows(UnfinishedTask)(sql`
      select ${unfinishedColumns}
        from (select *
                from task t
               where t.project_id = ${project_id}::uuid
                 and ${which}
               order by ${order}
               limit ${readFor(filter, limit)}) t
       where ${belonging.ofTask(filter)}
       order by ${order}
       limit ${limit}`)

  /** Tasks whose answer no session has taken up, newest first. */
  const withAnswer = (project_id: string, filter: Belonging, limit: number) =>
    chosen(
      project_id,
      sql`t.answer is not null and t.closed_at is null`,
      sql`t.updated_at desc, t.id desc`,
      filter,
      limit
    )

  /** Tasks that wait for a decision of a person, the most urgent first. */
  const asked = (project_id: string, filter: Belonging, limit: number) =>
    chosen(
      project_id,
      sql`t.status = 'blocked' and t.blocked_kind = 'decision'`,
      sql`t.priority, t.created_at, t.id`,
      filter,
      limit
    )

  /** In the order of `place`, by index. */
  const unfinished = (project_id: string, filter: Belonging, limit: number) =>
    chosen(project_id, sql`t.closed_at is null`, sql`${place}, t.priority, t.created_at, t.id`, filter, limit)

  /** Of tasks that callers wait for, those whose version is higher than the one each knows. */
  const newer = (known: ReadonlyArray<readonly [project_id: string, id: string, version: number]>) =>
    rows(Schema.Struct({ place: Schema.Int }))(sql`
      select w.place::int as place
        from unnest(${known.map(([project_id]) => project_id)}::uuid[], ${known.map(([, id]) => id)}::uuid[],
                    ${known.map(([, , version]) => version)}::int[]) with ordinality as w (project_id, id, version, place)
        join task t on t.project_id = w.project_id and t.id = w.id
       where t.version > w.version`)

  /** The same tasks as `asked`, for people. */
  const questions = (project_id: string, limit: number) =>
    rows(Question)(sql`
      select id, title, priority, assignee, blocked_reason, choices, updated_at
        from task
       where project_id = ${project_id}::uuid
         and status = 'blocked'
         and blocked_kind = 'decision'
       order by priority, created_at, id
       limit ${limit}`)

  /** Unfinished tasks, counted in an index; the closed ones are the rest of what the project's usage counts. */
  const counts = (project_id: string) =>
    firstRow(TaskCounts)(sql`
      select u.*, greatest(0, coalesce(p.tasks, 0)::int - u.in_progress - u.open - u.blocked) as closed
        from (select count(*) filter (where status = 'in_progress')::int as in_progress,
                     count(*) filter (where status = 'open')::int as open,
                     count(*) filter (where status = 'blocked')::int as blocked,
                     count(*) filter (where status = 'blocked' and blocked_kind = 'decision')::int as decisions
                from task
               where project_id = ${project_id}::uuid
                 and closed_at is null) u
        left join project_usage p on p.project_id = ${project_id}::uuid`)

  return {
    insert,
    find,
    findAll,
    lock,
    update,
    answered,
    list,
    withAnswer,
    asked,
    newer,
    unfinished,
    questions,
    counts
  }
}

const encodeAnswer = Schema.encodeSync(Answer)
