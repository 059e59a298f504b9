/** Each condition in the statements and sweeps of phones decides alone in one row (spec 2.9, 4.12). */
import { layer } from "@effect/vitest"
import { Effect, Option } from "effect"
import type { SqlClient } from "effect/sql"
import * as SubjectStore from "../../src/people/console/activity/SubjectStore.ts"
import * as LimitStore from "../../src/operator/limits/LimitStore.ts"
import * as AnyDeviceStore from "../../src/people/AnyDeviceStore.ts"
import * as ChannelStore from "../../src/people/channels/ChannelStore.ts"
import * as DeviceStore from "../../src/people/mobile/DeviceStore.ts"
import * as RegistrationStore from "../../src/people/mobile/RegistrationStore.ts"
import { sweeps } from "../../src/people/mobile/Sweeps.ts"
import { sha256 } from "../../src/platform/crypto/Sha256.ts"
import { initialPreferences } from "../../src/wire/mobile/Notifications.ts"
import { testConditions } from "../support/statements/Conditions.ts"
import {
  endDevice,
  endGrant,
  hash,
  id,
  ids,
  later,
  lease,
  longAgo,
  now,
  past,
  phone,
  subscribed,
  sqlNow,
  thirtyDays
} from "../support/statements/OneOfEach.ts"
import { TestDatabase } from "../support/database/TestDatabase.ts"

const owner = { project_id: ids.project, subject: ids.projectToken }
const notMine = {
  "another phone": `update mobile_device set device_id = '${id(48)}'`,
  "in another project": `update mobile_device set project_id = '${ids.otherProject}'`,
  "of another person": `update mobile_device set subject = '${id(19)}'`
}
const ended = { "after its end": endDevice("revoked") }

layer(TestDatabase.sql)("statements of phones", (it) => {
  testConditions(it, "an owner finds a phone", {
    given: phone,
    act: (sql) => DeviceStore.make(sql).find(owner, ids.device),
    actsNotOn: notMine
  })
  testConditions(it, "the subject of a notification is found in its project", {
    given: phone,
    act: (sql) => SubjectStore.make(sql).find(ids.device, ids.project),
    actsNotOn: { "another phone": notMine["another phone"], "in another project": notMine["in another project"] }
  })
  testConditions(it, "the subject of a notification is found in any project", {
    given: phone,
    act: (sql) => SubjectStore.make(sql).find(ids.device, undefined),
    actsOn: { "in another project": notMine["in another project"] },
    actsNotOn: { "another phone": notMine["another phone"] }
  })
  const aTask = `insert into task (
      project_id, id, title, body, status, priority, tags, version, created_by, created_at, updated_at)
    values ('${ids.project}', '${ids.task}', 'Task', '', 'open', 2, '{}', 1, 'agent', ${past}, ${past})`
  testConditions(it, "the task of a notification is found in its project", {
    given: `${phone}; ${aTask}`,
    act: (sql) => SubjectStore.make(sql).find(ids.task, ids.project),
    actsNotOn: {
      "another task": `update task set id = '${id(59)}'`,
      "in another project": `update task set project_id = '${ids.otherProject}'`
    }
  })
  testConditions(it, "an owner sets preferences", {
    given: phone,
    act: (sql) => DeviceStore.make(sql).setPreferences(owner, ids.device, initialPreferences, [1, 3], now),
    actsOn: { "at another version that was named": "update mobile_device set preferences_version = 3" },
    actsNotOn: { ...notMine, ...ended, "at a version not named": "update mobile_device set preferences_version = 2" }
  })
  testConditions(it, "an owner sets preferences at any version", {
    given: phone,
    act: (sql) => DeviceStore.make(sql).setPreferences(owner, ids.device, initialPreferences, null, now),
    actsNotOn: ended
  })
  testConditions(it, "an owner's active phones are listed", {
    given: phone,
    act: (sql) => DeviceStore.make(sql).listActive(owner),
    actsNotOn: {
      "in another project": notMine["in another project"],
      "of another token": `update mobile_device set subject = '${id(19)}'`,
      "after their end": endDevice("revoked")
    }
  })
  testConditions(it, "a phone is locked", {
    given: phone,
    act: (sql) => DeviceStore.make(sql).lock(ids.device),
    actsNotOn: {
      "another phone": notMine["another phone"],
      "unless it is a channel": `
        update mobile_device
           set provider = 'ntfy', environment = 'channel', subject = null, client_id = null, grant_id = null`
    }
  })
  testConditions(it, "new preferences release what is held", {
    given: `${phone}; update push_outbox set last_reason = 'quiet_hours', not_before = ${later}`,
    act: (sql) => DeviceStore.make(sql).releaseHeld(ids.device, now),
    seen: `select from push_outbox where not_before = ${sqlNow}`,
    actsOn: { "for a pause": "update push_outbox set last_reason = 'paused'" },
    actsNotOn: {
      "for another phone": `update push_outbox set device_id = '${id(48)}'`,
      "in flight": lease(later),
      "for another reason": "update push_outbox set last_reason = 'InternalServerError'",
      "that was due": `update push_outbox set not_before = ${past}`
    }
  })
  const revoke = (sql: SqlClient.SqlClient) => AnyDeviceStore.make(sql).revoke(ids.device, "signed_out", now)
  testConditions(it, "a phone is revoked", {
    given: phone,
    act: revoke,
    actsOn: { "that is inactive": endDevice("inactive") },
    actsNotOn: { ...ended, "if it is another one": notMine["another phone"] }
  })
  testConditions(it, "revoking a phone silences what waits for it", {
    given: phone,
    act: revoke,
    seen: "select from push_outbox where state = 'suppressed'",
    actsNotOn: { "in flight": lease(later), "for another phone": `update push_outbox set device_id = '${id(48)}'` }
  })
  testConditions(it, "the operator lists a phone", {
    given: phone,
    act: (sql) => DeviceStore.make(sql).list(ids.project, { after: undefined, limit: 9 }),
    actsOn: ended,
    actsNotOn: { "in another project": notMine["in another project"] }
  })

  const registration = `
    insert into mobile_registration (project_id, subject, key_hash, request_hash, device_id, created, created_at)
    values ('${ids.project}', '${ids.projectToken}', ${hash("key")}, ${hash("request")}, '${ids.device}', true, ${past})`
  testConditions(it, "an earlier registration is found", {
    given: `${phone}; ${registration}`,
    act: (sql) => RegistrationStore.make(sql).findRegistration(owner, sha256("key")),
    actsNotOn: {
      "in another project": `update mobile_registration set project_id = '${ids.otherProject}'`,
      "of another person": `update mobile_registration set subject = '${id(19)}'`,
      "under another key": `update mobile_registration set key_hash = ${hash("another")}`
    }
  })
  testConditions(it, "an installation is found", {
    given: phone,
    act: (sql) => RegistrationStore.make(sql).lockInstallation([sha256("lookup")]),
    actsNotOn: { ...ended, "of another push token": `update mobile_device set token_lookup = ${hash("another")}` }
  })
  testConditions(it, "a phone counts", {
    given: phone,
    act: (sql) =>
      Effect.map(
        RegistrationStore.make(sql).count(owner),
        Option.filter(({ ofProject, ofSubject }) => ofProject === 1 && ofSubject === 1)
      ),
    actsNotOn: {
      ...ended,
      "that is inactive": endDevice("inactive"),
      "in another project": notMine["in another project"],
      "for another person": notMine["of another person"]
    }
  })
})

