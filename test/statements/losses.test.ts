/** What a command that nothing undoes would end: each row is found and each thing counted by conditions that decide alone. */
import { layer } from "@effect/vitest"
import { Effect, Option } from "effect"
import type { SqlClient } from "effect/sql"
import * as Store from "../../src/people/operator/LossesStore.ts"
import { testConditions } from "../support/statements/Conditions.ts"
import {
  claim,
  challenged,
  consume,
  credential,
  endDevice,
  endGrant,
  endToken,
  enrolled,
  grantAccess,
  hash,
  id,
  ids,
  later,
  lease,
  now,
  passkey,
  past,
  pendingIdentity,
  phone,
  projects,
  signedIn,
  sqlNow
} from "../support/statements/OneOfEach.ts"
import { TestDatabase } from "../support/database/TestDatabase.ts"

const { entry, otherProject, project, task } = ids
const waiting = id(53)
const elsewhere = (table: string) => `update ${table} set project_id = '${otherProject}'`

const taskRow = (task_id: string) => `
  insert into task (project_id, id, title, body, status, priority, tags, version, created_by, created_at, updated_at)
  values ('${project}', '${task_id}', 'Task', '', 'open', 2, '{}', 1, 'agent', ${past}, ${past})`
/** A task with a receipt and a note, for which another one waits. */
const tasks = `${projects}; ${taskRow(task)}; ${taskRow(waiting)};
  insert into task_dependency (project_id, task_id, depends_on) values ('${project}', '${waiting}', '${task}');
  insert into task_note (project_id, id, task_id, text, actor, created_at)
  values ('${project}', '${id(58)}', '${task}', 'Half.', 'agent', ${past});
  insert into receipt (
    project_id, id, task_id, session_ref, worker, outcome, summary, next_steps, pitfalls, task_version_after,
    task_status_after, actor, created_at)
  values ('${project}', '${id(54)}', '${task}', 'session', 'me', 'progress', 'Half.', '{}', '{}', 1, 'open', 'agent',
          ${past})`
const memory = `${projects};
  insert into memory_entry (project_id, id, kind, title, body, tags, actor, role, created_at)
  values ('${project}', '${entry}', 'note', 'word', 'word', '{}', 'agent', 'contributor', ${past})`
const document = `${projects};
  insert into pinned_document (
    project_id, document_id, repository, commit, path, mode, title, blob_oid, bootstrap, pinned_at)
  values ('${project}', '${id(61)}', 'acme/shop', '${"b".repeat(40)}', 'a.md', '100644', 'A', '${"a".repeat(40)}', false, ${past})`
const session = `${phone};
  insert into console_session (session_id, secret_hash, project_token_id, project_id, actor, user_agent, created_at,
                               last_used_at, expires_at)
  values ('${id(71)}', ${hash("session")}, '${ids.projectToken}', '${project}', 'a', 'b', ${past}, ${past}, ${later})`
const operatorToken = `
  insert into operator_token (token_id, token_hash, label, scopes, created_at, expires_at)
  values ('${id(81)}', ${hash("operator")}, 'Ada', '{operator:read}', ${past}, ${later})`
const reference = `${credential};
  insert into approved_account_reference (project_id, reference, approved_at)
  values ('${project}', 'github:octo', ${past})`

type Statements = ReturnType<typeof Store.make>
type Act = (store: Statements) => ReturnType<Statements["bridge"]>

