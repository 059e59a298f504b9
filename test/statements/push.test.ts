/** Each condition in the statements and sweeps of push delivery decides alone in one row (spec 6.3). */
import { layer } from "@effect/vitest"
import { Duration, Effect, Option } from "effect"
import type { SqlClient } from "effect/sql"
import * as PushAdminStore from "../../src/push/admin/PushAdminStore.ts"
import * as DeviceFeedbackStore from "../../src/push/delivery/DeviceFeedbackStore.ts"
import * as LeaseStore from "../../src/push/delivery/LeaseStore.ts"
import * as PauseStore from "../../src/push/delivery/PauseStore.ts"
import * as OutboxStore from "../../src/push/outbox/OutboxStore.ts"
import { sweeps } from "../../src/push/Sweeps.ts"
import * as RekeyStore from "../../src/push/tokens/RekeyStore.ts"
import * as WebPushKeyStore from "../../src/push/tokens/WebPushKeyStore.ts"
import { type Statement, testConditions } from "../support/statements/Conditions.ts"
import {
  endDevice,
  grantOver,
  hash,
  id,
  ids,
  lastingToken,
  later,
  lease,
  longAgo,
  now,
  past,
  phone,
  projects,
  sqlNow,
  subscribed,
  thirtyDays,
  trace
} from "../support/statements/OneOfEach.ts"
import { TestDatabase } from "../support/database/TestDatabase.ts"

const settle = (state: string, at = past) => `
  update push_outbox set state = '${state}', settled_at = ${at}, lease_token = null, lease_until = null`
const own = { token: ids.lease, until: new Date(now.getTime() + 60_000) }
const failed = { status: 500, reason: "InternalServerError" }
const inAMinute = new Date(now.getTime() + 60_000)
const otherEnvironment = "update mobile_device set environment = 'development'"

/** A second notification for the same phone under the same collapse key. */
const another = (state: string, created = sqlNow) => `
  insert into push_outbox
  select (jsonb_populate_record(o, jsonb_build_object('delivery_id', '${id(45)}', 'event_id', '${id(46)}', 'state',
                                                      '${state}', 'created_at', ${created}))).*
    from push_outbox o`
const ofAnother = (assignment: string) => `update push_outbox set ${assignment} where delivery_id = '${id(45)}'`

const notDue = {
  "before its time": `update push_outbox set not_before = ${later}`,
  "at its expiry": `update push_outbox set expires_at = ${sqlNow}`,
  "after it was delivered": settle("delivered")
}

