/** Each condition in the statements for operators decides alone in one row: projects, audit log, status and metrics. */
import { PgClient } from "@effect/sql-pg"
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { isDeepStrictEqual } from "node:util"
import * as LimitStore from "../../src/operator/limits/LimitStore.ts"
import * as OperatorTokenStore from "../../src/operator/tokens/OperatorTokenStore.ts"
import { sweeps } from "../../src/operator/tokens/Sweeps.ts"
import { storedMaxima } from "../../src/operator/limits/LimitNames.ts"
import { sha256 } from "../../src/platform/crypto/Sha256.ts"
import * as ProjectStore from "../../src/operator/projects/ProjectStore.ts"
import * as ContentsStore from "../../src/people/operator/ContentsStore.ts"
import * as GaugesStore from "../../src/people/operator/GaugesStore.ts"
import * as OverviewStore from "../../src/people/operator/OverviewStore.ts"
import * as AuditStore from "../../src/platform/audit/AuditStore.ts"
import * as PartitionStore from "../../src/platform/audit/PartitionStore.ts"
import { type Statement, sweepOf, testConditions } from "../support/statements/Conditions.ts"
import {
  activeToken,
  claim,
  consume,
  credential,
  disableProject,
  endDevice,
  endGrant,
  endToken,
  enrolled,
  expireRotation,
  hash,
  id,
  ids,
  later,
  lease,
  longAgo,
  now,
  openChallenge,
  past,
  pendingIdentity,
  phone,
  projects,
  revokeIdentity,
  rotating,
  signedIn,
  sqlNow,
  thirtyDays
} from "../support/statements/OneOfEach.ts"
import { TestDatabase } from "../support/database/TestDatabase.ts"

const page = { after: undefined, limit: 9 }
const nearly = new Date(now.getTime() + 3_600_000)
const since = new Date(now.getTime() - 3_600_000)