layer(TestDatabase.sql)("what a command would end", (it) => {
  const shown = (name: string, given: string, act: Act, another: Readonly<Record<string, string>>) =>
    testConditions(it, `${name} is shown`, { given, act: (sql) => act(Store.make(sql)), actsNotOn: another })
  /** The column `what` counts one thing, and after each change none. */
  const counts = (what: string, given: string, act: Act, not: Readonly<Record<string, string>>, otherwise = "") =>
    testConditions(it, `${what} of ${otherwise || "the row"} are counted`, {
      given,
      act: (sql: SqlClient.SqlClient) =>
        Effect.map(
          act(Store.make(sql)),
          Option.filter((row) => row[what] === 1)
        ),
      actsNotOn: not
    })

  const ofBridge: Act = ({ bridge }) => bridge(project, "bridge-1")
  shown("a Bridge", enrolled, ofBridge, {
    "in another project": elsewhere("bridge_identity"),
    "if it is another one": "update bridge_identity set bridge_id = 'bridge-2'"
  })
  counts("tokens", enrolled, ofBridge, {
    "one that has ended": endToken(ids.token),
    "that of another Bridge": `update bridge_token set identity_id = '${id(29)}'`
  })

  shown("access of a Bridge", `${enrolled}; ${grantAccess}`, ({ bridgeAccess }) => bridgeAccess(project, "bridge-1"), {
    "in another project": elsewhere("bridge_identity"),
    "of another one": "update bridge_identity set bridge_id = 'bridge-2'",
    "if it has none": "update bridge_identity set access_role = null, access_granted_at = null"
  })

  shown("a credential", credential, ({ credential }) => credential(ids.credential), {
    "if it is another one": `update bridge_enrollment_credential set credential_id = '${id(29)}'`
  })

  const ofReference: Act = ({ reference }) => reference(project, "github:octo")
  shown("an account reference", reference, ofReference, {
    "in another project": elsewhere("approved_account_reference"),
    "if it is another one": "update approved_account_reference set reference = 'github:cat'"
  })
  counts("unused_credentials", reference, ofReference, {
    "one of another project": elsewhere("bridge_enrollment_credential"),
    "one of another reference": "update bridge_enrollment_credential set account_references = '{github:cat}'",
    "a revoked one": `update bridge_enrollment_credential set revoked_at = ${past}`,
    "one that a proof has used": `${challenged.replace(`${credential};`, "")}; ${consume}`
  })
  counts("unused_credentials", `${reference}; ${claim}; ${pendingIdentity}`, ofReference, {}, "a claimed one")

  const ofToken: Act = ({ projectToken }) => projectToken(ids.projectToken)
  shown("a project token", phone, ofToken, {
    "if it is another one": `update project_token set token_id = '${id(19)}'`
  })
  counts("sign_ins", phone, ofToken, {
    "one that has ended": endGrant,
    "one that no client came for": "update oauth_grant set activated_at = null",
    "one of another token": `update oauth_grant set project_token_id = '${id(19)}'`
  })
  counts("console_sessions", session, ofToken, {
    "one that has ended": `update console_session set ended_at = ${past}`,
    "one of another token": `update console_session set project_token_id = '${id(19)}'`
  })

  counts("passkeys", passkey, ofToken, {
    "a removed one": `update person_key set removed_at = ${past}`,
    "one of another token": `update person_key set project_token_id = '${id(19)}'`
  })

  const ofPasskey: Act = ({ personKey }) => personKey(ids.personKey)
  const byPasskey = `${session}; ${passkey.slice(signedIn.length + 1)}; update console_session set person_key_id = '${ids.personKey}'`
  shown("a passkey", passkey, ofPasskey, {
    "if it is another one": `update person_key set person_key_id = '${id(89)}'`
  })
  counts("console_sessions", byPasskey, ofPasskey, {
    "one that has ended": `update console_session set ended_at = ${past}`,
    "one of another token": `update console_session set project_token_id = '${id(19)}'`,
    "one by the token itself": "update console_session set person_key_id = null"
  })

  const ofGrant: Act = ({ grant }) => grant(ids.grant)
  shown("a sign-in", phone, ofGrant, { "if it is another one": `update oauth_grant set grant_id = '${id(39)}'` })
  counts("devices", phone, ofGrant, {
    "one that has ended": endDevice("revoked"),
    "one of another sign-in": `update mobile_device set grant_id = '${id(39)}'`
  })

  // The bystander has the same client.
  testConditions(it, "an OAuth client counts its sign-ins", {
    given: phone,
    bystander: "",
    act: (sql) =>
      Effect.map(
        Store.make(sql).client("client"),
        Option.filter(({ sign_ins }) => sign_ins === 1)
      ),
    actsNotOn: { "one that has ended": endGrant, "one of another": "update oauth_grant set client_id = 'other'" }
  })
  testConditions(it, "an OAuth client is named", {
    given: phone,
    bystander: "",
    act: (sql) =>
      Effect.map(
        Store.make(sql).client("client"),
        Option.filter(({ name }) => name === "Client")
      ),
    actsNotOn: { "if it is another one": "update oauth_client set client_id = 'other'" }
  })

  const ofDevice: Act = ({ device }) => device(ids.device)
  shown("a device", phone, ofDevice, { "if it is another one": `update mobile_device set device_id = '${id(49)}'` })
  counts("notifications", phone, ofDevice, {
    "one that was sent": `update push_outbox set state = 'delivered', settled_at = ${past}`,
    "one of another device": `update push_outbox set device_id = '${id(49)}'`
  })
  counts("notifications", `${phone}; ${lease(later)}`, ofDevice, {}, "a device, one of which is being sent,")

  testConditions(it, "an operator token is shown", {
    given: operatorToken,
    bystander: "",
    act: (sql) => Store.make(sql).operatorToken(id(81)),
    actsNotOn: { "if it is another one": `update operator_token set token_id = '${id(82)}'` }
  })

  shown("an entry", memory, ({ memory }) => memory(project, entry), {
    "in another project": elsewhere("memory_entry"),
    "if it is another one": `update memory_entry set id = '${id(59)}'`
  })
  const ofTask: Act = ({ task }) => task(project, ids.task)
  shown("a task", tasks, ofTask, {
    "in another project": elsewhere("task"),
    "if it is another one": `update task set id = '${id(59)}' where id = '${task}'`
  })
  for (const [what, table, column] of [
    ["receipts", "receipt", "task_id"],
    ["notes", "task_note", "task_id"],
    ["tasks_that_wait", "task_dependency", "depends_on"]
  ] as const)
    counts(what, tasks, ofTask, {
      "in another project": elsewhere(table),
      "of another task": `update ${table} set ${column} = '${id(59)}'`
    })
  shown("a document", document, ({ document }) => document(project, id(61)), {
    "in another project": elsewhere("pinned_document"),
    "if it is another one": `update pinned_document set document_id = '${id(62)}'`
  })

  const ofProject: Act = ({ project }) => project(ids.project)
  const deleted = { "that is deleted": `update project set deleted_at = ${past} where project_id = '${project}'` }
  const gone = { "if it is another one": `delete from project where project_id = '${project}'` }
  shown("a project", projects, ofProject, { ...deleted, ...gone })
  for (const [what, given, table] of [
    ["bridges", enrolled, "bridge_identity"],
    ["project_tokens", phone, "project_token"],
    ["sign_ins", phone, "oauth_grant"],
    ["devices", phone, "mobile_device"],
    ["entries", memory, "memory_entry"],
    ["receipts", tasks, "receipt"],
    ["documents", document, "pinned_document"]
  ] as const)
    counts(what, given, ofProject, { "in another project": elsewhere(table) }, "a project")
  counts("tasks", `${projects}; ${taskRow(task)}`, ofProject, { "in another project": elsewhere("task") }, "a project")

  const named = `update project_token set label = 'Ada'`
  const ofSubject: Act = ({ subject }) => subject(project, "Ada")
  const notTheirs = { "in another project": elsewhere("project_token") }
  shown("a person", `${session}; ${named}`, ofSubject, {
    ...notTheirs,
    "if it is another one": "update project_token set label = 'Bob'"
  })
  counts("tokens", `${phone}; ${named}`, ofSubject, notTheirs, "a person")
  for (const [what, table, column] of [
    ["sign_ins", "oauth_grant", "project_token_id"],
    ["devices", "mobile_device", "subject"],
    ["console_sessions", "console_session", "project_token_id"],
    ["passkeys", "person_key", "project_token_id"]
  ] as const)
    counts(
      what,
      `${session}; ${passkey.slice(signedIn.length + 1)}; ${named}`,
      ofSubject,
      { "of another token": `update ${table} set ${column} = '${id(19)}'` },
      "a person"
    )

  const before = { memory_before: now, receipts_before: now }
  const ofRetention: Act = ({ retention }) => retention(project, before)
  shown("a project with periods", projects, ofRetention, { ...deleted, ...gone })
  for (const [what, given, table] of [
    ["entries", memory, "memory_entry"],
    ["receipts", tasks, "receipt"]
  ] as const)
    counts(
      what,
      given,
      ofRetention,
      { "in another project": elsewhere(table), "a young one": `update ${table} set created_at = ${sqlNow}` },
      "a period"
    )
  testConditions(it, "nothing is counted without a period", {
    given: memory,
    act: (sql) =>
      Effect.map(
        Store.make(sql).retention(project, { memory_before: null, receipts_before: null }),
        Option.filter(({ entries, receipts }) => entries === 0 && receipts === 0)
      ),
    actsNotOn: gone
  })
})
