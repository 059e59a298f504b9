/** Each condition in the statements and sweeps of passkeys and console sessions decides alone in one row. */
import { layer } from "@effect/vitest"
import { Effect, Option } from "effect"
import type { SqlClient } from "effect/sql"
import { openSessions } from "../../src/platform/sql/access/OpenSession.ts"
import { sha256 } from "../../src/platform/crypto/Sha256.ts"
import * as ProjectTokenStore from "../../src/signin/access/ProjectTokenStore.ts"
import * as AuthorizationRequestStore from "../../src/signin/oauth/authorize/AuthorizationRequestStore.ts"
import * as Store from "../../src/signin/passkeys/PersonKeyStore.ts"
import { sweeps } from "../../src/signin/passkeys/Sweeps.ts"
import * as SessionStore from "../../src/signin/sessions/SessionStore.ts"
import { sweeps as sessionSweeps } from "../../src/signin/sessions/Sweeps.ts"
import { sweepOf, testConditions } from "../support/statements/Conditions.ts"
import {
  disableProject,
  hash,
  id,
  ids,
  lastingToken,
  later,
  longAgo,
  now,
  passkey,
  past,
  projects,
  request,
  signedIn,
  sqlNow,
  thirtyDays
} from "../support/statements/OneOfEach.ts"
import { TestDatabase } from "../support/database/TestDatabase.ts"

const { personKey, project, projectToken } = ids
const inAnHour = new Date(now.getTime() + 3_600_000)
const halfAnHourAgo = new Date(now.getTime() - 1_800_000)
const firstPage = { after: undefined, limit: 9 }

const tokenOver = {
  "after its token was revoked": `update project_token set revoked_at = ${past}`,
  "at the expiry of its token": `update project_token set expires_at = ${sqlNow}`,
  "of a token for agents only": "update project_token set opens_console = false",
  "in a disabled project": disableProject
}
const ofAnotherToken = { "of another token": `update person_key set project_token_id = '${id(19)}'` }
const another = { "if it is another one": `update person_key set person_key_id = '${id(89)}'` }
const switchedOff = { "after it was switched off": `update person_key set disabled_at = ${past}` }
const removed = { "after it was removed": `update person_key set removed_at = ${past}` }