layer(TestDatabase.sql)("statements of projects", (it) => {
  const reference = `${projects};
    insert into approved_account_reference (project_id, reference, label, approved_at)
    values ('${ids.project}', 'github:octo', 'Octo', ${past})`
  const elsewhere = `update approved_account_reference set project_id = '${ids.otherProject}'`
  const another = "update approved_account_reference set reference = 'github:cat'"
  testConditions(it, "a reference is found", {
    given: reference,
    act: (sql) => ProjectStore.make(sql).findReference(ids.project, "github:octo"),
    actsNotOn: { "in another project": elsewhere, "if it is another one": another }
  })
  testConditions(it, "a reference is listed", {
    given: reference,
    act: (sql) => ProjectStore.make(sql).listReferences(ids.project, page),
    actsNotOn: { "in another project": elsewhere }
  })
  testConditions(it, "a reference is withdrawn", {
    given: reference,
    act: (sql) => ProjectStore.make(sql).withdraw(ids.project, "github:octo", now),
    actsNotOn: { "in another project": elsewhere, "if it is another one": another }
  })
  testConditions(it, "a withdrawal leaves the project's other references", {
    given: `${reference};
      insert into approved_account_reference (project_id, reference, approved_at)
      values ('${ids.project}', 'github:cat', ${past})`,
    act: (sql) => ProjectStore.make(sql).withdraw(ids.project, "github:octo", now),
    seen: "select from approved_account_reference where reference = 'github:cat' and withdrawn_at is null",
    actsNotOn: {}
  })
  testConditions(it, "an approval changes a reference", {
    given: reference,
    act: (sql) => ProjectStore.make(sql).approve(ids.project, "github:octo", "New label", now),
    actsOn: {
      "that is new": another,
      "of another project": elsewhere,
      "that was withdrawn": `update approved_account_reference set label = 'New label', withdrawn_at = ${past}`
    },
    actsNotOn: { "with the same label": "update approved_account_reference set label = 'New label'" }
  })
  testConditions(it, "an approval keeps its time when its label changes", {
    given: reference,
    act: (sql) => ProjectStore.make(sql).approve(ids.project, "github:octo", "New label", now),
    seen: `select from approved_account_reference where project_id = '${ids.project}' and approved_at = ${past}`,
    actsNotOn: { "after a withdrawal": `update approved_account_reference set withdrawn_at = ${past}` }
  })
  const consumed = `${claim}; ${pendingIdentity}; ${openChallenge}; ${activeToken}; ${consume}`
  testConditions(it, "a withdrawal finds a credential", {
    given: credential,
    act: (sql) => ProjectStore.make(sql).lockUnproved(ids.project, "github:octo"),
    actsOn: { "that a Bridge has claimed": `${claim}; ${pendingIdentity}; ${openChallenge}` },
    actsNotOn: {
      "in another project": `update bridge_enrollment_credential set project_id = '${ids.otherProject}'`,
      "of another reference": "update bridge_enrollment_credential set account_references = '{github:cat}'",
      "that a proof has used": consumed,
      "that is revoked": `update bridge_enrollment_credential set revoked_at = ${past}`
    }
  })
  testConditions(it, "a withdrawal revokes a credential", {
    given: credential,
    act: (sql) => ProjectStore.make(sql).revokeUnproved([ids.credential], now),
    actsNotOn: {
      "if it is another one": `update bridge_enrollment_credential set credential_id = '${id(29)}'`,
      "that a proof has used": consumed
    }
  })
  const anotherProject = { "if it is another one": `delete from project where project_id = '${ids.project}'` }
  testConditions(it, "a project is found", {
    given: projects,
    act: (sql) => ProjectStore.make(sql).find(ids.project),
    actsNotOn: anotherProject
  })
  const deleted = { "that is deleted": `update project set deleted_at = ${past} where project_id = '${ids.project}'` }
  const shown = (seen: string): Statement => ({
    given: phone,
    act: (sql) =>
      Effect.map(ContentsStore.make(sql).project(ids.project), (found) =>
        Option.filter(found, (row) => row[seen as "bridges"] === 1)
      ),
    actsNotOn: {}
  })
  testConditions(it, "a project is shown", {
    given: projects,
    act: (sql) => ContentsStore.make(sql).project(ids.project),
    actsNotOn: { ...anotherProject, ...deleted }
  })
  testConditions(it, "a Bridge counts", {
    ...shown("bridges"),
    given: enrolled,
    actsNotOn: {
      "unless it is revoked": revokeIdentity,
      "of another project": `update bridge_identity set project_id = '${ids.otherProject}'`
    }
  })
  testConditions(it, "a sign-in counts", {
    ...shown("agents"),
    actsNotOn: {
      "unless it has ended": endGrant,
      "once a client has come for it": "update oauth_grant set activated_at = null",
      "of another project": `update project_token set project_id = '${ids.otherProject}'`,
      "of another project token": `update oauth_grant set project_token_id = '${id(19)}'`
    }
  })
  testConditions(it, "a project token counts", {
    ...shown("project_tokens"),
    actsNotOn: {
      "unless it is revoked": `update project_token set revoked_at = ${past}`,
      "of another project": `update project_token set project_id = '${ids.otherProject}'`
    }
  })
  testConditions(it, "a phone counts", {
    ...shown("devices"),
    actsNotOn: {
      "unless it has ended": endDevice("revoked"),
      "of another project": `update mobile_device set project_id = '${ids.otherProject}'`
    }
  })
  const taskOf = `${projects};
    insert into task (project_id, id, title, body, status, priority, tags, version, created_by, created_at, updated_at)
    values ('${ids.project}', '${ids.task}', 'Task', '', 'open', 2, '{}', 1, 'agent', ${past}, ${past})`
  testConditions(it, "a task counts", {
    ...shown("tasks_unfinished"),
    given: taskOf,
    actsNotOn: {
      "after its end": `update task set status = 'done', closed_at = ${past}`,
      "of another project": `update task set project_id = '${ids.otherProject}'`
    }
  })
  testConditions(it, "a pinned document counts", {
    ...shown("documents"),
    given: `${projects};
      insert into pinned_document (
        project_id, document_id, repository, commit, path, mode, title, blob_oid, bootstrap, pinned_at)
      values ('${ids.project}', '${id(61)}', 'acme/shop', '${"b".repeat(40)}', 'a.md', '100644', 'A',
              '${"a".repeat(40)}', false, ${past})`,
    actsNotOn: { "of another project": `update pinned_document set project_id = '${ids.otherProject}'` }
  })
  const used = `${projects};
    insert into project_usage (project_id, stored_bytes, index_bytes, entries, tasks)
    values ('${ids.project}', 2, 2, 1, 2)`
  testConditions(it, "an entry counts", {
    ...shown("entries"),
    given: used,
    actsNotOn: { "of another project": `update project_usage set project_id = '${ids.otherProject}'` }
  })
  testConditions(it, "a project is found by its name", {
    given: projects,
    bystander: "",
    act: (sql) => ContentsStore.make(sql).projects("Project", undefined),
    actsNotOn: { ...deleted, "if it has another one": "update project set name = 'Another'" }
  })
  testConditions(it, "a project is found by the beginning of its id", {
    given: projects,
    act: (sql) => ContentsStore.make(sql).projects("Nothing", { from: ids.project, to: ids.project }),
    actsNotOn: { ...anotherProject, ...deleted }
  })
  testConditions(it, "a phone is found by the beginning of its id", {
    given: phone,
    act: (sql) => ContentsStore.make(sql).ids("device", { from: ids.device, to: ids.device }, undefined),
    actsNotOn: { "if it is another one": `update mobile_device set device_id = '${id(48)}'` }
  })
  testConditions(it, "a project is listed", {
    given: projects,
    bystander: "",
    act: (sql) =>
      Effect.map(ProjectStore.make(sql).list(page), (all) => all.filter((one) => one.project_id === ids.project)),
    actsNotOn: { ...anotherProject, ...deleted }
  })
  testConditions(it, "a project is disabled", {
    given: projects,
    act: (sql) => ProjectStore.make(sql).setDisabled(ids.project, now),
    actsNotOn: { ...anotherProject, ...deleted }
  })
  const ending = `${projects}; ${disableProject}; update project set delete_after = ${later}`
  testConditions(it, "an enabled project is not deleted any more", {
    given: ending,
    act: (sql) => ProjectStore.make(sql).setDisabled(ids.project, null),
    seen: `select from project where project_id = '${ids.project}' and disabled_at is null and delete_after is null`,
    actsNotOn: deleted
  })
  testConditions(it, "a deletion that has begun is not called off", {
    given: `${projects}; ${disableProject}; update project set delete_after = disabled_at`,
    act: (sql) =>
      Effect.map(
        ProjectStore.make(sql).setDisabled(ids.project, null),
        Option.filter(({ begun }) => begun)
      ),
    actsNotOn: {
      "before it has begun": `update project set delete_after = ${later}`,
      "that was not planned": "update project set delete_after = null"
    }
  })
  testConditions(it, "a project that is disabled again keeps its times", {
    given: ending,
    act: (sql) => ProjectStore.make(sql).setDisabled(ids.project, now),
    seen: `
      select from project
       where project_id = '${ids.project}' and disabled_at = ${past} and delete_after = ${later}`,
    actsNotOn: {}
  })
  testConditions(it, "the limits of a project are found", {
    given: projects,
    act: (sql) => LimitStore.make(sql).find(ids.project, now),
    actsNotOn: { ...anotherProject, ...deleted }
  })
  testConditions(it, "what a project uses is found", {
    given: `${projects};
      insert into project_usage (project_id, stored_bytes, index_bytes, entries, tasks)
      values ('${ids.project}', 1, 1, 1, 1)`,
    act: (sql) =>
      Effect.map(
        LimitStore.make(sql).find(ids.project, now),
        Option.filter(({ tasks }) => tasks === 1)
      ),
    actsNotOn: { "if it is another's": `update project_usage set project_id = '${ids.otherProject}'` }
  })
  testConditions(it, "an open channel counts", {
    given: `${phone};
      update mobile_device
         set provider = 'ntfy', environment = 'channel', subject = null, client_id = null, grant_id = null`,
    act: (sql) =>
      Effect.map(
        LimitStore.make(sql).find(ids.project, now),
        Option.filter(({ channels }) => channels === 1)
      ),
    actsNotOn: {
      "of another project": `update mobile_device set project_id = '${ids.otherProject}'`,
      "after its end": endDevice("revoked"),
      "if it is a phone": `
        update mobile_device
           set provider = 'apns', environment = 'production', subject = '${ids.projectToken}', client_id = 'client',
               grant_id = '${ids.grant}'`
    }
  })
  testConditions(it, "the limits of a project are set", {
    given: projects,
    act: (sql) => LimitStore.make(sql).set(ids.project, '{"tasks": 1}'),
    actsNotOn: { ...anotherProject, ...deleted }
  })
})