layer(TestDatabase.sql)("statements of push delivery", (it) => {
  testConditions(it, "a delivery is claimed", {
    given: phone,
    bystander: `${phone}; update push_outbox set not_before = ${later}`,
    act: (sql) => LeaseStore.make(sql).claim("production", 9, own, now),
    actsOn: {
      "when the lease of another worker has ended": lease(sqlNow),
      "when its phone has rested": `update mobile_device set resting_until = ${sqlNow}`
    },
    actsNotOn: {
      ...notDue,
      "while another worker has its lease": lease(later),
      "in another environment": otherEnvironment,
      "while its phone rests": `update mobile_device set resting_until = ${later}`
    }
  })
  testConditions(it, "a delivery is claimed before one that has waited for longer", {
    given: `${phone}; ${another("pending")}; ${ofAnother(`not_before = ${longAgo}, priority = 0`)}`,
    bystander: `${phone}; update push_outbox set not_before = ${later}`,
    act: (sql) =>
      Effect.map(LeaseStore.make(sql).claim("production", 1, own, now), (claimed) =>
        claimed.filter(({ delivery_id }) => delivery_id !== id(45))
      ),
    actsNotOn: { "if that is as urgent": "update push_outbox set priority = 1" }
  })
  testConditions(it, "a delivery is claimed while this process is busy with another phone", {
    given: phone,
    bystander: `${phone}; update push_outbox set not_before = ${later}`,
    act: (sql) => LeaseStore.make(sql).claim("production", 9, own, now, { devices: [id(48)] }),
    actsNotOn: {
      "but not with its own": `update mobile_device set device_id = '${id(48)}'; update push_outbox set device_id = '${id(48)}'`
    }
  })
  testConditions(it, "a delivery is claimed while another project has had its turn", {
    given: phone,
    bystander: `${phone}; update push_outbox set not_before = ${later}`,
    act: (sql) => LeaseStore.make(sql).claim("production", 9, own, now, { projects: [ids.otherProject] }),
    actsNotOn: { "but not while its own has": `update push_outbox set project_id = '${ids.otherProject}'` }
  })
  const channel = `${phone};
    insert into task (
      project_id, id, title, body, status, priority, tags, version, created_by, created_at, updated_at)
    values ('${ids.project}', '${ids.task}', 'Mend it', '', 'open', 2, '{}', 7, 'agent', ${past}, ${past});
    update mobile_device set provider = 'ntfy', environment = 'channel', subject = null, client_id = null, grant_id = null, titles = true`
  const claimedForChannel =
    (wanted: (claimed: LeaseStore.ClaimedDelivery) => boolean): Statement["act"] =>
    (sql) =>
      Effect.map(LeaseStore.make(sql).claim("channel", 9, own, now), (claimed) => claimed.filter(wanted))
  testConditions(it, "a claimed delivery to a channel names its task", {
    given: channel,
    bystander: `${channel}; update push_outbox set not_before = ${later}`,
    act: claimedForChannel(({ task_title, task_version }) => task_title === "Mend it" && task_version === 7),
    actsNotOn: {
      "of another project": `update task set project_id = '${ids.otherProject}'`,
      "if it is another one": `update task set id = '${id(59)}'`,
      "without its title if the channel shall have none": "update mobile_device set titles = false"
    }
  })
  testConditions(it, "a claimed delivery to a channel is authorized", {
    given: channel,
    bystander: `${channel}; update push_outbox set not_before = ${later}`,
    act: claimedForChannel(({ authorized }) => authorized),
    actsNotOn: {
      "of a disabled project": `update project set disabled_at = ${past}`,
      "without its project": `delete from project where project_id = '${ids.project}'`
    }
  })
  testConditions(it, "a claimed delivery is authorized", {
    given: phone,
    bystander: `${phone}; update push_outbox set not_before = ${later}`,
    act: (sql) =>
      Effect.map(LeaseStore.make(sql).claim("production", 9, own, now), (claimed) =>
        claimed.filter(({ authorized }) => authorized)
      ),
    actsOn: lastingToken,
    actsNotOn: { "without its grant": `update mobile_device set grant_id = '${id(39)}'`, ...grantOver }
  })
  const browser = `${phone}; ${subscribed}`
  testConditions(it, "a claimed delivery to a browser without sign-in is authorized", {
    given: browser,
    bystander: `${browser}; update push_outbox set not_before = ${later}`,
    act: (sql) =>
      Effect.map(LeaseStore.make(sql).claim("web", 9, own, now), (claimed) =>
        claimed.filter(({ authorized }) => authorized)
      ),
    actsOn: lastingToken,
    actsNotOn: {
      "of another token": `update mobile_device set subject = '${id(19)}'`,
      "after its token was revoked": `update project_token set revoked_at = ${past}`,
      "at the end of its token": `update project_token set expires_at = ${sqlNow}`,
      "of a disabled project": `update project set disabled_at = ${past}`
    }
  })

  const notMine = {
    "under another lease": `update push_outbox set lease_token = '${id(49)}'`,
    "of another notification": `update push_outbox set delivery_id = '${id(49)}'`
  }
  const leased = `${phone}; ${lease(later)}`
  testConditions(it, "a worker marks its delivery as delivered", {
    given: leased,
    act: (sql) => LeaseStore.make(sql).deliver([ids.delivery], own, now),
    actsNotOn: notMine
  })
  testConditions(it, "a worker ends its delivery", {
    given: leased,
    act: (sql) => LeaseStore.make(sql).end(ids.delivery, "dead", failed, own, now),
    actsNotOn: notMine
  })
  testConditions(it, "a worker postpones its delivery", {
    given: leased,
    act: (sql) => LeaseStore.make(sql).postpone(ids.delivery, inAMinute, "counts", failed, own, now),
    actsNotOn: notMine
  })
  testConditions(it, "a worker postpones none of its other deliveries", {
    given: `${leased}; ${another("leased")}`,
    bystander: leased,
    act: (sql) => LeaseStore.make(sql).postpone(ids.delivery, inAMinute, "counts", failed, own, now),
    seen: `select from push_outbox where delivery_id = '${id(45)}' and state = 'leased'`,
    actsNotOn: {}
  })
  testConditions(it, "a stopping worker releases its delivery", {
    given: leased,
    act: (sql) => LeaseStore.make(sql).release([ids.lease]),
    seen: `select from push_outbox where state = 'pending' and delivery_id = '${ids.delivery}'`,
    actsNotOn: { "under another lease": notMine["under another lease"] }
  })
  testConditions(it, "a postponed delivery waits", {
    given: leased,
    act: (sql) =>
      Effect.map(
        LeaseStore.make(sql).postpone(ids.delivery, inAMinute, "counts", failed, own, now),
        Option.filter(({ state }) => state === "pending")
      ),
    actsOn: {
      "beside an older one": another("leased", past),
      "beside a newer one that is dead": `${another("leased")};
        ${ofAnother(`state = 'dead', settled_at = ${past}, lease_token = null, lease_until = null`)}`,
      "beside a newer one for another phone": `${another("leased")}; ${ofAnother(`device_id = '${id(48)}'`)}`,
      "beside a newer one with another key": `${another("leased")}; ${ofAnother("collapse_key = 'other'")}`
    },
    actsNotOn: {
      "if it expires until then": `update push_outbox set expires_at = ${sqlNow} + interval '1 minute'`,
      "beside a newer one": another("leased"),
      "beside a newer one that is pending": `${another("leased")};
        ${ofAnother("state = 'pending', lease_token = null, lease_until = null")}`,
      "beside a newer one that was delivered": `${another("leased")};
        ${ofAnother(`state = 'delivered', settled_at = ${past}, lease_token = null, lease_until = null`)}`
    }
  })

  const pause = (until: string, reason = "Busy") => `
    insert into push_provider_state (provider, environment, paused_until, reason, failures)
    values ('apns', 'production', ${until}, '${reason}', 1)`
  const elsewhere = {
    "in another environment": "update push_provider_state set environment = 'development'",
    "of another provider": "update push_provider_state set provider = 'other'"
  }
  const paused = { given: `${phone}; ${pause(sqlNow)}`, bystander: "" }
  testConditions(it, "a pause is found", {
    ...paused,
    act: (sql) => PauseStore.make(sql).findPause("production"),
    actsNotOn: elsewhere
  })
  testConditions(it, "a probe is taken", {
    ...paused,
    act: (sql) => PauseStore.make(sql).takeProbe("production", now, inAMinute),
    actsOn: { "with a lease that may be over": lease(later) },
    actsNotOn: {
      ...elsewhere,
      "in another environment, though a delivery is due there": `${otherEnvironment};
        ${elsewhere["in another environment"]}`,
      "before the end of the pause": `update push_provider_state set paused_until = ${later}`,
      "without a delivery in this environment": otherEnvironment,
      "without the delivery's phone": `update push_outbox set device_id = '${id(48)}'`,
      ...notDue
    }
  })
  const backoff = { base: Duration.minutes(1), max: Duration.minutes(9), atLeast: Duration.zero }
  testConditions(it, "a pause begins", {
    ...paused,
    act: (sql) => PauseStore.make(sql).pause("production", backoff, "Busy", now, now),
    actsOn: {
      "for the first time": "delete from push_provider_state",
      "after a success": "update push_provider_state set paused_until = null"
    },
    actsNotOn: { "when another replica has begun one": `update push_provider_state set paused_until = ${later}` }
  })
  testConditions(it, "a pause ends with a success", {
    ...paused,
    act: (sql) => PauseStore.make(sql).resume("production"),
    actsNotOn: { ...elsewhere, "without failures": "update push_provider_state set failures = 0" }
  })
  testConditions(it, "a start ends a pause", {
    given: pause(later),
    bystander: "",
    act: (sql) => PauseStore.make(sql).endPauses(now, inAMinute),
    seen: `select from push_provider_state where paused_until = ${sqlNow}`,
    actsNotOn: { "that is over": `update push_provider_state set paused_until = ${past}` }
  })
  testConditions(it, "a start releases a delivery that may have caused a pause", {
    given: `${phone}; ${pause(later)}; update push_outbox set last_reason = 'Busy', not_before = ${later}`,
    bystander: "",
    act: (sql) => PauseStore.make(sql).endPauses(now, inAMinute),
    seen: `select from push_outbox where not_before = ${sqlNow} + interval '1 minute'`,
    actsNotOn: {
      "of another environment": otherEnvironment,
      "of another phone": `update push_outbox set device_id = '${id(48)}'`,
      "in flight": lease(later),
      "that waits for something else": "update push_outbox set last_reason = 'quiet_hours'",
      "that is due before": `update push_outbox set not_before = ${past}`,
      "once the pause is over": `update push_provider_state set paused_until = ${sqlNow}`
    }
  })

  const answered = {
    delivery_id: ids.delivery,
    lease_token: ids.lease,
    token_updated_at: new Date(now.getTime() - 3_600_000),
    ...failed
  }
  const deactivate = (since: Date | null) => (sql: SqlClient.SqlClient) =>
    DeviceFeedbackStore.make(sql).deactivate(answered, since, now, trace)
  testConditions(it, "a phone without the app is deactivated", {
    given: leased,
    act: deactivate(now),
    actsNotOn: {
      ...notMine,
      "after its end": endDevice("revoked"),
      "with another push token": `update mobile_device set token_updated_at = ${past} + interval '1 second'`,
      "of another delivery": `update push_outbox set device_id = '${id(48)}'`
    }
  })
  testConditions(it, "a phone is deactivated by its last answer", {
    given: leased,
    act: deactivate(null),
    actsNotOn: notMine
  })
  testConditions(it, "a phone is deactivated if its token is older", {
    given: `${leased}; update mobile_device set token_updated_at = ${past}`,
    act: deactivate(new Date(now.getTime() - 3_600_000 + 1)),
    actsNotOn: { "and had another token": `update mobile_device set token_updated_at = ${past} + interval '1 ms'` }
  })
  testConditions(it, "a newer token keeps a phone active", {
    given: leased,
    act: (sql) =>
      Effect.map(deactivate(new Date(now.getTime() - 3_600_000))(sql), (gone) => (Option.isNone(gone) ? [1] : [])),
    actsNotOn: {}
  })
  testConditions(it, "deactivating a phone silences what waits for it", {
    given: `${leased}; ${another("leased")};
      ${ofAnother("state = 'pending', lease_token = null, lease_until = null")}`,
    bystander: leased,
    act: deactivate(null),
    seen: `select from push_outbox where state = 'suppressed' and delivery_id = '${id(45)}'`,
    actsNotOn: {
      "that another worker sends": ofAnother(`state = 'leased', lease_token = '${id(47)}', lease_until = ${later}`),
      "for another phone": ofAnother(`device_id = '${id(48)}'`)
    }
  })
  const ofBrowser = `${phone}; ${subscribed}`
  const current = "update web_push_key set replaced_at = null"
  testConditions(it, "the web push key is found", {
    given: `${ofBrowser}; ${current}`,
    bystander: "",
    act: (sql) => WebPushKeyStore.make(sql).findCurrent,
    actsNotOn: { "once it is replaced": `update web_push_key set replaced_at = ${past}` }
  })
  testConditions(it, "the web push key is replaced", {
    given: `${ofBrowser}; ${current}`,
    bystander: "",
    act: (sql) => WebPushKeyStore.make(sql).replace(id(46), now),
    seen: `select from web_push_key where replaced_at = ${sqlNow}`,
    actsNotOn: {
      "only once": `update web_push_key set replaced_at = ${past}`,
      "by a successor that was made before": `
        update web_push_key set replaced_at = ${past};
        insert into web_push_key (web_push_key_id, public_key, salt, token_key_id, created_at)
        select '${id(46)}', set_byte(public_key, 64, 1), salt, token_key_id, created_at from web_push_key`
    }
  })
  testConditions(it, "a browser counts for its web push key", {
    given: ofBrowser,
    bystander: "",
    act: (sql) =>
      Effect.map(WebPushKeyStore.make(sql).list, (keys) =>
        keys.filter((key) => key.web_push_key_id === id(45) && key.subscriptions === 1)
      ),
    actsNotOn: {
      "unless it subscribed with another": `
        insert into web_push_key (web_push_key_id, public_key, salt, token_key_id, created_at, replaced_at)
        values ('${id(49)}', ${hash("a")} || ${hash("b")} || '\\x04', ${hash("other salt")}, 'k', ${past}, ${past});
        update mobile_device set web_push_key_id = '${id(49)}'`,
      "once it has ended": endDevice("revoked")
    }
  })
  testConditions(it, "a pause of an environment is shown", {
    given: `${projects}; insert into push_provider_state (provider, environment, failures) values ('apns', 'production', 1)`,
    bystander: "",
    act: (sql) => PushAdminStore.make(sql).pauses,
    actsNotOn: { "while nothing fails": "update push_provider_state set failures = 0" }
  })
  testConditions(it, "an unknown push token counts", {
    given: `${phone}; ${settle("dead")}; update push_outbox set last_status = 400, last_reason = 'BadDeviceToken'`,
    bystander: "",
    act: (sql) =>
      Effect.map(
        DeviceFeedbackStore.make(sql).countBadTokens("production"),
        Option.filter(({ bad, devices }) => bad === 1 && devices === 1)
      ),
    actsNotOn: {
      "before it is settled": "update push_outbox set state = 'pending', settled_at = null",
      "without an answer": "update push_outbox set last_status = null",
      "in another environment": otherEnvironment,
      "in another environment, though another phone is in this one": `${otherEnvironment};
        insert into mobile_device
        select (jsonb_populate_record(d, jsonb_build_object(
                 'device_id', '${id(48)}', 'environment', 'production', 'token_lookup', ${hash("other")}))).*
          from mobile_device d`,
      "with another answer": "update push_outbox set last_reason = 'Unregistered'",
      "before a later answer": `${another("dead")};
        ${ofAnother(`last_reason = null, last_status = 200, settled_at = ${sqlNow}`)}`
    }
  })

  const notice = {
    kind: "task.blocked" as const,
    event_id: id(61),
    project_id: ids.project,
    about: ids.task
  }
  const prefer = (path: string, value: string) =>
    `update mobile_device set preferences = jsonb_set(preferences, '${path}', '${value}')`
  testConditions(it, "a phone is notified", {
    given: phone,
    act: (sql) => OutboxStore.make(sql).enqueue(now, notice),
    actsOn: { "of the priority that it wants": prefer("{minimum_priority}", '"high"') },
    actsNotOn: {
      "in another project": `update mobile_device set project_id = '${ids.otherProject}'`,
      "after its end": endDevice("inactive"),
      "of what it does not want": prefer("{kinds,task.blocked}", "false"),
      "below the priority that it wants": prefer("{minimum_priority}", '"urgent"'),
      "twice of one event": `update push_outbox set event_id = '${id(61)}'`
    }
  })
  testConditions(it, "a phone is notified of what cannot be switched off", {
    given: phone,
    act: (sql) =>
      OutboxStore.make(sql).enqueue(now, {
        ...notice,
        kind: "security.device_added",
        only: sql`d.device_id <> ${id(48)}::uuid`
      }),
    actsOn: { "and does not want": prefer("{kinds,security.device_added}", "false") },
    actsNotOn: { "if it is the other one": `update mobile_device set device_id = '${id(48)}'` }
  })
  testConditions(it, "a phone hears only what it asks for", {
    given: `${phone}; ${prefer("{kinds,task.completed}", "true")}`,
    act: (sql) => OutboxStore.make(sql).enqueue(now, { ...notice, kind: "task.completed" }),
    actsNotOn: { "by default": prefer("{kinds}", "{}") }
  })
  testConditions(it, "a notification supersedes an older one", {
    given: `${phone}; update push_outbox set collapse_key = 't:${ids.task}'`,
    act: (sql) => OutboxStore.make(sql).enqueue(now, notice),
    seen: "select from push_outbox where state = 'superseded'",
    actsNotOn: {
      "of another phone": `update push_outbox set device_id = '${id(48)}'`,
      "about something else": "update push_outbox set collapse_key = 't:other'",
      "in flight": lease(later),
      "that was delivered": settle("delivered")
    }
  })
  /** 299 more that wait for the same phone, about other things. They expire a minute later. */
  const crowd = `
    insert into push_outbox
    select (jsonb_populate_record(o, jsonb_build_object(
             'delivery_id', gen_random_uuid(), 'event_id', gen_random_uuid(), 'collapse_key', 'c' || n, 'expires_at',
             ${later} + interval '1 minute'))).*
      from push_outbox o
     cross join generate_series(1, 299) n`
  const first = `where delivery_id = '${ids.delivery}'`
  testConditions(it, "a notification supersedes the last of 300", {
    given: `${phone}; ${crowd}`,
    bystander: phone,
    act: (sql) => OutboxStore.make(sql).enqueue(now, notice),
    seen: `select from push_outbox ${first} and state = 'superseded'`,
    actsNotOn: {
      "if it is more urgent": `update push_outbox set priority = 2 ${first}`,
      "if it expires after the others": `update push_outbox set expires_at = ${later} + interval '2 minutes' ${first}`,
      "in flight": `${lease(later)} ${first}`,
      "of another phone": `update push_outbox set device_id = '${id(48)}' ${first}`,
      "if one of them waits for another phone": `update push_outbox set device_id = '${id(48)}' where collapse_key = 'c1'`,
      "if one of them was delivered": `${settle("delivered")} where collapse_key = 'c1'`
    }
  })

  testConditions(it, "a dead letter is retried", {
    given: `${phone}; ${settle("dead")}`,
    bystander: phone,
    act: (sql) => PushAdminStore.make(sql).retryDead(now),
    actsOn: {
      "beside an older one": another("delivered", past),
      "beside a newer one that was suppressed": another("suppressed"),
      "beside a newer one for another phone": `${another("delivered")}; ${ofAnother(`device_id = '${id(48)}'`)}`,
      "beside a newer one with another key": `${another("delivered")}; ${ofAnother("collapse_key = 'other'")}`
    },
    actsNotOn: {
      "of another phone": `update push_outbox set device_id = '${id(48)}'`,
      "of a phone that has ended": endDevice("revoked"),
      "if it was delivered": settle("delivered"),
      "at its expiry": `update push_outbox set expires_at = ${sqlNow}`,
      "beside a newer one": another("delivered")
    }
  })
  /** The newer one in this state; it may be retried itself. */
  const newer = (state: string, more = "") => `${another("delivered")}; ${ofAnother(`state = '${state}'${more}`)}`
  testConditions(it, "a dead letter is the newest of its key", {
    given: `${phone}; ${settle("dead")}`,
    bystander: phone,
    act: (sql) =>
      Effect.map(PushAdminStore.make(sql).retryDead(now), (retried) =>
        retried.filter(({ delivery_id }) => delivery_id === ids.delivery)
      ),
    actsOn: { "beside a newer one that expired": newer("expired") },
    actsNotOn: {
      "beside a newer one that waits": newer("pending", ", settled_at = null"),
      "beside a newer one that is sent": newer(
        "leased",
        `, settled_at = null, lease_token = '${id(47)}', lease_until = ${later}`
      ),
      "beside a newer one that is dead, too": newer("dead")
    }
  })
  testConditions(it, "a retried dead letter begins anew", {
    given: `${phone}; ${settle("dead")}; update push_outbox set attempts = 8, not_before = ${past}`,
    bystander: phone,
    act: (sql) => PushAdminStore.make(sql).retryDead(now),
    seen: `select from push_outbox
            where delivery_id = '${ids.delivery}' and state = 'pending' and attempts = 0 and not_before = ${sqlNow}`,
    actsNotOn: { "at its expiry": `update push_outbox set expires_at = ${sqlNow}` }
  })
  testConditions(it, "a dead letter is listed", {
    given: `${phone}; ${settle("dead")}`,
    bystander: phone,
    act: (sql) => PushAdminStore.make(sql).listDead({ after: undefined, limit: 9 }),
    actsNotOn: { "if it was delivered": settle("delivered") }
  })
  testConditions(it, "a dead letter is listed after another one of the same instant", {
    given: `${phone}; ${settle("dead")}; ${another("dead")}`,
    bystander: phone,
    act: (sql) => PushAdminStore.make(sql).listDead({ after: id(45), limit: 9 }),
    actsNotOn: { "if it is newer": ofAnother(`settled_at = ${longAgo}`) }
  })
  testConditions(it, "a dead letter since an instant is listed", {
    given: `${phone}; ${settle("dead", sqlNow)}`,
    bystander: phone,
    act: (sql) => PushAdminStore.make(sql).listDead({ after: undefined, limit: 9 }, now),
    actsNotOn: { "if it is older": settle("dead", past) }
  })
  testConditions(it, "a delivery is due", {
    given: phone,
    bystander: "",
    act: (sql) =>
      Effect.map(
        PushAdminStore.make(sql).oldestDue(now),
        Option.filter(({ due_since }) => due_since !== null)
      ),
    actsNotOn: notDue
  })

  testConditions(it, "a push token is counted under its key", {
    given: phone,
    bystander: "",
    act: (sql) => RekeyStore.make(sql).countKeys,
    actsNotOn: { "after the end of its phone": endDevice("revoked") }
  })
  testConditions(it, "a push token is found to seal again", {
    given: phone,
    bystander: "",
    act: (sql) => RekeyStore.make(sql).sealedAfter(id(40), 9),
    actsNotOn: {
      "after the end of its phone": endDevice("revoked"),
      "at the last page's end": `update mobile_device set device_id = '${id(40)}'`
    }
  })
  const before = {
    device_id: ids.device,
    provider: "apns" as const,
    environment: "production",
    topic: "app",
    token_key_id: "k",
    token_sealed: Buffer.from("sealed"),
    token_lookup: Buffer.alloc(32)
  }
  testConditions(it, "a push token is sealed again", {
    given: `${phone}; update mobile_device set token_sealed = '\\x${before.token_sealed.toString("hex")}'`,
    act: (sql) => RekeyStore.make(sql).reseal(before, { ...before, token_key_id: "k2" }),
    actsNotOn: {
      "of another phone": `update mobile_device set device_id = '${id(48)}'`,
      "that has changed": `update mobile_device set token_sealed = ${hash("another")}`
    }
  })
})

