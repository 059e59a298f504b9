/** The statement that enqueues a notification by itself, not as a clause of another statement. */
import type { SqlClient, Statement } from "effect/sql"
import { notified } from "../../platform/sql/PushRow.ts"
import type { NotificationKind } from "../../wire/mobile/Notifications.ts"

export interface Notice {
  readonly kind: NotificationKind
  readonly event_id: string
  readonly project_id: string
  readonly about: string
  readonly only?: Statement.Fragment
}

export const make = (sql: SqlClient.SqlClient) => ({
  enqueue: (now: Date, { about, event_id, kind, only, project_id }: Notice) => sql`
    with event as (
      select ${event_id}::uuid as event_id, ${project_id}::uuid as project_id, ${about}::uuid as about
    ), ${notified(sql, now, {
      kind,
      from: "event",
      event: sql`e.event_id`,
      project: sql`e.project_id`,
      about: sql`e.about`,
      ...(only && { only })
    })}
    select delivery_id from notified`
})