layer(TestDatabase.sql)("statements of the audit log", (it) => {
  // Nobody may change an audit row; here one row stands for another.
  const event = (outcome: string) => `${projects};
    alter table audit_event disable trigger user;
    insert into audit_event (event_id, at, project_id, actor, action, outcome, code, subject, address, user_agent)
    values ('${id(91)}', ${past}, '${ids.project}', 'operator', 'test', '${outcome}',
            ${outcome === "done" ? "null" : "'code'"}, '{}', '', '')`
  testConditions(it, "an event of a project is listed", {
    given: event("done"),
    act: (sql) => AuditStore.make(sql).list(ids.project, page),
    actsNotOn: { "in another project": `update audit_event set project_id = '${ids.otherProject}'` }
  })
  testConditions(it, "an event is listed that an earlier page does not have", {
    given: `${event("done")};
      insert into audit_event
      select (jsonb_populate_record(e, '{"event_id": "${id(92)}"}')).* from audit_event e where event_id = '${id(91)}'`,
    bystander: "",
    act: (sql) => AuditStore.make(sql).list(ids.project, { after: id(92), limit: 9 }),
    actsOn: {
      "that is older": `update audit_event set at = ${longAgo}, event_id = '${id(93)}' where event_id = '${id(91)}'`
    },
    actsNotOn: {
      "of the same time": `update audit_event set event_id = '${id(93)}' where event_id = '${id(91)}'`,
      "that is newer": `update audit_event set at = ${sqlNow} where event_id = '${id(91)}'`,
      "if the last event of that page is another project's": `
        update audit_event set project_id = '${ids.otherProject}' where event_id = '${id(92)}'`,
      "if there is no such page": `delete from audit_event where event_id = '${id(92)}'`
    }
  })
  testConditions(it, "a refusal of a time is listed", {
    given: event("refused"),
    act: (sql) => AuditStore.make(sql).list(ids.project, page, { refused: true, from: since, until: now }),
    actsNotOn: {
      "that is older": `update audit_event set at = ${past} - interval '1 ms'`,
      "that is of the end of that time": `update audit_event set at = ${sqlNow}`,
      "that was none": "update audit_event set outcome = 'done', code = null"
    }
  })
  const about = (key: string, value: string) => `update audit_event set subject = '{"${key}": "${value}"}'`
  const beside = (first: string, key: string) => `update audit_event set subject = '{"${first}": "y", "${key}": "x"}'`
  for (const [which, filter] of [
    ["", {}],
    [" among those of its kind", { actions: ["test", "other"] }]
  ] as const) {
    testConditions(it, `an event is found by what it is about${which}`, {
      given: `${event("done")}; ${about("task_id", "x")}`,
      act: (sql) => AuditStore.make(sql).list(ids.project, page, { ...filter, about: "x" }),
      actsOn: {
        ...Object.fromEntries(
          "entry_id bridge_id grant_id project_token_id credential_id device_id document_id client_id session_id reference"
            .split(" ")
            .map((key) => [`by its ${key}`, about(key, "x")])
        ),
        "by its channel_id": about("channel_id", "x"),
        "by the credential with which a Bridge enrolled": beside("bridge_id", "credential_id"),
        "by the passkey that opened a session": beside("session_id", "person_key_id"),
        "by who did it": `${about("task_id", "y")}; update audit_event set actor = 'bridge:x'`
      },
      actsNotOn: {
        "by the id of another": about("task_id", "y"),
        "in another project": `update audit_event set project_id = '${ids.otherProject}'`
      }
    })
  }
  testConditions(it, "an event of a kind is listed", {
    given: event("done"),
    act: (sql) => AuditStore.make(sql).list(ids.project, page, { actions: ["test", "other"] }),
    actsOn: { "that is the second of those asked for": "update audit_event set action = 'other'" },
    actsNotOn: {
      "of another kind": "update audit_event set action = 'third'",
      "in another project": `update audit_event set project_id = '${ids.otherProject}'`
    }
  })

  const mayNot = "revoke all on audit_event, audit_link, audit_chain from rewriting"
  testConditions(it, "an account may rewrite the log", {
    given: "create role rewriting; grant update on audit_event to rewriting",
    bystander: "",
    act: (sql) => Effect.map(PartitionStore.make(sql).mayRewrite("rewriting"), (may) => (may ? [may] : [])),
    actsOn: Object.fromEntries(
      ["audit_event", "audit_link", "audit_chain"].flatMap((table) =>
        ["update", "delete"].map((right) => [
          `with the right to ${right} in ${table}`,
          `${mayNot}; grant ${right} on ${table} to rewriting`
        ])
      )
    ),
    actsNotOn: { "that may add and read": `${mayNot}; grant insert, select on audit_event to rewriting` }
  })
  testConditions(it, "the account of the connection may rewrite the log", {
    given: "",
    act: (sql) => Effect.map(PartitionStore.make(sql).mayRewrite(""), (may) => (may ? [may] : [])),
    actsNotOn: {}
  })
  testConditions(it, "a refusal is shown in the status", {
    given: event("refused"),
    bystander: "",
    act: (sql) => OverviewStore.make(sql).refused(since),
    actsNotOn: {
      "that is older": `update audit_event set at = ${past} - interval '1 ms'`,
      "that was none": "update audit_event set outcome = 'done', code = null"
    }
  })
  testConditions(it, "a refusal is shown in the status with its repeats", {
    given: `${event("refused")};
      insert into audit_refusal_count (refusal_key, event_id, at, count) values ('key', '${id(91)}', ${past}, 3)`,
    bystander: "",
    act: (sql) =>
      Effect.map(OverviewStore.make(sql).refused(since), (found) => found.filter(({ times }) => times === 3)),
    actsNotOn: { "of another": `update audit_refusal_count set event_id = '${id(92)}'` }
  })
})

