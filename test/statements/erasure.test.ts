/** Each condition in the statements that delete projects and forget people decides alone in one row. */
import { layer } from "@effect/vitest"
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import * as ErasureStore from "../../src/people/erasure/ErasureStore.ts"
import * as PersonStore from "../../src/people/erasure/PersonStore.ts"
import { type Statement, testConditions } from "../support/statements/Conditions.ts"
import {
  disableProject,
  hash,
  id,
  ids,
  later,
  now,
  passkey,
  past,
  phone,
  projects,
  signedIn,
  sqlNow,
  trace
} from "../support/statements/OneOfEach.ts"
import { TestDatabase } from "../support/database/TestDatabase.ts"

const { otherProject, project, projectToken, task } = ids
const elsewhere = (table: string) => `update ${table} set project_id = '${otherProject}'`
const ofTheProject = `where project_id = '${project}'`
const oid = "a".repeat(40)
const pin = (project_id: string, document: string) => `
  insert into pinned_document (
    project_id, document_id, repository, commit, path, mode, blob_oid, title, bootstrap, pinned_at)
  values ('${project_id}', '${document}', 'acme/shop', '${"c".repeat(40)}', 'guide.md', '100644', '${oid}', 'Guide', false,
          ${past})`
const blob = `
  insert into document_blob (blob_oid, sha256, size_bytes, line_count, bytes) values ('${oid}', ${hash("x")}, 1, 1, 'x')`