layer(TestDatabase.sql)("statements of channels", (it) => {
  const asChannel = `
    update mobile_device
       set provider = 'ntfy', environment = 'channel', subject = null, client_id = null, grant_id = null`
  const channel = `${phone}; ${asChannel}`
  const another = { "another one": notMine["another phone"] }
  const aPhone = {
    "a phone": `
      update mobile_device
         set provider = 'apns', environment = 'production', subject = '${ids.projectToken}', client_id = 'client',
             grant_id = '${ids.grant}'`
  }
  testConditions(it, "a channel is locked", {
    given: channel,
    act: (sql) => ChannelStore.make(sql).lock(ids.device),
    actsOn: { "after its end": endDevice("revoked") },
    actsNotOn: { ...another, ...aPhone }
  })
  testConditions(it, "a channel is listed", {
    given: channel,
    act: (sql) => ChannelStore.make(sql).list(ids.project, { after: id(49), limit: 9 }),
    actsOn: { "after its end": endDevice("revoked") },
    actsNotOn: {
      ...aPhone,
      "in another project": notMine["in another project"],
      "that an earlier page has": `update mobile_device set device_id = '${id(49)}'`
    }
  })
  testConditions(it, "a channel counts towards its project's limit", {
    given: channel,
    act: (sql) =>
      Effect.map(
        LimitStore.make(sql).find(ids.project, now),
        Option.filter(({ channels }) => channels === 1)
      ),
    actsNotOn: { ...aPhone, "in another project": notMine["in another project"], "after its end": endDevice("revoked") }
  })
  testConditions(it, "a channel is listed with what became of its last notification", {
    given: `${channel};
      insert into push_outbox
      select (jsonb_populate_record(o, '{
               "delivery_id": "${id(46)}", "event_id": "${id(47)}", "created_at": "2026-05-01T00:00:00Z",
               "last_reason": "timeout"}')).*
        from push_outbox o
       where delivery_id = '${ids.delivery}'`,
    act: (sql) =>
      Effect.map(ChannelStore.make(sql).list(ids.project, { after: undefined, limit: 9 }), (found) =>
        found.filter(({ last_reason, last_state }) => last_state === "pending" && last_reason === null)
      ),
    actsNotOn: { "of another channel": `update push_outbox set device_id = '${id(48)}'` }
  })
  const sealed = { token_key_id: "k2", token_sealed: sha256("sealed again"), token_lookup: sha256("lookup again") }
  const made = {
    channel_id: id(46),
    project_id: ids.project,
    kind: "ntfy",
    host: "h",
    titles: false,
    ...sealed
  } as const
  testConditions(it, "a project's only channel is made", {
    given: phone,
    act: (sql) => ChannelStore.make(sql).insert(made, 1, now),
    actsOn: {
      "beside one that has ended": `${asChannel}; ${endDevice("revoked")}`,
      "beside one of another project": `${asChannel}; ${notMine["in another project"]}`,
      "beside another, if the limit of the project allows two": `${asChannel}; update project set limits = '{"channels": 2}'`
    },
    actsNotOn: {
      "beside another": asChannel,
      "if the limit of the project is none": `update project set limits = '{"channels": 0}'`,
      "in a project that is not there": `delete from project where project_id = '${ids.project}'`,
      twice: `update mobile_device set device_id = '${id(46)}'`
    }
  })
  testConditions(it, "a channel that was made is found", {
    given: channel,
    act: (sql) => ChannelStore.make(sql).findMade(ids.device),
    actsNotOn: { ...another, ...aPhone }
  })
  testConditions(it, "what became of a test is found", {
    given: channel,
    act: (sql) => AnyDeviceStore.make(sql).findDelivery(id(43), ids.device),
    actsNotOn: {
      "of another test": `update push_outbox set event_id = '${id(48)}'`,
      "of another channel": `update push_outbox set device_id = '${id(48)}'`
    }
  })
  testConditions(it, "a channel gets other secrets", {
    given: channel,
    act: (sql) => ChannelStore.make(sql).reseal(ids.device, sealed, now),
    // An answer to what the earlier secret signed must not end the channel.
    seen: `select from mobile_device where token_key_id = 'k2' and token_updated_at = ${sqlNow}`,
    actsNotOn: another
  })
})