/** Number -> rows of which it counts one, or the seconds that it `is`, and changes after which it counts none. */
type Numbers = Readonly<
  Record<string, { readonly given: string; readonly is?: number; readonly actsNotOn: Readonly<Record<string, string>> }>
>

const tokenEnds = {
  "of an ended token": endToken(ids.token),
  "of a token at its expiry": `update bridge_token set expires_at = ${sqlNow}`
}
const beforeThat = { "of a token with time": `update bridge_token set expires_at = ${later} + interval '1 ms'` }
const rotationEnds = {
  "after its end": expireRotation,
  "at the end of its window": `update bridge_rotation set confirmation_expires_at = ${sqlNow}`
}
const settled = (state: string) => `update push_outbox set state = '${state}', settled_at = ${past}`
const notWaiting = {
  "after it was delivered": settled("delivered"),
  "at its expiry": `update push_outbox set expires_at = ${sqlNow}`
}
const notDue = { ...notWaiting, "before its time": `update push_outbox set not_before = ${later}` }
const due = `${phone}; update push_outbox set not_before = ${past}`
const pause = (environment: string) => `
  insert into push_provider_state (provider, environment, paused_until, reason, failures)
  values ('apns', '${environment}', ${later}, 'Busy', 1)`
const paused = (environment: string) => ({
  given: pause(environment),
  actsNotOn: {
    "of another provider": "update push_provider_state set provider = 'other'",
    "of the other environment": `update push_provider_state
      set environment = '${environment === "production" ? "development" : "production"}'`,
    "at its end": `update push_provider_state set paused_until = ${sqlNow}`
  }
})
const pausedBy = (provider: string, environment: string) => ({
  given: `${pause(environment)}; update push_provider_state set provider = '${provider}'`,
  actsNotOn: {
    "of another provider": "update push_provider_state set provider = 'apns'",
    "of the other environment": "update push_provider_state set environment = 'production'",
    "at its end": `update push_provider_state set paused_until = ${sqlNow}`
  }
})
const overdue = {
  "after its end": `${endToken(ids.token)}; update bridge_token set expires_at = ${past}`,
  "before its expiry": `update bridge_token set expires_at = ${later}`
}

