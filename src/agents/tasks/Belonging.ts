/** The filters of the startup snapshot, as conditions on tasks and receipts. */
import type { SqlClient } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"

export interface Belonging {
  readonly tag?: string | undefined
  readonly repository?: string | undefined
}

/** How many rows a filter chooses from: that bounds what a rare tag or repository costs. */
const looked = 2_000

/** How many of a task's newest receipts say whose it is. */
const newest = 10

/** How many rows are read for `limit` of them. */
export const readFor = ({ repository, tag }: Belonging, limit: number) =>
  tag === undefined && repository === undefined ? limit : looked

export const make = (sql: SqlClient.SqlClient) => {
  /** `git@host:path`, `https://host/path.git` and `ssh://git@host/path` name the same repository. */
  const plain = (remote: Fragment) => sql`
    lower(regexp_replace(
      replace(regexp_replace(${remote}, '^([a-z+]+://)?([^@/]*@)?', ''), ':', '/'), '(\\.git)?/*$', ''))`
  const named = sql.literal(`r.git_checkpoint ->> 'repository'`)
  const isOf = (repository: string) => sql`${plain(named)} = ${plain(sql`${repository}::text`)}`
  const hasTag = (tag: string) => sql`t.tags @> array[${tag}]::text[]`

  /** Of the task `t`: one for which its newest receipts name no repository belongs to each. */
  const ofTask = ({ repository, tag }: Belonging) => sql`
    ${tag === undefined ? sql`true` : hasTag(tag)}
    and ${
      repository === undefined
        ? sql`true`
        : sql`coalesce((
            select bool_or(${isOf(repository)})
              from (select git_checkpoint
                      from receipt
                     where project_id = t.project_id
                       and task_id = t.id
                     order by created_at desc, id desc
                     limit ${newest}) r
             where r.git_checkpoint is not null), true)`
    }`

  /** Of the receipt `r`: one without a checkpoint belongs to each repository. */
  const ofReceipt = ({ repository, tag }: Belonging) => sql`
    ${repository === undefined ? sql`true` : sql`(r.git_checkpoint is null or ${isOf(repository)})`}
    and ${
      tag === undefined
        ? sql`true`
        : sql`exists (select 1 from task t where t.project_id = r.project_id and t.id = r.task_id and ${hasTag(tag)})`
    }`

  return { ofTask, ofReceipt }
}