layer(TestDatabase.sql)("statements that delete projects", (it) => {
  const dropProject = (sql: SqlClient.SqlClient) => Effect.as(ErasureStore.make(sql).dropProject(project, now), [])
  testConditions(it, "the pinned documents of a project go", {
    given: `${projects}; ${pin(project, id(71))}`,
    act: dropProject,
    seen: `select where not exists (select from pinned_document where document_id in ('${id(71)}'))`,
    actsNotOn: { "of another one": elsewhere("pinned_document") }
  })
  testConditions(it, "their texts go", {
    given: `${projects}; ${blob}; ${pin(project, id(71))}`,
    bystander: "",
    act: dropProject,
    seen: "select where not exists (select from document_blob)",
    actsNotOn: {
      "that another project has pinned": pin(otherProject, id(72)),
      "that another project's document has": elsewhere("pinned_document"),
      "of another file": `update document_blob set blob_oid = '${"b".repeat(40)}'`
    }
  })
  testConditions(it, "a Bridge goes", {
    given: `${projects}; insert into bridge_enrollment_credential (
      credential_id, credential_hash, project_id, account_references, created_at, expires_at)
      values ('${ids.credential}', ${hash("credential")}, '${project}', '{github:octo}', ${past}, ${later})`,
    act: dropProject,
    seen: `select where not exists (select from bridge_enrollment_credential where credential_id = '${ids.credential}')`,
    actsNotOn: { "of another project": elsewhere("bridge_enrollment_credential") }
  })

  const batches: Record<
    ErasureStore.Derived,
    { given: string; start: ReadonlyArray<string>; lesser: string; of?: string }
  > = {
    memory_posting: {
      given: `${projects}; insert into memory_posting (project_id, lexeme, entry_id, tf, dl)
                values ('${project}', 'word', '${ids.entry}', 1, 1)`,
      start: ["word", ids.entry],
      lesser: `update memory_posting set lexeme = 'above'`
    },
    memory_embedding: {
      given: `${projects}; insert into memory_embedding (project_id, entry_id, model, number, slot, vector)
                values ('${project}', '${ids.entry}', 'model', 0, 0, '')`,
      start: [ids.entry],
      lesser: `update memory_embedding set entry_id = '${id(0)}'`
    },
    idempotency_record: {
      given: `${projects}; insert into idempotency_record (project_id, tool, idempotency_key, request_hash, created_at)
                values ('${project}', 'task_update', 'k', ${hash("request")}, ${past})`,
      start: ["task_update", "k"],
      lesser: "update idempotency_record set idempotency_key = 'j'"
    },
    push_outbox: {
      given: phone,
      start: [ids.device],
      lesser: `update mobile_device set device_id = '${id(0)}'; update push_outbox set device_id = '${id(0)}'`,
      of: "mobile_device"
    }
  }
  for (const table of ErasureStore.derivedTables) {
    const { given, lesser, of = table, start } = batches[table]
    testConditions(it, `a row of ${table} goes before its project`, {
      given,
      act: (sql) => ErasureStore.make(sql).dropDerived(table, project, start),
      seen: `select where not exists (
        select from ${table} where project_id in ('${project}', '${otherProject}'))`,
      actsNotOn: { "of another project": elsewhere(of), "before the batch": lesser }
    })
  }
  testConditions(it, "a deletion begins", {
    given: `${projects}; ${disableProject}; update project set delete_after = ${later}`,
    act: (sql) => ErasureStore.make(sql).begin(project),
    seen: `select from project ${ofTheProject} and delete_after = disabled_at`,
    actsOn: { "that was not planned": "update project set delete_after = null" },
    actsNotOn: {}
  })

  testConditions(it, "a project is locked for its deletion", {
    given: projects,
    act: (sql) => ErasureStore.make(sql).lockProject(project),
    actsNotOn: { "if it is another one": `delete from project ${ofTheProject}` }
  })

  const disabled = `${projects}; ${disableProject}`
  testConditions(it, "a deletion is scheduled", {
    given: disabled,
    act: (sql) => ErasureStore.make(sql).schedule(project, now, trace, "operator"),
    actsNotOn: {
      "of a project that is not disabled": `update project set disabled_at = null ${ofTheProject}`,
      "of a deleted project": `update project set deleted_at = ${past} ${ofTheProject}`,
      "of another project": `delete from project ${ofTheProject}`
    }
  })
  testConditions(it, "a deletion gets its time", {
    given: disabled,
    act: (sql) => ErasureStore.make(sql).schedule(project, now, trace, "operator"),
    seen: `select from project ${ofTheProject} and delete_after = ${sqlNow}`,
    actsNotOn: { "only once": `update project set delete_after = ${later} ${ofTheProject}` }
  })
  testConditions(it, "a deletion is due", {
    given: `${projects}; update project set delete_after = ${sqlNow}, disabled_at = ${past} ${ofTheProject}`,
    bystander: projects,
    act: (sql) => ErasureStore.make(sql).due(now),
    actsNotOn: {
      "before its time": `update project set delete_after = ${later} ${ofTheProject}`,
      "of a deleted project": `update project set deleted_at = ${past} ${ofTheProject}`
    }
  })
  const limits = (own: string) => `update project set limits = '${own}' ${ofTheProject}`
  testConditions(it, "a project with a retention period is found", {
    given: `${projects}; ${limits('{"memory_days": 30}')}`,
    bystander: projects,
    act: (sql) => ErasureStore.make(sql).retained(id(0)),
    actsOn: { "of receipts": limits('{"receipt_days": 30}') },
    actsNotOn: {
      "without one": limits('{"entries": 30}'),
      "that was found before": `update project set project_id = '${id(0)}' ${ofTheProject}`
    }
  })

  const tombstone = `${projects}; insert into erasure (erasure_id, kind, project_id, target_id, erased_at)
    values ('${id(81)}', 'retention', '${project}', null, ${past})`
  testConditions(it, "a tombstone of an earlier retention goes", {
    given: tombstone,
    bystander: "",
    act: (sql) => ErasureStore.make(sql).dropOldRetention(project, now),
    seen: "select where not exists (select from erasure)",
    actsNotOn: {
      "of another project": elsewhere("erasure"),
      "of something else": "update erasure set kind = 'project'",
      "of that very time": `update erasure set erased_at = ${sqlNow}`
    }
  })
  const found = (target_id: string | null) => ({
    kind: "memory" as const,
    project_id: project,
    target_id,
    memory_before: null,
    receipts_before: null
  })
  testConditions(it, "a tombstone is found", {
    given: `${tombstone}; update erasure set kind = 'memory', target_id = '${ids.entry}'`,
    bystander: "",
    act: (sql) => ErasureStore.make(sql).buried(found(ids.entry)),
    actsNotOn: {
      "of another project": elsewhere("erasure"),
      "of another kind": "update erasure set kind = 'task'",
      "of another entry": `update erasure set target_id = '${id(59)}'`,
      "of no entry": "update erasure set target_id = null"
    }
  })
})