layer(TestDatabase.sql)("sweeps of push delivery", (it) => {
  const sweep = (name: string) => (sql: SqlClient.SqlClient) =>
    sweeps.find((one) => one.name === name)!.run(sql, now, 9)
  testConditions(it, "a delivery expires", {
    given: `${phone}; update push_outbox set expires_at = ${sqlNow}`,
    bystander: phone,
    act: sweep("expire deliveries"),
    actsOn: { "when its lease has ended": lease(sqlNow) },
    actsNotOn: {
      "before its expiry": `update push_outbox set expires_at = ${later}`,
      "while it is sent": lease(later),
      "after it was delivered": settle("delivered")
    }
  })
  const replacedKey = (at: string) => `
    insert into web_push_key (web_push_key_id, public_key, salt, token_key_id, created_at, replaced_at)
    values ('${id(47)}', decode(repeat('05', 65), 'hex'), ${hash("salt")}, 'k', ${longAgo}, ${at})`
  testConditions(it, "a replaced key of web push is deleted", {
    given: `${phone}; ${replacedKey(longAgo)}`,
    bystander: phone,
    act: sweep("purge web push keys"),
    actsNotOn: {
      "for thirty days": `update web_push_key set replaced_at = ${thirtyDays}`,
      "while it is current": "update web_push_key set replaced_at = null",
      "while a browser depends on it": `update mobile_device set provider = 'webpush', environment = 'web', web_push_key_id = '${id(47)}'`
    }
  })
  testConditions(it, "a settled delivery is deleted", {
    given: `${phone}; ${settle("delivered", longAgo)}`,
    bystander: phone,
    act: sweep("purge deliveries"),
    actsNotOn: { "for thirty days": settle("delivered", thirtyDays) }
  })
})
