/** Every list that goes on over pages: each row once, in the list's order, also where sort keys are equal. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import * as DocumentStore from "../../src/agents/documents/DocumentStore.ts"
import * as ActivityStore from "../../src/agents/handover/ActivityStore.ts"
import type { HappenedKind } from "../../src/agents/handover/Shapes.ts"
import * as SearchStore from "../../src/agents/memory/SearchStore.ts"
import * as ReceiptStore from "../../src/agents/tasks/ReceiptStore.ts"
import * as TaskStore from "../../src/agents/tasks/TaskStore.ts"
import * as TransferStore from "../../src/agents/transfer/TransferStore.ts"
import * as CredentialStore from "../../src/bridges/enrollment/CredentialStore.ts"
import * as BridgeStore from "../../src/bridges/identity/BridgeStore.ts"
import * as ProjectStore from "../../src/operator/projects/ProjectStore.ts"
import * as DeviceStore from "../../src/people/mobile/DeviceStore.ts"
import * as AuditStore from "../../src/platform/audit/AuditStore.ts"
import type { Page } from "../../src/platform/sql/Page.ts"
import * as PushAdminStore from "../../src/push/admin/PushAdminStore.ts"
import * as RekeyStore from "../../src/push/tokens/RekeyStore.ts"
import * as ProjectTokenStore from "../../src/signin/access/ProjectTokenStore.ts"
import * as ClientStore from "../../src/signin/oauth/clients/ClientStore.ts"
import * as GrantStore from "../../src/signin/oauth/grants/GrantStore.ts"
import { enrolled, hash, id, ids, now, past, phone, projects } from "../support/statements/OneOfEach.ts"
import { TestDatabase } from "../support/database/TestDatabase.ts"

const { project } = ids
const [a, b, c] = [id(901), id(902), id(903)]
const keys = [a, b, c]

/** Three copies of the table's only row, equal but for their key and `unique`. */
const copies = (table: string, key: string, unique = "") => `
  insert into ${table}
  select (jsonb_populate_record(t, jsonb_build_object('${key}', copy) ${unique})).*
    from ${table} t, unnest('{${keys.join(",")}}'::text[]) copy;
  delete from ${table} where ${key}::text <> all ('{${keys.join(",")}}'::text[])`
const hashed = (column: string) => `|| jsonb_build_object('${column}', sha256(copy::bytea))`

const rows = [
  `${enrolled}; ${phone.slice(projects.length + 1)}`,
  `update push_outbox set state = 'dead', settled_at = ${past}`,
  `insert into approved_account_reference (project_id, reference, approved_at) values ('${project}', 'one', ${past})`,
  `insert into task (project_id, id, title, body, status, priority, tags, version, created_by, created_at, updated_at)
   values ('${project}', '${ids.task}', 'Task', '', 'open', 2, '{}', 1, 'agent', ${past}, ${past})`,
  `insert into memory_entry (project_id, id, kind, title, body, tags, actor, role, created_at)
   values ('${project}', '${ids.entry}', 'note', 'Entry', 'Entry', '{}', 'agent', 'contributor', ${past})`,
  `insert into task_dependency (project_id, task_id, depends_on) values ('${project}', '${id(904)}', '${ids.task}')`,
  `insert into receipt (
     project_id, id, task_id, session_ref, worker, outcome, summary, next_steps, pitfalls, task_version_after,
     task_status_after, actor, created_at)
   values ('${project}', '${id(54)}', '${a}', 'session', 'me', 'progress', 'Half.', '{}', '{}', 1, 'open', 'agent', ${past})`,
  `insert into audit_event (event_id, at, project_id, actor, action, outcome, subject, address, user_agent)
   values ('${id(91)}', ${past}, '${project}', 'operator', 'test', 'done', '{}', '', '')`,
  `insert into document_blob (blob_oid, sha256, size_bytes, line_count, bytes)
   values ('${"a".repeat(40)}', ${hash("x")}, 1, 1, 'x')`,
  `insert into pinned_document (
     project_id, document_id, repository, commit, path, mode, blob_oid, title, bootstrap, pinned_at)
   values ('${project}', '${id(71)}', 'acme/shop', '${"c".repeat(40)}', 'README.md', '100644', '${"a".repeat(40)}',
           'Readme', false, ${past})`,
  copies("bridge_enrollment_credential", "credential_id", hashed("credential_hash")),
  `update bridge_identity set without_token_since = ${past}`,
  copies("bridge_identity", "bridge_id", "|| jsonb_build_object('identity_id', copy)"),
  copies("approved_account_reference", "reference"),
  copies("project_token", "token_id", hashed("token_hash")),
  copies("oauth_client", "client_id"),
  `update oauth_grant set client_id = '${a}', project_token_id = '${a}'`,
  copies("oauth_grant", "grant_id"),
  copies("push_outbox", "delivery_id", "|| jsonb_build_object('event_id', copy)"),
  copies("mobile_device", "device_id", hashed("token_lookup")),
  copies("task", "id"),
  copies("memory_entry", "id"),
  copies("task_dependency", "depends_on"),
  copies("receipt", "id", "|| jsonb_build_object('session_ref', copy)"),
  `insert into task_note (project_id, id, task_id, text, actor, created_at)
   values ('${project}', '${id(55)}', '${a}', 'Half.', 'agent', ${past})`,
  copies("task_note", "id"),
  copies("audit_event", "event_id"),
  copies("pinned_document", "document_id", "|| jsonb_build_object('path', copy)")
]

/** Reads a page that begins after the row, and returns the keys of its rows. */
type Read = (sql: SqlClient.SqlClient, page: Page) => Effect.Effect<ReadonlyArray<string>, unknown>