layer(TestDatabase.sql)("statements of passkeys", (it) => {
  const challenge = `
    insert into person_key_challenge (challenge_hash, browser_hash, asked_by, created_at, expires_at)
    values (${hash("challenge")}, ${hash("browser")}, 'network', ${past}, ${later})`
  testConditions(it, "a challenge is used", {
    given: challenge,
    bystander: "",
    act: (sql) => Store.make(sql).useChallenge(sha256("challenge"), sha256("browser"), now),
    actsNotOn: {
      "if it is another one": `update person_key_challenge set challenge_hash = ${hash("another")}`,
      "by another browser": `update person_key_challenge set browser_hash = ${hash("another")}`,
      twice: `update person_key_challenge set used_at = ${past}`,
      "at its expiry": `update person_key_challenge set expires_at = ${sqlNow}`
    }
  })
  testConditions(it, "a challenge that was not used is found", {
    given: challenge,
    bystander: "",
    act: (sql) => Store.make(sql).findChallenge(sha256("challenge")),
    actsNotOn: { "if it is another one": `update person_key_challenge set challenge_hash = ${hash("another")}` }
  })
  const first = `where challenge_hash = ${hash("challenge")}`
  testConditions(it, "the oldest open challenge of a network gives way", {
    given: `${challenge};
      update person_key_challenge set created_at = ${longAgo};
      insert into person_key_challenge
      select (jsonb_populate_record(c, jsonb_build_object(
               'challenge_hash', sha256(n::text::bytea), 'created_at', ${past}))).*
        from person_key_challenge c, generate_series(1, 49) n`,
    bystander: "",
    act: (sql) => {
      const asked = {
        challenge_hash: sha256("new"),
        browser_hash: sha256("browser"),
        asked_by: "network",
        site: "site"
      }
      return Store.make(sql).insertChallenge(asked, inAnHour, now)
    },
    seen: `select from person_key_challenge having count(*) = 50 and not bool_or(challenge_hash = ${hash("challenge")})`,
    actsNotOn: {
      "of another network": `update person_key_challenge set asked_by = 'other' ${first}`,
      "after it was used": `update person_key_challenge set used_at = ${past} ${first}`,
      "while another is of another network": `update person_key_challenge set asked_by = 'other' where challenge_hash = ${hash("1")}`,
      "while another is used": `update person_key_challenge set used_at = ${past} where challenge_hash = ${hash("1")}`
    }
  })

  testConditions(it, "a passkey is found", {
    given: passkey,
    act: (sql) => Store.make(sql).find(sha256("credential id"), now),
    actsNotOn: { "if it is another one": `update person_key set credential_id = ${hash("another")}` }
  })
  testConditions(it, "a passkey has a token in force", {
    given: passkey,
    act: (sql) =>
      Effect.map(
        Store.make(sql).find(sha256("credential id"), now),
        Option.filter(({ token_in_force }) => token_in_force)
      ),
    actsOn: lastingToken,
    actsNotOn: tokenOver
  })
  testConditions(it, "a use of a passkey counts", {
    given: passkey,
    act: (sql) => Store.make(sql).accept(personKey, 6, now),
    actsOn: { ...lastingToken, "of an authenticator that counts from now on": "update person_key set sign_count = 0" },
    actsNotOn: {
      ...another,
      ...switchedOff,
      ...removed,
      ...tokenOver,
      ...ofAnotherToken,
      "with the count of the last one": "update person_key set sign_count = 6",
      "with a lower count": "update person_key set sign_count = 7"
    }
  })
  testConditions(it, "a use of a passkey that does not count counts", {
    given: `${passkey}; update person_key set sign_count = 0`,
    act: (sql) => Store.make(sql).accept(personKey, 0, now),
    actsNotOn: { "if it has counted before": "update person_key set sign_count = 1" }
  })
  testConditions(it, "a passkey is switched off", {
    given: passkey,
    act: (sql) => Store.make(sql).disable(personKey, 5, now),
    actsOn: { "whose count fell": "update person_key set sign_count = 6" },
    actsNotOn: {
      ...another,
      ...removed,
      twice: switchedOff["after it was switched off"],
      "whose count rose": "update person_key set sign_count = 4"
    }
  })
  testConditions(it, "a passkey that does not count is switched off", {
    given: `${passkey}; update person_key set sign_count = 1`,
    act: (sql) => Store.make(sql).disable(personKey, 0, now),
    actsNotOn: { "if it has never counted": "update person_key set sign_count = 0" }
  })
  testConditions(it, "a token gets a passkey", {
    given: signedIn,
    act: (sql) => Store.make(sql).lockToken(projectToken, now),
    actsOn: lastingToken,
    actsNotOn: { "if it is another one": `update project_token set token_id = '${id(19)}'`, ...tokenOver }
  })
  const copies = (from: number, to: number, more: string) => `
    insert into person_key
    select (jsonb_populate_record(k, jsonb_build_object(
             'person_key_id', gen_random_uuid(), 'credential_id', sha256(n::text::bytea), ${more}))).*
      from person_key k, generate_series(${from}, ${to}) n
     where k.person_key_id = '${personKey}'`
  const key = {
    person_key_id: id(88),
    credential_id: sha256("new"),
    public_key: sha256("public"),
    sign_count: 0,
    label: "Laptop",
    project_token_id: projectToken
  }
  testConditions(it, "a passkey is inserted", {
    given: `${passkey}; ${copies(1, 8, "'label', 'Copy'")}`,
    bystander: "",
    act: (sql) => Store.make(sql).insert(key, now),
    actsOn: {
      "beside removed ones": copies(9, 9, `'removed_at', ${past}`),
      "beside those of another token": copies(9, 9, `'project_token_id', '${id(19)}'`)
    },
    actsNotOn: {
      "as the eleventh": copies(9, 9, "'label', 'Copy'"),
      "if it is there": `update person_key set credential_id = ${hash("new")} where person_key_id = '${personKey}'`,
      "of another token": `update project_token set token_id = '${id(19)}'`
    }
  })
  testConditions(it, "a person sees a passkey", {
    given: passkey,
    act: (sql) => Store.make(sql).own(projectToken, now),
    actsOn: switchedOff,
    actsNotOn: { ...ofAnotherToken, ...removed }
  })
  testConditions(it, "an operator sees a passkey", {
    given: passkey,
    act: (sql) => Store.make(sql).list(project, { after: id(80), limit: 9 }, now),
    actsOn: switchedOff,
    actsNotOn: {
      ...removed,
      "of another project": `update person_key set project_id = '${ids.otherProject}'`,
      "that an earlier page has": `update person_key set person_key_id = '${id(80)}'`
    }
  })
  for (const [status, change] of [
    ["active", ""],
    ["disabled", switchedOff["after it was switched off"]],
    ["ended", `${switchedOff["after it was switched off"]}; ${disableProject}`]
  ] as const) {
    testConditions(it, `a passkey is listed as ${status}`, {
      given: `${passkey}; ${change}`,
      act: (sql) =>
        Effect.map(Store.make(sql).list(project, firstPage, now), (keys) =>
          keys.filter((one) => one.status === status)
        ),
      actsNotOn: removed
    })
  }
  testConditions(it, "a passkey is removed by its person", {
    given: passkey,
    act: (sql) => Store.make(sql).remove(personKey, projectToken, now),
    actsOn: removed,
    actsNotOn: { ...another, ...ofAnotherToken }
  })
  testConditions(it, "a passkey is removed by the operator", {
    given: passkey,
    act: (sql) => Store.make(sql).remove(personKey, undefined, now),
    actsOn: ofAnotherToken,
    actsNotOn: another
  })
  testConditions(it, "a passkey gets a name", {
    given: passkey,
    act: (sql) => Store.make(sql).rename(personKey, projectToken, "Phone"),
    actsNotOn: { ...another, ...ofAnotherToken, ...removed }
  })
  testConditions(it, "a passkey ends with its token", {
    given: passkey,
    act: (sql) => ProjectTokenStore.make(sql).endKeys(projectToken, now),
    seen: `select from person_key where person_key_id = '${personKey}' and removed_at = ${sqlNow}`,
    actsNotOn: { ...ofAnotherToken, "if it had ended before": removed["after it was removed"] }
  })

  const session = `
    insert into console_session (
      session_id, secret_hash, project_token_id, project_id, person_key_id, actor, user_agent, created_at, last_used_at,
      expires_at)
    values ('${id(77)}', ${hash("session")}, '${projectToken}', '${project}', '${personKey}', 'a', '', ${past}, ${past},
            ${sqlNow} + interval '1 day')`
  const keyOver = { ...switchedOff, ...removed, "after it was purged": "delete from person_key" }
  testConditions(it, "a session by passkey is open", {
    given: `${passkey}; ${session}`,
    act: (sql) => SessionStore.make(sql).find(sha256("session"), now),
    actsOn: {
      "if the token itself was entered": "update console_session set person_key_id = null; delete from person_key"
    },
    actsNotOn: keyOver
  })
  testConditions(it, "a session by passkey counts", {
    given: `${passkey}; ${session}`,
    act: (sql: SqlClient.SqlClient) =>
      Effect.map(openSessions(sql, project, now), (found) =>
        found.filter((row) => (row as { readonly open: number }).open === 1)
      ),
    actsNotOn: keyOver
  })
  testConditions(it, "a request has the token of its passkey", {
    given: `${passkey}; ${request}; update oauth_request set person_key_id = '${personKey}'`,
    act: (sql) =>
      Effect.map(
        AuthorizationRequestStore.make(sql).find(ids.request, now),
        Option.filter(({ project_id }) => project_id !== null)
      ),
    actsOn: lastingToken,
    actsNotOn: { ...keyOver, ...ofAnotherToken }
  })

  testConditions(it, "a passkey is purged", {
    given: `${passkey}; update person_key set removed_at = ${longAgo}`,
    bystander: "",
    act: sweepOf(sweeps, "purge passkeys", now),
    actsOn: { "of an expired token": `update person_key set removed_at = null, expires_at = ${longAgo}` },
    actsNotOn: {
      "thirty days after its removal": `update person_key set removed_at = ${thirtyDays}`,
      "thirty days after the expiry of its token": `update person_key set removed_at = null, expires_at = ${thirtyDays}`,
      "that is in use": "update person_key set removed_at = null"
    }
  })
  testConditions(it, "a challenge is purged", {
    given: `${challenge}; update person_key_challenge set created_at = ${longAgo}, expires_at = ${past} - interval '1 second'`,
    bystander: "",
    act: sweepOf(sweeps, "purge passkey challenges", now),
    actsNotOn: { "an hour after its expiry": `update person_key_challenge set expires_at = ${past}` }
  })
})