const status: Numbers = {
  projects: {
    given: `${projects}; delete from project where project_id = '${ids.otherProject}'`,
    actsNotOn: { disabled: disableProject }
  },
  disabled_projects: {
    given: `${projects}; ${disableProject}`,
    actsNotOn: { "in force": "update project set disabled_at = null" }
  },
  pending_bridges: { given: `${projects}; ${pendingIdentity}`, actsNotOn: { revoked: revokeIdentity } },
  active_bridges: { given: enrolled, actsNotOn: { revoked: revokeIdentity } },
  revoked_bridges: {
    given: `${enrolled}; ${revokeIdentity}`,
    actsNotOn: { active: "update bridge_identity set status = 'active', revoked_at = null" }
  },
  tokens_near_expiry: { given: enrolled, actsNotOn: { ...tokenEnds, ...beforeThat } },
  bridges_without_token: { given: `${enrolled}; ${endToken(ids.token)}`, actsNotOn: { revoked: revokeIdentity } },
  pending_rotations: { given: rotating, actsNotOn: rotationEnds },
  oldest_rotation_at: { given: rotating, actsNotOn: rotationEnds },
  unswept_since: { given: `${enrolled}; update bridge_token set expires_at = ${sqlNow}`, actsNotOn: overdue },
  agent_grants: {
    given: signedIn,
    actsNotOn: {
      "after its revocation": endGrant,
      "at its expiry": `update oauth_grant set expires_at = ${sqlNow}`,
      "before its code is exchanged": "update oauth_grant set activated_at = null"
    }
  },
  grants_replayed_elsewhere: {
    given: `${signedIn}; update oauth_grant set replayed_elsewhere_at = ${past}`,
    actsNotOn: { "before that": `update oauth_grant set replayed_elsewhere_at = ${past} - interval '1 ms'` }
  },
  active_devices: { given: phone, actsNotOn: { "after its end": endDevice("revoked") } },
  notifications_waiting: { given: phone, actsNotOn: notWaiting },
  notification_due_since: { given: phone, actsNotOn: notDue },
  dead_letters: {
    given: `${phone}; ${settled("dead")}`,
    actsNotOn: { "after a retry": "update push_outbox set state = 'pending', settled_at = null" }
  }
}
const gauges: Numbers = {
  tokens_near_expiry: { given: enrolled, actsNotOn: { ...tokenEnds, ...beforeThat } },
  rotations_pending: { given: rotating, actsNotOn: rotationEnds },
  oldest_rotation: { given: rotating, is: 3600, actsNotOn: rotationEnds },
  sweep_lag: { given: `${enrolled}; update bridge_token set expires_at = ${past}`, is: 3600, actsNotOn: overdue },
  embeddings_waiting: {
    given: `insert into embedding_queue (project_id, entry_id, due_at) values ('${ids.project}', '${ids.entry}', ${later})`,
    actsNotOn: { "after it was embedded": "delete from embedding_queue" }
  },
  push_due: { given: phone, actsNotOn: notDue },
  push_oldest_due: {
    given: due,
    is: 3600,
    actsNotOn: {
      "after it was delivered": settled("delivered"),
      "before its time": `update push_outbox set not_before = ${later}`
    }
  },
  push_paused_production: paused("production"),
  push_paused_development: paused("development"),
  push_paused_web: pausedBy("webpush", "web"),
  push_paused_channel: pausedBy("channel", "channel")
}