const keysOf =
  <Key extends string>(
    key: Key,
    list: (sql: SqlClient.SqlClient, page: Page) => Effect.Effect<ReadonlyArray<Readonly<Record<Key, string>>>, unknown>
  ): Read =>
  (sql, page) =>
    Effect.map(list(sql, page), (found) => found.map((row) => row[key]))

const at = new Date(now.getTime() - 3_600_000).toISOString()
const exported =
  (kind: "memory" | "task" | "dependency" | "receipt" | "note"): Read =>
  (sql, { after, limit }) => {
    const from = after === undefined ? "" : kind === "dependency" ? `${id(904)} ${after}` : after
    return Effect.map(TransferStore.make(sql).page(project, kind, from, limit), (lines) =>
      lines.map(({ key }) => key.split(" ").at(-1)!)
    )
  }
/** These lists read one row more, which tells them that there is a next page. */
const one = { limit: 0 }
const keysAfter = (after: string | undefined) => (after === undefined ? undefined : ([at, after] as const))
const happened = (kind: HappenedKind): Read =>
  keysOf("id", (sql, { after }) =>
    ActivityStore.make(sql).since(project, new Date(at), [kind], keysAfter(after), one.limit)
  )

const ascending: Readonly<Record<string, Read>> = {
  projects: keysOf("project_id", (sql, page) => ProjectStore.make(sql).list(page)),
  "account references": keysOf("reference", (sql, page) => ProjectStore.make(sql).listReferences(project, page)),
  Bridges: keysOf("bridge_id", (sql, page) => BridgeStore.make(sql).list(project, page)),
  "Bridges by the end of their token": keysOf("bridge_id", (sql, page) =>
    BridgeStore.make(sql).listByEnd(project, page)
  ),
  "Bridges of all projects by the end of their token": keysOf("identity_id", (sql, page) =>
    BridgeStore.make(sql).listAllByEnd(page)
  ),
  credentials: keysOf("credential_id", (sql, page) => CredentialStore.make(sql).list(project, page, now)),
  "credentials that wait, by their end": keysOf("credential_id", (sql, page) =>
    CredentialStore.make(sql).listWaiting(page, now)
  ),
  "project tokens": keysOf("token_id", (sql, page) => ProjectTokenStore.make(sql).list(project, page, now)),
  clients: keysOf("client_id", (sql, page) => ClientStore.make(sql).list(page, now)),
  grants: keysOf("grant_id", (sql, page) => GrantStore.make(sql).list(project, page, now)),
  documents: keysOf("document_id", (sql, page) => DocumentStore.make(sql).list(project, page)),
  "push tokens": keysOf("device_id", (sql, { after = id(0), limit }) => RekeyStore.make(sql).sealedAfter(after, limit)),
  "exported entries": exported("memory"),
  "exported tasks": exported("task"),
  "exported dependencies of one task": exported("dependency"),
  "exported receipts": exported("receipt"),
  "exported notes": exported("note"),
  "tasks of one priority and instant": keysOf("id", (sql, { after }) =>
    TaskStore.make(sql).list(
      project,
      {},
      { order: "priority", keys: after === undefined ? undefined : [2, at, after] },
      one.limit
    )
  )
}
const descending: Readonly<Record<string, Read>> = {
  "grants of a token": keysOf("grant_id", (sql, page) => GrantStore.make(sql).own(a, page, now)),
  "receipts of a task of one instant": keysOf("id", (sql, page) => ReceiptStore.make(sql).ofTask(project, a, page)),
  phones: keysOf("device_id", (sql, page) => DeviceStore.make(sql).list(project, page)),
  "dead letters of one instant": keysOf("delivery_id", (sql, page) => PushAdminStore.make(sql).listDead(page)),
  "audit events of one instant": keysOf("event_id", (sql, page) => AuditStore.make(sql).list(project, page)),
  "audit events of one kind": keysOf("event_id", (sql, page) =>
    AuditStore.make(sql).list(project, page, { actions: ["test"] })
  ),
  "audit events of all projects": keysOf("event_id", (sql, page) => AuditStore.make(sql).list(undefined, page)),
  "tasks that were updated at one instant": keysOf("id", (sql, { after }) =>
    TaskStore.make(sql).list(project, {}, { order: "updated", keys: keysAfter(after) }, one.limit)
  ),
  "entries of one instant": keysOf("id", (sql, { after }) =>
    SearchStore.make(sql).recent(project, {}, keysAfter(after), one.limit)
  ),
  "receipts of one instant": keysOf("id", (sql, { after }) =>
    ActivityStore.make(sql).receipts(project, {}, keysAfter(after), one.limit)
  ),
  "tasks that happened at one instant": happened("task"),
  "receipts that happened at one instant": happened("receipt"),
  "entries that happened at one instant": happened("note"),
  "notes on tasks that happened at one instant": happened("task_note")
}

layer(TestDatabase.sql)("page by page", (it) => {
  const walk = Effect.fnUntraced(function* (read: Read) {
    const sql = yield* SqlClient.SqlClient
    const found: Array<string> = []
    for (let turn = 0; turn < 5; turn++) {
      const page = yield* read(sql, { after: found.at(-1), limit: 1 })
      if (page.length === 0) return found
      found.push(...page)
    }
    return found
  })
  const inserted = Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const statements = rows.map((statement) => `${statement};`).join(" ")
    yield* sql.unsafe(`do $$ begin set local session_replication_role = replica; ${statements} end $$`).unprepared
  })

  it.effect("the rows are inserted", () => inserted)
  it.effect.each(Object.entries(ascending))("%s are listed once each, in order", ([name, read]) =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* walk(read), name === "projects" ? [project, ids.otherProject] : keys)
    })
  )
  it.effect.each(Object.entries(descending))("%s are listed once each, the newest first", ([, read]) =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* walk(read), keys.toReversed())
    })
  )
})