layer(TestDatabase.sql)("statements of sessions", (it) => {
  const session = id(77)
  const opened = `${signedIn};
    insert into console_session (
      session_id, secret_hash, project_token_id, project_id, actor, user_agent, created_at, last_used_at, expires_at)
    values ('${session}', ${hash("session")}, '${projectToken}', '${project}', 'person', '', ${past}, ${past},
            ${sqlNow} + interval '1 day')`
  const asOperators = "update console_session set project_token_id = null, project_id = null, actor = 'operator'"
  const another = { "if it is another one": `update console_session set session_id = '${id(78)}'` }
  const hasEnded = { "after its end": `update console_session set ended_at = ${past}` }
  const ofAnotherProject = { "in another project": `update console_session set project_id = '${ids.otherProject}'` }
  const ofAnotherToken = { "of another token": `update console_session set project_token_id = '${id(19)}'` }
  const store = SessionStore.make

  testConditions(it, "a project token signs in", {
    given: signedIn,
    act: (sql) => store(sql).findToken(sha256("project token"), now),
    actsOn: { ...lastingToken, "though it is for agents only": tokenOver["of a token for agents only"] },
    actsNotOn: {
      "if it is another one": `update project_token set token_hash = ${hash("another")}`,
      "after its revocation": tokenOver["after its token was revoked"],
      "at its expiry": tokenOver["at the expiry of its token"],
      "in a disabled project": disableProject
    }
  })
  testConditions(it, "the project of a sign-in is locked", {
    given: projects,
    act: (sql) => store(sql).lockProject(project),
    actsNotOn: { "if it is another one": `delete from project where project_id = '${project}'` }
  })
  testConditions(it, "a session is found", {
    given: opened,
    act: (sql) => store(sql).find(sha256("session"), now),
    actsOn: { ...lastingToken, "of an operator": asOperators },
    actsNotOn: {
      ...hasEnded,
      "with another secret": `update console_session set secret_hash = ${hash("another")}`,
      "at its expiry": `update console_session set expires_at = ${sqlNow}`,
      "after 12 hours without use": `
        update console_session
           set created_at = ${sqlNow} - interval '13 hours', last_used_at = ${sqlNow} - interval '12 hours'`,
      "after its token was revoked": tokenOver["after its token was revoked"],
      "at the expiry of its token": tokenOver["at the expiry of its token"],
      "in a disabled project": disableProject
    }
  })
  testConditions(it, "a session counts", {
    given: opened,
    act: (sql) =>
      Effect.map(store(sql).countOpen(project, now), (found) => Option.filter(found, ({ open }) => open === 1)),
    actsNotOn: { ...hasEnded, ...ofAnotherProject }
  })
  testConditions(it, "a session is listed", {
    given: opened,
    act: (sql) => store(sql).list(project, { after: id(70), limit: 9 }, now),
    actsNotOn: {
      ...hasEnded,
      ...ofAnotherProject,
      "that an earlier page has": `update console_session set session_id = '${id(70)}'`
    }
  })
  testConditions(it, "a session makes room for another", {
    given: opened,
    act: (sql) => store(sql).endOneOfMost(project, projectToken, now),
    actsNotOn: { ...hasEnded, ...ofAnotherProject }
  })
  testConditions(it, "a session is used", {
    given: opened,
    act: (sql) => store(sql).touch(session, halfAnHourAgo, now),
    seen: `select from console_session where session_id = '${session}' and last_used_at = ${sqlNow}`,
    actsNotOn: another
  })
  testConditions(it, "a session ends", {
    given: opened,
    act: (sql) => store(sql).end(session, now),
    actsOn: hasEnded,
    actsNotOn: another
  })
  testConditions(it, "a session ends for the first time", {
    given: opened,
    act: (sql) => Effect.map(store(sql).end(session, now), (found) => Option.filter(found, ({ first }) => first)),
    actsNotOn: hasEnded
  })
  testConditions(it, "a session ends with all of its token", {
    given: opened,
    act: (sql) => store(sql).endAll({ actor: "person", token_id: projectToken }, now),
    actsNotOn: { ...hasEnded, ...ofAnotherToken }
  })
  testConditions(it, "a session ends with all of its operator", {
    given: `${opened}; ${asOperators}`,
    bystander: "",
    act: (sql) => store(sql).endAll({ actor: "operator", token_id: null }, now),
    actsNotOn: {
      ...hasEnded,
      "of another operator": "update console_session set actor = 'another'",
      "of a project token": `update console_session set project_token_id = '${projectToken}', project_id = '${project}'`
    }
  })

  const next = {
    session_id: id(79),
    secret_hash: sha256("next"),
    project_token_id: projectToken,
    project_id: project,
    person_key_id: null,
    actor: "person",
    user_agent: "",
    expires_at: inAnHour
  }
  const continued = `select from console_session where session_id = '${id(79)}' and last_visit_at = ${past}`
  testConditions(it, "a new session knows the last visit with its token", {
    given: opened,
    act: (sql) => store(sql).insert(next, halfAnHourAgo, now),
    seen: continued,
    actsNotOn: {
      ...ofAnotherToken,
      "that goes on": `update console_session set last_used_at = ${sqlNow} - interval '30 minutes'`
    }
  })
  testConditions(it, "a new session knows the last visit of its operator", {
    given: `${opened}; ${asOperators}`,
    bystander: "",
    act: (sql) =>
      store(sql).insert({ ...next, project_token_id: null, project_id: null, actor: "operator" }, halfAnHourAgo, now),
    seen: continued,
    actsNotOn: {
      "of another one": "update console_session set actor = 'another'",
      "of a project token": `update console_session set project_token_id = '${projectToken}', project_id = '${project}'`
    }
  })

  const link = `${projects};
    insert into console_link (code_hash, project_id, actor, created_at, expires_at)
    values (${hash("code")}, '${project}', 'operator', ${past}, ${later})`
  const anotherCode = { "with another code": `update console_link set code_hash = ${hash("another")}` }
  testConditions(it, "a link is made", {
    given: projects,
    act: (sql) =>
      store(sql).insertLink({ code_hash: sha256("new"), project_id: project, actor: "operator" }, inAnHour, now),
    actsNotOn: { "for a project that is not there": `delete from project where project_id = '${project}'` }
  })
  testConditions(it, "a link opens a session", {
    given: link,
    act: (sql) => store(sql).useLink(sha256("code"), now),
    actsNotOn: {
      ...anotherCode,
      twice: `update console_link set used_at = ${past}`,
      "at its expiry": `update console_link set expires_at = ${sqlNow}`
    }
  })
  testConditions(it, "a link that came back is found", {
    given: `${link}; update console_link set used_at = ${past}`,
    act: (sql) => store(sql).findUsedLink(sha256("code")),
    actsNotOn: { ...anotherCode, "that nobody has used": "update console_link set used_at = null" }
  })

  testConditions(it, "a session is purged", {
    given: `${opened}; update console_session set created_at = ${longAgo} - interval '1 hour', expires_at = ${longAgo}`,
    bystander: "",
    act: sweepOf(sessionSweeps, "purge console sessions", now),
    actsNotOn: { "for thirty days": `update console_session set expires_at = ${thirtyDays}` }
  })
  testConditions(it, "a link is purged", {
    given: `${link}; update console_link set expires_at = ${past} - interval '1 second'`,
    bystander: "",
    act: sweepOf(sessionSweeps, "purge console links", now),
    actsNotOn: { "for an hour": `update console_link set expires_at = ${past}` }
  })
})