layer(TestDatabase.sql)("sweeps of phones", (it) => {
  const sweep = (name: string) => (sql: SqlClient.SqlClient) =>
    sweeps.find((one) => one.name === name)!.run(sql, now, 9)
  const overAt = (at: string) => `update oauth_grant set expires_at = ${at}`
  const aMinuteAgo = `${sqlNow} - interval '1 minute'`
  const inForce = {
    "before the end of its grant": overAt(later),
    "of another grant": `update mobile_device set grant_id = '${id(39)}'`,
    "of a grant whose phones have ended": "update oauth_grant set devices_ended = true"
  }
  testConditions(it, "a phone ends with its grant", {
    given: `${phone}; ${overAt(sqlNow)}`,
    bystander: phone,
    act: sweep("end devices"),
    seen: "select from mobile_device where state_reason = 'sign_in_ended'",
    actsOn: { "that was revoked": `${overAt(later)}; ${endGrant}` },
    actsNotOn: { ...inForce, "after its own end": endDevice("inactive") }
  })
  testConditions(it, "what waits for a phone is silenced with it", {
    given: `${phone}; ${overAt(sqlNow)}`,
    bystander: phone,
    act: sweep("end devices"),
    seen: "select from push_outbox where state = 'suppressed'",
    actsNotOn: {
      ...inForce,
      "in flight": lease(later),
      "for another phone": `update push_outbox set device_id = '${id(48)}'`
    }
  })
  testConditions(it, "a grant is marked once its phones have ended", {
    given: `${phone}; ${overAt(aMinuteAgo)}`,
    bystander: phone,
    act: sweep("end devices"),
    actsNotOn: {
      "in the minute after its end": overAt(`${aMinuteAgo} + interval '1 ms'`),
      "that is marked": "update oauth_grant set devices_ended = true",
      "in force": overAt(later)
    }
  })
  const browser = `${phone}; ${subscribed}`
  const tokenOverAt = (when: string) => `update project_token set expires_at = ${when}`
  testConditions(it, "a browser ends with its project token", {
    given: `${browser}; ${tokenOverAt(sqlNow)}`,
    bystander: browser,
    act: sweep("end browsers"),
    seen: "select from mobile_device where state_reason = 'sign_in_ended'",
    actsOn: { "that was revoked": `${tokenOverAt(later)}; update project_token set revoked_at = ${past}` },
    actsNotOn: {
      "before the end of its token": tokenOverAt(later),
      "of another token": `update mobile_device set subject = '${id(19)}'`,
      "with a sign-in of its own": `update mobile_device set grant_id = '${id(39)}', client_id = 'client'`,
      "of a token whose browsers have ended": "update project_token set devices_ended = true",
      "after its own end": endDevice("inactive")
    }
  })
  testConditions(it, "an ended phone is deleted", {
    given: `${phone}; ${endDevice("revoked")}; update mobile_device set ended_at = ${longAgo}`,
    bystander: phone,
    act: sweep("purge devices"),
    actsNotOn: { "for thirty days": `update mobile_device set ended_at = ${thirtyDays}` }
  })
  const registered = (at: string) => `
    insert into mobile_registration (project_id, subject, key_hash, request_hash, device_id, created, created_at)
    values ('${ids.project}', '${ids.projectToken}', ${hash("key")}, ${hash("request")}, '${ids.device}', true, ${at})`
  testConditions(it, "a registration is deleted", {
    given: `${phone}; ${registered(longAgo)}`,
    bystander: `${phone}; ${registered(past)}`,
    act: sweep("purge registrations"),
    actsNotOn: { "for thirty days": `update mobile_registration set created_at = ${thirtyDays}` }
  })
})