layer(TestDatabase.sql)("statements that forget a person", (it) => {
  const labelled = `${signedIn}; update project_token set label = 'Ada'`
  testConditions(it, "a token is found by its label", {
    given: labelled,
    act: (sql) => PersonStore.make(sql).tokens(project, "Ada"),
    actsNotOn: {
      "of another project": elsewhere("project_token"),
      "with another label": "update project_token set label = 'Ben'"
    }
  })
  const actor = `oauth_grant:${ids.grant}`
  const person = { project_id: project, label: "Ada", tokens: [projectToken, id(10)], actors: [actor] }
  testConditions(it, "a person's row is exported", {
    given: labelled,
    act: (sql) => PersonStore.make(sql).page("project_token", person, id(10), 9),
    actsNotOn: {
      "of another project": elsewhere("project_token"),
      "of another person": `update project_token set token_id = '${id(19)}'`,
      "that an earlier page has": `update project_token set token_id = '${id(10)}'`
    }
  })
  const taskRow = (more: string) => `${labelled};
    insert into task (
      project_id, id, title, body, status, priority, tags, version, created_by, created_at, updated_at)
    values ('${project}', '${task}', 'Task', '', 'open', 2, '{}', 1, 'agent', ${past}, ${past});
    update task set ${more}`
  const receiptRow = (more: string) => `${labelled};
    insert into receipt (
      project_id, id, task_id, session_ref, worker, outcome, summary, next_steps, pitfalls, task_version_after,
      task_status_after, actor, created_at)
    values ('${project}', '${id(54)}', '${task}', 'session', 'me', 'progress', 'Half.', '{}', '{}', 1, 'open', 'agent',
            ${past});
    update receipt set ${more}`

  const otherToken = (table: string) => ({ "of another token": `update ${table} set project_token_id = '${id(19)}'` })
  const otherActor = (table: string) => ({ "of another actor": `update ${table} set actor = 'agent'` })
  /** A row of each other table, and what makes it somebody else's. */
  const others: Record<
    Exclude<PersonStore.Section, "project_token">,
    Pick<Statement, "given" | "actsOn" | "actsNotOn">
  > = {
    oauth_grant: { given: labelled, actsNotOn: otherToken("oauth_grant") },
    person_key: { given: passkey, actsNotOn: otherToken("person_key") },
    console_session: {
      given: `${labelled};
        insert into console_session (
          session_id, secret_hash, project_token_id, project_id, actor, user_agent, created_at, last_used_at, expires_at)
        values ('${id(61)}', ${hash("session")}, '${projectToken}', '${project}', 'agent', '', ${past}, ${past}, ${later})`,
      actsNotOn: otherToken("console_session")
    },
    mobile_device: {
      given: phone,
      actsNotOn: { "of another token": `update mobile_device set subject = '${id(19)}'` }
    },
    memory_entry: {
      given: `${labelled};
        insert into memory_entry (project_id, id, kind, title, body, tags, actor, role, created_at)
        values ('${project}', '${ids.entry}', 'note', 'Entry', 'Entry', '{}', '${actor}', 'contributor', ${past})`,
      actsNotOn: otherActor("memory_entry")
    },
    task: {
      given: taskRow(`created_by = '${actor}'`),
      actsOn: {
        ...Object.fromEntries(
          ["updated_by", "asked_by", "answered_by", "claimed_by"].map((column) => [
            `by ${column}`,
            `update task set created_by = 'agent', ${column} = '${actor}'`
          ])
        ),
        "by assignee": "update task set created_by = 'agent', assignee = 'Ada'"
      },
      actsNotOn: { "of others": "update task set created_by = 'agent', updated_by = 'agent', assignee = 'Ben'" }
    },
    receipt: {
      given: receiptRow(`actor = '${actor}'`),
      actsOn: { "by worker": "update receipt set actor = 'agent', worker = 'Ada'" },
      actsNotOn: otherActor("receipt")
    },
    task_note: {
      given: `${labelled};
        insert into task_note (project_id, id, task_id, text, actor, created_at)
        values ('${project}', '${id(55)}', '${task}', 'Half.', '${actor}', ${past})`,
      actsNotOn: otherActor("task_note")
    },
    audit_event: {
      given: `${labelled};
        alter table audit_event disable trigger user;
        insert into audit_event (event_id, at, project_id, actor, action, outcome, subject, address, user_agent)
        values ('${id(91)}', ${past}, '${project}', '${actor}', 'test', 'done', '{}', '', '')`,
      actsNotOn: otherActor("audit_event")
    }
  }
  for (const [section, { actsNotOn, ...row }] of Object.entries(others)) {
    testConditions(it, `a person's ${section} is exported`, {
      ...row,
      act: (sql) => PersonStore.make(sql).page(section as PersonStore.Section, person, id(10), 9),
      actsNotOn: { "of another project": elsewhere(section), ...actsNotOn }
    })
  }
  testConditions(it, "a grant is found by its token", {
    given: labelled,
    act: (sql) => PersonStore.make(sql).grants([projectToken]),
    actsNotOn: { "of another token": `update oauth_grant set project_token_id = '${id(19)}'` }
  })

  const erase = (sql: SqlClient.SqlClient) =>
    Effect.map(PersonStore.make(sql).eraseToken(project, projectToken, "gone", now), (erased) => (erased ? [1] : []))
  testConditions(it, "a token is erased", {
    given: labelled,
    act: erase,
    actsNotOn: {
      "of another project": elsewhere("project_token"),
      "if it is another one": `update project_token set token_id = '${id(19)}'`
    }
  })
  const labelledPhone = `${phone}; update project_token set label = 'Ada'`
  testConditions(it, "a person's phone goes", {
    given: labelledPhone,
    act: erase,
    seen: `select where not exists (select from mobile_device where device_id = '${ids.device}')`,
    actsNotOn: {
      "of another project": elsewhere("mobile_device"),
      "of another token": `update mobile_device set subject = '${id(19)}'`
    }
  })
  testConditions(it, "a person's passkey goes", {
    given: `${passkey}; update project_token set label = 'Ada'`,
    act: erase,
    seen: `select where not exists (select from person_key where person_key_id = '${ids.personKey}')`,
    actsNotOn: { "of another token": `update person_key set project_token_id = '${id(19)}'` }
  })
  testConditions(it, "a person's registration goes", {
    given: `${labelled}; insert into mobile_registration (
      project_id, subject, key_hash, request_hash, device_id, created, created_at)
      values ('${project}', '${projectToken}', ${hash("key")}, ${hash("request")}, '${id(48)}', true, ${past})`,
    act: erase,
    seen: `select where not exists (select from mobile_registration where device_id = '${id(48)}')`,
    actsNotOn: {
      "of another project": elsewhere("mobile_registration"),
      "of another token": `update mobile_registration set subject = '${id(19)}'`
    }
  })
  testConditions(it, "a person's sign-in ends", {
    given: labelled,
    act: erase,
    seen: `select from oauth_grant where grant_id = '${ids.grant}' and revoked_at = ${sqlNow}`,
    actsNotOn: { "of another token": `update oauth_grant set project_token_id = '${id(19)}'` }
  })
  const remembered = `${labelled};
    insert into idempotency_record (project_id, tool, idempotency_key, request_hash, result, created_at)
    values ('${project}', 'task_update', 'k', ${hash("request")}, '{"id": "${projectToken}", "label": "Ada"}', ${past})`
  testConditions(it, "a remembered result with a person's label goes", {
    given: remembered,
    act: erase,
    seen: "select from idempotency_record where result = ''",
    actsNotOn: {
      "in another project": elsewhere("idempotency_record"),
      "of another token": `update idempotency_record set result = '{"id": "${id(19)}", "label": "Ada"}'`,
      "with another label": `update idempotency_record set result = '{"id": "${projectToken}", "label": "Ben"}'`
    }
  })
  const besides = `
    insert into idempotency_record (project_id, tool, idempotency_key, request_hash, result, created_at)
    select '${project}', tool, key, ${hash("request")}, '{}', ${past}
      from (values ('task_update', 'other'), ('task_create', 'k')) as r (tool, key);
    insert into project_usage (project_id, stored_bytes, index_bytes, entries, tasks)
    values ('${project}', 100, 0, 0, 0)`
  testConditions(it, "a remembered result goes, and no other", {
    given: `${remembered}; ${besides}`,
    bystander: "",
    act: erase,
    seen: `select from idempotency_record where result = '' having count(*) = 1`,
    actsNotOn: {}
  })
  testConditions(it, "the bytes of a remembered result are free", {
    given: `${remembered}; ${besides}`,
    act: erase,
    seen: `select from project_usage where project_id = '${project}' and stored_bytes < 100`,
    actsNotOn: { "of another project": elsewhere("project_usage") }
  })
  for (const member of ["assignee", "worker"]) {
    testConditions(it, `a remembered result with a person as ${member} goes`, {
      given: `${labelled};
        insert into idempotency_record (project_id, tool, idempotency_key, request_hash, result, created_at)
        values ('${project}', 'task_update', 'k', ${hash("request")}, '{"${member}":"Ada"}', ${past})`,
      act: erase,
      seen: "select from idempotency_record where result = ''",
      actsNotOn: {
        "in another project": elsewhere("idempotency_record"),
        "of another person": `update idempotency_record set result = '{"${member}":"Ben"}'`,
        "with the name as something else": `update idempotency_record set result = '{"title":"Ada"}'`
      }
    })
  }
  testConditions(it, "a task's answer loses a person's label", {
    given: taskRow(`answer = '{"text": "Yes.", "by": {"id": "${projectToken}", "label": "Ada"}}'`),
    act: erase,
    seen: `select from task where answer->'by'->>'label' = 'gone'`,
    actsNotOn: {
      "in another project": elsewhere("task"),
      "of another token": `update task set answer = jsonb_set(answer, '{by,id}', '"${id(19)}"')`
    },
    actsOn: {
      "that a passkey of the token gave": `
        update task set answered_by = 'project_token:${projectToken}', answer = jsonb_set(answer, '{by,id}', '"${id(19)}"')`
    }
  })
  testConditions(it, "a task's assignee loses a person's label", {
    given: taskRow("assignee = 'Ada'"),
    act: erase,
    seen: "select from task where assignee = 'gone'",
    actsNotOn: { "in another project": elsewhere("task"), "if it is somebody else": "update task set assignee = 'Ben'" }
  })
  const takeover = (name: string) => `Taken over from ${name}, at work since 2026: gone`
  testConditions(it, "the note of a takeover loses a person's label", {
    given: `${taskRow("priority = 2")};
      insert into task_note (project_id, id, task_id, text, actor, created_at)
      values ('${project}', '${id(55)}', '${task}', '${takeover("Ada")}', 'agent', ${past})`,
    act: erase,
    seen: `select from task_note where text = '${takeover("gone")}'`,
    actsNotOn: {
      "in another project": elsewhere("task_note"),
      "of somebody else": `update task_note set text = '${takeover("Ada Ben")}'`
    }
  })
  testConditions(it, "another note of the project stays as it is", {
    given: `${taskRow("priority = 2")};
      insert into task_note (project_id, id, task_id, text, actor, created_at)
      values ('${project}', '${id(55)}', '${task}', '${takeover("Ada Ben")}', 'agent', ${past})`,
    act: erase,
    seen: `select from task_note where id = '${id(55)}' and text = '${takeover("Ada Ben")}'`,
    actsNotOn: {}
  })
  testConditions(it, "a receipt's worker loses a person's label", {
    given: receiptRow("worker = 'Ada'"),
    act: erase,
    seen: "select from receipt where worker = 'gone'",
    actsNotOn: {
      "in another project": elsewhere("receipt"),
      "if it is somebody else": "update receipt set worker = 'Ben'"
    }
  })
})
