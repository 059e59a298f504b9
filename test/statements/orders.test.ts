/** Lists that have no pages, and the one row of several that is chosen: in their order, also where sort keys are equal. */
import { assert, layer } from "@effect/vitest"
import { Effect, Option } from "effect"
import { SqlClient } from "effect/sql"
import * as DocumentStore from "../../src/agents/documents/DocumentStore.ts"
import * as SubjectStore from "../../src/people/console/activity/SubjectStore.ts"
import * as ContentsStore from "../../src/people/operator/ContentsStore.ts"
import * as PushAdminStore from "../../src/push/admin/PushAdminStore.ts"
import * as WebPushKeyStore from "../../src/push/tokens/WebPushKeyStore.ts"
import { hash, id, ids, past, projects, sqlNow } from "../support/statements/OneOfEach.ts"
import { TestDatabase } from "../support/database/TestDatabase.ts"

const { otherProject, project, task } = ids
const [a, b, c] = [id(901), id(902), id(903)]

const key = (key_id: string, created_at: string, replaced_at = created_at) => `
  insert into web_push_key (web_push_key_id, public_key, salt, token_key_id, created_at, replaced_at)
  values ('${key_id}', ${hash(key_id)} || ${hash(key_id)} || '\\x04', ${hash("salt")}, 'k', ${created_at}, ${replaced_at})`

const pause = (provider: string, environment: string, failures = 1) => `
  insert into push_provider_state (provider, environment, failures) values ('${provider}', '${environment}', ${failures})`

const taskIn = (project_id: string) => `
  insert into task (project_id, id, title, body, status, priority, tags, version, created_by, created_at, updated_at)
  values ('${project_id}', '${task}', 'Task', '', 'open', 2, '{}', 1, 'agent', ${past}, ${past})`

const oid = "0".repeat(40)
const blob = `
  insert into document_blob (blob_oid, sha256, size_bytes, line_count, bytes)
  values ('${oid}', ${hash("document")}, 1, 1, 'x')`
const document = (document_id: string, bootstrap: boolean, pinned_at: string) => `
  insert into pinned_document (
    project_id, document_id, repository, commit, path, mode, blob_oid, title, bootstrap, pinned_at)
  values ('${project}', '${document_id}', 'acme/shop', '${oid}', '${document_id}', '100644', '${oid}', 'T', ${bootstrap},
          ${pinned_at})`

const namesakes = Array.from({ length: 7 }, (_, at) => id(920 - at))

type Ids = (sql: SqlClient.SqlClient) => Effect.Effect<ReadonlyArray<string>, unknown>
const orders: ReadonlyArray<
  readonly [what: string, given: ReadonlyArray<string>, found: Ids, expected: ReadonlyArray<string>]
> = [
  [
    "the keys of web push, the newest first",
    [key(b, sqlNow), key(a, past), key(c, sqlNow, "null")],
    (sql) => Effect.map(WebPushKeyStore.make(sql).list, (keys) => keys.map(({ web_push_key_id }) => web_push_key_id)),
    [c, b, a]
  ],
  [
    "the environments that fail, by name",
    [
      pause("webpush", "web"),
      pause("apns", "production"),
      pause("channel", "channel"),
      pause("apns", "development", 0)
    ],
    (sql) => Effect.map(PushAdminStore.make(sql).pauses, (pauses) => pauses.map(({ environment }) => environment)),
    ["channel", "production", "web"]
  ],
  [
    "of two projects with a task of one id the newer",
    [taskIn(project), taskIn(otherProject)],
    (sql) =>
      Effect.map(SubjectStore.make(sql).find(task, undefined), (found) =>
        Option.toArray(found).map(({ project_id }) => project_id)
      ),
    [otherProject]
  ],
  [
    "the first six projects of a name, by id",
    namesakes.map(
      (project_id) => `insert into project (project_id, name, created_at) values ('${project_id}', 'Shop', ${past})`
    ),
    (sql) => Effect.map(ContentsStore.make(sql).projects("Shop", undefined), (found) => found.map(({ id }) => id)),
    namesakes.toReversed().slice(0, 6)
  ],
  [
    "the documents to start with, then the others as they were pinned",
    [
      blob,
      document(c, false, past),
      document(b, true, sqlNow),
      document(a, false, past),
      document(id(900), false, sqlNow)
    ],
    (sql) =>
      Effect.map(DocumentStore.make(sql).first(project, 4), (found) => found.map(({ document_id }) => document_id)),
    [b, a, c, id(900)]
  ]
]

layer(TestDatabase.sql)("in their order are", (it) => {
  for (const [what, given, found, expected] of orders) {
    it.effect(what, () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const undone = Effect.gen(function* () {
          for (const statement of [...projects.split(";"), ...given]) yield* sql.unsafe(statement).unprepared
          return yield* Effect.fail(yield* found(sql))
        })
        assert.deepStrictEqual(yield* Effect.flip(sql.withTransaction(undone)), expected)
      })
    )
  }
})