layer(TestDatabase.sql)("numbers", (it) => {
  const counted = (
    what: string,
    numbers: Numbers,
    read: (sql: SqlClient.SqlClient) => Effect.Effect<Option.Option<Readonly<Record<string, unknown>>>, unknown>
  ) => {
    for (const [name, { actsNotOn, given, is }] of Object.entries(numbers)) {
      testConditions(it, `${what} counts ${name}`, {
        given,
        bystander: "",
        act: (sql) =>
          Effect.map(
            read(sql),
            Option.filter((row) => (is === undefined ? row[name] !== 0 && row[name] !== null : row[name] === is))
          ),
        actsNotOn
      })
    }
  }
  counted("the status", status, (sql) => OverviewStore.make(sql).numbers(now, nearly, since))
  counted("a gauge", gauges, (sql) => GaugesStore.make(sql).measure(now, nearly))

  type State = (own: SqlClient.SqlClient, other: SqlClient.SqlClient) => Effect.Effect<unknown, unknown>
  type SessionGauge = Extract<keyof typeof GaugesStore.Measured.Type, `connections_${string}`>
  const states: Readonly<Record<SessionGauge, State>> = {
    connections_active: (own) => own`select pg_sleep(60)`,
    connections_idle: (own) => own`select`,
    connections_in_transaction: (own) => own.withTransaction(Effect.andThen(own`select`, Effect.never)),
    connections_waiting: (own, other) =>
      Effect.andThen(other`select pg_advisory_lock(1)`, own`select pg_advisory_lock(1)`)
  }
  const sessionGauges = Object.keys(states) as ReadonlyArray<SessionGauge>
  it.effect.each(sessionGauges)("the gauge %s counts sessions of the service, each in one state", (name) =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const address = yield* TestDatabase
      const connect = (applicationName: string) =>
        Effect.map(
          Layer.build(Layer.fresh(PgClient.layer({ ...address, applicationName, maxConnections: 1 }))),
          Context.get(SqlClient.SqlClient)
        )
      const [own, other] = [yield* connect("bridge-service test"), yield* connect("another program")]
      yield* Effect.forkScoped(states[name](own, other))
      const read = Effect.map(GaugesStore.make(sql).measure(now, nearly), Option.getOrThrow)
      const counted = Effect.map(read, (row) => Object.fromEntries(sessionGauges.map((gauge) => [gauge, row[gauge]])))
      const expected = { ...Object.fromEntries(sessionGauges.map((gauge) => [gauge, 0])), [name]: 1 }
      // Sessions of the test before are ending.
      const last = yield* Effect.repeat(counted, { until: (found) => isDeepStrictEqual(found, expected), times: 1000 })
      assert.deepStrictEqual(last, expected)
    })
  )

  const half = `
    ${projects};
    insert into project_usage (project_id, stored_bytes, index_bytes, entries, tasks)
    values ('${ids.project}', 0, 0, 100000, 0)`
  const halfUsed = (sql: SqlClient.SqlClient) =>
    Effect.map(
      GaugesStore.make(sql).measure(now, nearly),
      Option.filter(({ used_entries }) => used_entries === 0.5)
    )
  testConditions(it, "a project uses half of a default", {
    given: half,
    bystander: "",
    act: halfUsed,
    actsOn: { "with other limits of its own": `update project set limits = '{"tasks": 5}'` },
    actsNotOn: {
      "of a limit of its own, though another project has a lower one": `
        update project
           set limits = jsonb_build_object('entries', case project_id when '${ids.project}' then 400000 else 200000 end)`
    }
  })
  testConditions(it, "a project uses half of a limit of its own", {
    given: `${half}; update project set limits = '{"entries": 400000}'; update project_usage set entries = 200000`,
    bystander: "",
    act: halfUsed,
    actsNotOn: { "without it": "update project set limits = '{}'" }
  })
  const maxima = storedMaxima({})
  const halves = (["stored_bytes", "index_bytes", "entries", "tasks"] as const).map(
    (name) => [name, maxima[name] / 2] as const
  )
  const allHalf = `
    ${projects};
    insert into project_usage (project_id, ${halves.map(([name]) => name).join(", ")})
    values ('${ids.project}', ${halves.map(([, value]) => value).join(", ")})`
  testConditions(it, "the gauges say that half of each limit is used", {
    given: allHalf,
    bystander: "",
    act: (sql) =>
      Effect.map(
        GaugesStore.make(sql).measure(now, nearly),
        Option.filter((row) => halves.every(([name]) => row[`used_${name}`] === 0.5))
      ),
    actsNotOn: Object.fromEntries(
      halves.map(([name, value]) => [`of ${name}`, `update project_usage set ${name} = ${value - 1}`])
    )
  })
  testConditions(it, "a leased notification counts as due", {
    given: `${phone}; ${lease(later)}`,
    bystander: "",
    act: (sql) =>
      Effect.map(
        GaugesStore.make(sql).measure(now, nearly),
        Option.filter(({ push_due }) => push_due === 1)
      ),
    actsNotOn: { "after it was delivered": `${settled("delivered")}, lease_token = null, lease_until = null` }
  })
  testConditions(it, "an overdue rotation counts as unswept", {
    given: `${rotating}; update bridge_rotation set confirmation_expires_at = ${past}`,
    bystander: "",
    act: (sql) =>
      Effect.map(
        OverviewStore.make(sql).numbers(now, nearly, since),
        Option.filter(({ unswept_since }) => unswept_since !== null)
      ),
    actsNotOn: {
      "after its end": expireRotation,
      "within its window": `update bridge_rotation set confirmation_expires_at = ${later}`
    }
  })
  testConditions(it, "a leased notification counts as waiting", {
    given: `${phone}; ${lease(later)}`,
    bystander: "",
    act: (sql) =>
      Effect.map(
        OverviewStore.make(sql).numbers(now, nearly, since),
        Option.filter(({ notifications_waiting }) => notifications_waiting === 1)
      ),
    actsNotOn: { "after it was delivered": `${settled("delivered")}, lease_token = null, lease_until = null` }
  })
})

layer(TestDatabase.sql)("statements of operator tokens", (it) => {
  const token = `
    insert into operator_token (token_id, token_hash, label, scopes, created_at, expires_at)
    values ('${id(41)}', ${hash("operator")}, 'Ada', '{operator:read}', ${past}, ${later})`
  const tokenHash = sha256("operator")
  const another = {
    "if it is another one": `update operator_token set token_hash = ${hash("another")}, token_id = '${id(42)}'`
  }
  testConditions(it, "a token is used", {
    given: token,
    act: (sql) => OperatorTokenStore.make(sql).use(tokenHash, now),
    actsNotOn: {
      ...another,
      "that is revoked": `update operator_token set revoked_at = ${past}`,
      "that has just expired": `update operator_token set expires_at = ${sqlNow}`
    }
  })
  testConditions(it, "a token that was issued is found", {
    given: token,
    act: (sql) => OperatorTokenStore.make(sql).findIssued(tokenHash),
    actsOn: { "even if it is revoked": `update operator_token set revoked_at = ${past}` },
    actsNotOn: another
  })
  testConditions(it, "a token is revoked", {
    given: token,
    act: (sql) => OperatorTokenStore.make(sql).revoke(id(41), now),
    actsNotOn: another
  })
  testConditions(it, "a second revocation changes nothing", {
    given: `${token}; update operator_token set revoked_at = ${past}`,
    act: (sql) => OperatorTokenStore.make(sql).revoke(id(41), now),
    seen: `select from operator_token where token_id = '${id(41)}' and revoked_at = ${past}`,
    actsNotOn: another
  })
  const listedAs = (status: string) => (sql: SqlClient.SqlClient) =>
    Effect.map(OperatorTokenStore.make(sql).list({ after: undefined, limit: 9 }, now), (tokens) =>
      tokens.filter((one) => one.status === status)
    )
  const expired = `update operator_token set expires_at = ${sqlNow}`
  const revoked = `update operator_token set revoked_at = ${past}`
  const listed = { given: token, bystander: "" }
  testConditions(it, "a token is listed as active", {
    ...listed,
    act: listedAs("active"),
    actsNotOn: { "that has just expired": expired, "that is revoked": revoked }
  })
  testConditions(it, "a token is listed as expired", {
    ...listed,
    given: `${token}; ${expired}`,
    act: listedAs("expired"),
    actsNotOn: { "that was revoked before": revoked }
  })
  testConditions(it, "a token is listed as revoked", {
    ...listed,
    given: `${token}; ${revoked}`,
    act: listedAs("revoked"),
    actsOn: { "that has expired since": expired },
    actsNotOn: { "that nobody revoked": "update operator_token set revoked_at = null" }
  })
  testConditions(it, "the next page has a token", {
    given: token,
    bystander: "",
    act: (sql) => OperatorTokenStore.make(sql).list({ after: id(40), limit: 9 }, now),
    actsNotOn: { "that an earlier page has": `update operator_token set token_id = '${id(40)}'` }
  })
  testConditions(it, "a token is deleted", {
    given: `${token}; update operator_token set created_at = ${longAgo}, expires_at = ${longAgo} + interval '1 millisecond'`,
    bystander: "",
    act: sweepOf(sweeps, "purge operator tokens", now),
    actsNotOn: {
      "thirty days after its end": `update operator_token set created_at = ${longAgo}, expires_at = ${thirtyDays}`
    }
  })
})
