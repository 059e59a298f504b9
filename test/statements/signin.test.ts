/** Each condition in the statements and sweeps of sign-in decides alone in one row (spec 5.1 to 5.5). */
import { layer } from "@effect/vitest"
import { Effect, Option } from "effect"
import type { SqlClient } from "effect/sql"
import { sha256 } from "../../src/platform/crypto/Sha256.ts"
import * as AccessStore from "../../src/signin/access/AccessStore.ts"
import * as ProjectTokenStore from "../../src/signin/access/ProjectTokenStore.ts"
import * as AuthorizationRequestStore from "../../src/signin/oauth/authorize/AuthorizationRequestStore.ts"
import * as ClientStore from "../../src/signin/oauth/clients/ClientStore.ts"
import * as GrantStore from "../../src/signin/oauth/grants/GrantStore.ts"
import { sweeps } from "../../src/signin/oauth/Sweeps.ts"
import { remember } from "../../src/platform/proofs/ProofStore.ts"
import * as BridgeAccessStore from "../../src/signin/oauth/tokens/BridgeAccessStore.ts"
import * as CodeStore from "../../src/signin/oauth/tokens/CodeStore.ts"
import * as RefreshTokenStore from "../../src/signin/oauth/tokens/RefreshTokenStore.ts"
import { changedEachWay, lookedUp, type Statement, sweepOf, testConditions } from "../support/statements/Conditions.ts"
import {
  audience,
  disableProject,
  endGrant,
  endToken,
  enrolled,
  fingerprint,
  grantAccess,
  grantOver,
  hash,
  id,
  ids,
  lastingToken,
  later,
  longAgo,
  now,
  otherAudience,
  past,
  projects,
  reaching,
  request,
  revokeIdentity,
  signedIn,
  sqlNow,
  thirtyDays,
  trace
} from "../support/statements/OneOfEach.ts"
import { TestDatabase } from "../support/database/TestDatabase.ts"

const others = `bytea '\\x${"07".repeat(32)}'`
const firstPage = { after: undefined, limit: 9 }
const inAnHour = new Date(now.getTime() + 3_600_000)
const proven = { jkt: sha256("key"), used: { proof_hash: sha256("proof"), forget_at: inAnHour } }
const anHourAgo = new Date(now.getTime() - 3_600_000)

const projectTokenOver = {
  "if it is another one": `update project_token set token_hash = ${others}`,
  "after its revocation": `update project_token set revoked_at = ${past}`,
  "at its expiry": `update project_token set expires_at = ${sqlNow}`,
  "in a disabled project": disableProject
}

const expireGrant = `update oauth_grant set expires_at = ${sqlNow}`

layer(TestDatabase.sql)("statements of sign-in", (it) => {
  testConditions(it, "a project token opens", {
    given: signedIn,
    act: (sql) => lookedUp(AccessStore.make(sql, audience).projectToken, { token_hash: sha256("project token"), now }),
    actsOn: lastingToken,
    actsNotOn: projectTokenOver
  })
  testConditions(it, "a project token is accepted for a request", {
    given: signedIn,
    act: (sql) => AuthorizationRequestStore.make(sql).findToken(sha256("project token"), now),
    actsOn: lastingToken,
    actsNotOn: projectTokenOver
  })
  testConditions(it, "an access token opens", {
    given: signedIn,
    act: (sql) => lookedUp(AccessStore.make(sql, audience).accessToken, { token_hash: sha256("access"), now }),
    actsOn: lastingToken,
    actsNotOn: {
      "if it is another one": `update oauth_access_token set token_hash = ${others}`,
      "after its revocation": `update oauth_access_token set revoked_at = ${past}`,
      "at its expiry": `update oauth_access_token set expires_at = ${sqlNow}`,
      ...grantOver,
      ...otherAudience
    }
  })
  /** What ends the access of a Bridge. */
  const bridgeOver = {
    "of another key": `update bridge_identity set public_key_fingerprint = 'sha256:${"1".repeat(64)}'`,
    "after the withdrawal": "update bridge_identity set access_role = null, access_granted_at = null",
    "with another role": "update bridge_identity set access_role = 'contributor'",
    "of a revoked Bridge": revokeIdentity,
    "of a Bridge whose token was revoked": endToken(ids.token),
    "of a Bridge whose token has expired": `update bridge_token set expires_at = ${sqlNow}`,
    "of a Bridge without a token": `update bridge_token set identity_id = '${id(89)}'`,
    "in a disabled project": disableProject
  }
  testConditions(it, "an access token of a Bridge opens", {
    given: reaching,
    act: (sql) => lookedUp(AccessStore.make(sql, audience).bridgeToken, { token_hash: sha256("bridge access"), now }),
    actsNotOn: {
      "if it is another one": `update bridge_access_token set token_hash = ${others}`,
      "at its expiry": `update bridge_access_token set expires_at = ${sqlNow}`,
      "of another Bridge": `update bridge_access_token set identity_id = '${id(89)}'`,
      "for another resource": "update bridge_access_token set resource = 'http://127.0.0.1:8788/mcp'",
      "of another instance": "update bridge_access_token set instance_id = 'other'",
      "that was issued before the grant": `update bridge_identity set access_granted_at = ${sqlNow}`,
      "that was issued before the enrollment": `update bridge_identity set enrolled_at = ${sqlNow}`,
      ...bridgeOver
    }
  })
  const asserted = {
    client_id: "bridge",
    project_id: ids.project,
    bridge_id: "bridge-1",
    fingerprint,
    used: { proof_hash: sha256("assertion"), forget_at: inAnHour }
  }
  const usedAssertion = `insert into bridge_dpop_proof values (${hash("assertion")}, ${later})`
  testConditions(it, "the Bridge of an assertion is found, in force", {
    given: `${enrolled}; ${grantAccess}`,
    act: (sql) =>
      Effect.map(
        BridgeAccessStore.make(sql, audience).find(asserted, undefined, now),
        Option.filter(({ alive, assertion_used, role }) => alive && role === "reader" && !assertion_used)
      ),
    actsNotOn: {
      "if it has another name": "update bridge_identity set bridge_id = 'bridge-2'",
      "if it is of another project": `update bridge_identity set project_id = '${ids.otherProject}'`,
      "after the use of the assertion": usedAssertion,
      ...bridgeOver
    }
  })
  testConditions(it, "an access token is issued to a Bridge", {
    given: `${enrolled}; ${grantAccess}`,
    act: (sql) => {
      const token = { token_id: id(91), token_hash: sha256("new"), expires_at: inAnHour, role: "reader" as const }
      const scopes = ["memory:read"] as const
      return BridgeAccessStore.make(sql, audience).issue(asserted, proven, { ...token, scopes }, now, trace)
    },
    actsNotOn: {
      "of another name": "update bridge_identity set bridge_id = 'bridge-2'",
      "of another project": `update bridge_identity set project_id = '${ids.otherProject}'`,
      "for an assertion that was used": usedAssertion,
      "with a proof that was used": `insert into bridge_dpop_proof values (${hash("proof")}, ${later})`,
      ...bridgeOver
    }
  })
  testConditions(it, "a proof is remembered by itself", {
    given: projects,
    bystander: "",
    act: (sql) => remember(sql, proven.used),
    actsNotOn: { twice: `insert into bridge_dpop_proof values (${hash("proof")}, ${later})` }
  })

  testConditions(it, "a grant counts as foreign", {
    given: `${signedIn}; ${otherAudience["another resource"]}`,
    bystander: signedIn,
    act: (sql) =>
      Effect.map(AccessStore.make(sql, audience).countForeignGrants(now), ([found]) =>
        found!.grants > 0 ? [found] : []
      ),
    actsOn: {
      "with another instance": `${otherAudience["another instance"]};
        update oauth_grant set resource = '${audience.resource}'`
    },
    actsNotOn: {
      "with this audience": `update oauth_grant set resource = '${audience.resource}'`,
      "after its revocation": endGrant,
      "at its expiry": `update oauth_grant set expires_at = ${sqlNow}`
    }
  })

  const notLive = {
    "after its revocation": endGrant,
    "at its expiry": `update oauth_grant set expires_at = ${sqlNow}`,
    "before its code is exchanged": "update oauth_grant set activated_at = null"
  }
  const live = Effect.map((rows: ReadonlyArray<{ readonly live_grants: number }>) =>
    rows.filter(({ live_grants }) => live_grants > 0)
  )
  testConditions(it, "a grant counts for its project token", {
    given: signedIn,
    act: (sql) => live(ProjectTokenStore.make(sql).list(ids.project, firstPage, now)),
    actsNotOn: {
      ...notLive,
      "in another project": `update project_token set project_id = '${ids.otherProject}'`,
      "of another token": `update oauth_grant set project_token_id = '${id(19)}'`
    }
  })
  testConditions(it, "a grant counts for its client", {
    given: signedIn,
    bystander: "",
    act: (sql) => live(ClientStore.make(sql).list(firstPage, now)),
    actsNotOn: { ...notLive, "of another client": "update oauth_grant set client_id = 'other'" }
  })
  testConditions(it, "a project token gives up a grant", {
    given: signedIn,
    act: (sql) => GrantStore.make(sql).endBeyond(ids.projectToken, 0, now),
    actsNotOn: { ...notLive, "of another token": `update oauth_grant set project_token_id = '${id(19)}'` }
  })
  testConditions(it, "a project token is listed as active", {
    given: signedIn,
    act: (sql) =>
      Effect.map(ProjectTokenStore.make(sql).list(ids.project, firstPage, now), (tokens) =>
        tokens.filter(({ status }) => status === "active")
      ),
    actsOn: lastingToken,
    actsNotOn: {
      "after its revocation": projectTokenOver["after its revocation"],
      "at its expiry": projectTokenOver["at its expiry"]
    }
  })
  testConditions(it, "a project token is listed as expired", {
    given: `${signedIn}; ${projectTokenOver["at its expiry"]}`,
    act: (sql) =>
      Effect.map(ProjectTokenStore.make(sql).list(ids.project, firstPage, now), (tokens) =>
        tokens.filter(({ status }) => status === "expired")
      ),
    actsNotOn: { "that was revoked before": projectTokenOver["after its revocation"] }
  })
  testConditions(it, "a grant is listed as expired", {
    given: `${signedIn}; ${expireGrant}`,
    act: (sql) =>
      Effect.map(GrantStore.make(sql).list(ids.project, firstPage, now), (grants) =>
        grants.filter(({ status }) => status === "expired")
      ),
    actsNotOn: { "that was revoked before": endGrant }
  })
  testConditions(it, "a grant that has expired is listed as revoked", {
    given: `${signedIn}; ${expireGrant}; ${endGrant}`,
    act: (sql) =>
      Effect.map(GrantStore.make(sql).list(ids.project, firstPage, now), (grants) =>
        grants.filter(({ status }) => status === "revoked")
      ),
    actsNotOn: { "if nobody ended it": "update oauth_grant set revoked_at = null, end_reason = null" }
  })
  const actors = [`project_token:${ids.projectToken}`, `oauth_grant:${ids.grant}`]
  const named = (project_id: string | undefined) => (sql: SqlClient.SqlClient) =>
    Effect.map(ProjectTokenStore.make(sql).names(project_id, actors), (found) => (found.length === 2 ? found : []))
  const labelled = `${signedIn}; update project_token set label = 'Ada'`
  testConditions(it, "a token and a sign-in have their names in their project", {
    given: labelled,
    act: named(ids.project),
    actsNotOn: {
      "without a label": "update project_token set label = null",
      "if the token is another project's": `update project_token set project_id = '${ids.otherProject}'`,
      "if the sign-in is another project's": `update oauth_grant set project_id = '${ids.otherProject}'`
    }
  })
  testConditions(it, "a token and a sign-in have their names in every project", {
    given: labelled,
    act: named(undefined),
    actsOn: { "also of another one": `update oauth_grant set project_id = '${ids.otherProject}'` },
    actsNotOn: { "without a label": "update project_token set label = null" }
  })
  testConditions(it, "a grant is listed, once", {
    given: signedIn,
    act: (sql) =>
      Effect.map(GrantStore.make(sql).list(ids.project, firstPage, now), (grants) =>
        grants.length === 1 ? grants : []
      ),
    actsNotOn: { "in another project": `update oauth_grant set project_id = '${ids.otherProject}'` }
  })
  testConditions(it, "a grant waits for the exchange of its code", {
    given: `${signedIn}; update oauth_grant set activated_at = null`,
    act: (sql) =>
      Effect.map(GrantStore.make(sql).list(ids.project, firstPage, now), (grants) =>
        grants.filter(({ status }) => status === "waiting")
      ),
    actsNotOn: {
      "after it": `update oauth_grant set activated_at = ${past}`,
      "after its revocation": endGrant,
      "at its expiry": `update oauth_grant set expires_at = ${sqlNow}`,
      "at the expiry of the code": `update oauth_code set expires_at = ${sqlNow}`,
      "if the code is another's": `update oauth_code set grant_id = '${id(39)}'`
    }
  })

  testConditions(it, "a person's grant is theirs", {
    given: signedIn,
    act: (sql) => GrantStore.make(sql).own(ids.projectToken, firstPage, now),
    actsOn: {
      ...lastingToken,
      "before the exchange of its code": "update oauth_grant set activated_at = null",
      "without a code, which was exchanged": "delete from oauth_code"
    },
    actsNotOn: {
      "of another project token": `update oauth_grant set project_token_id = '${id(19)}'`,
      "whose code nobody came for": `update oauth_grant set activated_at = null; update oauth_code set expires_at = ${sqlNow}`,
      "whose code is another's": `update oauth_grant set activated_at = null;
        update oauth_code set grant_id = '${id(39)}'`,
      ...grantOver
    }
  })
  testConditions(it, "a person ends their grant", {
    given: signedIn,
    act: (sql) => GrantStore.make(sql).end(ids.grant, "revoked_by_person", now, ids.projectToken),
    actsOn: { "after it ended": endGrant },
    actsNotOn: {
      "if it is another one": `update oauth_grant set grant_id = '${id(39)}'`,
      "of another project token": `update oauth_grant set project_token_id = '${id(19)}'`
    }
  })

  const endedFor = (reason: string) => `update oauth_grant set revoked_at = ${past}, end_reason = '${reason}'`
  const unfetched = (ago: string) =>
    `update oauth_grant set activated_at = null, created_at = ${sqlNow} - interval '${ago}'`
  const waiting = { "before its client comes for it": unfetched("59 minutes") }
  const nobodyCameFor = { "that no client came for": unfetched("1 hour") }
  testConditions(it, "a grant ends with its project token", {
    given: signedIn,
    act: (sql) => ProjectTokenStore.make(sql).endGrants(ids.projectToken, now),
    actsOn: { "at an earlier call": endedFor("project_token_revoked"), ...waiting },
    actsNotOn: {
      ...nobodyCameFor,
      "of another project token": `update oauth_grant set project_token_id = '${id(19)}'`,
      "of another project token, at an earlier call": `${endedFor("project_token_revoked")};
        update oauth_grant set project_token_id = '${id(19)}'`,
      "after its revocation": endedFor("revoked_by_client")
    }
  })
  testConditions(it, "a grant ends with its client", {
    given: signedIn,
    act: (sql) => ClientStore.make(sql).endGrants("client", now),
    actsOn: { "at an earlier call": endedFor("client_disabled"), ...waiting },
    actsNotOn: {
      ...nobodyCameFor,
      "of another client": "update oauth_grant set client_id = 'other'",
      "of another client, at an earlier call": `${endedFor("client_disabled")};
        update oauth_grant set client_id = 'other'`,
      "after its revocation": endedFor("revoked_by_client")
    }
  })
  testConditions(it, "a client revokes its access token", {
    given: signedIn,
    act: (sql) => GrantStore.make(sql).revokeAccess(sha256("access"), "client", now, trace),
    seen: `select from oauth_access_token join audit_event on true where revoked_at = ${sqlNow}`,
    actsNotOn: {
      "if it is another one": `update oauth_access_token set token_hash = ${others}`,
      "of another grant": `update oauth_access_token set grant_id = '${id(39)}'`,
      "of another client": "update oauth_grant set client_id = 'other'",
      "after its revocation": `update oauth_access_token set revoked_at = ${past}`
    }
  })
  testConditions(it, "a client ends the grant of its refresh token", {
    given: signedIn,
    act: (sql) => GrantStore.make(sql).revokeFamily(sha256("refresh"), "client", now, trace),
    seen: `select from oauth_grant join audit_event on true where revoked_at = ${sqlNow}`,
    actsNotOn: {
      "if it is another one": `update oauth_refresh_token set token_hash = ${others}`,
      "of another grant": `update oauth_refresh_token set grant_id = '${id(39)}'`,
      "of another client": "update oauth_grant set client_id = 'other'",
      "after its revocation": endGrant
    }
  })

  testConditions(it, "a request has its project token", {
    given: `${signedIn}; ${request}`,
    act: (sql) =>
      Effect.map(
        AuthorizationRequestStore.make(sql).find(ids.request, now),
        Option.filter(({ project_id, project_token_id }) => project_id !== null && project_token_id !== null)
      ),
    actsOn: lastingToken,
    actsNotOn: {
      "if the request is another one": `update oauth_request set request_id = '${id(39)}'`,
      "if nobody has entered it": "update oauth_request set project_token_id = null",
      "after its revocation": projectTokenOver["after its revocation"],
      "at its expiry": projectTokenOver["at its expiry"],
      "in a disabled project": disableProject
    }
  })
  const session = `
    insert into console_session (
      session_id, secret_hash, project_token_id, project_id, actor, user_agent, created_at, last_used_at, expires_at)
    values ('${id(77)}', sha256('session'), '${ids.projectToken}', '${ids.project}', 'a', '', ${past}, ${past},
            ${sqlNow} + interval '1 day');
    update oauth_request set console_session_id = '${id(77)}'`
  testConditions(it, "a request has the token of its console session", {
    given: `${signedIn}; ${request}; ${session}`,
    act: (sql) =>
      Effect.map(
        AuthorizationRequestStore.make(sql).find(ids.request, now),
        Option.filter(({ project_id }) => project_id !== null)
      ),
    actsOn: {
      ...lastingToken,
      "if the token itself was entered": `delete from console_session; update oauth_request set console_session_id = null`
    },
    actsNotOn: {
      "after the session ended": `update console_session set ended_at = ${past}`,
      "at its expiry": `update console_session set expires_at = ${sqlNow}`,
      "after it was idle for too long": `update console_session set created_at = ${sqlNow} - interval '13 hours',
        last_used_at = ${sqlNow} - interval '12 hours'`,
      "after it was purged": "delete from console_session",
      "after its token was revoked": projectTokenOver["after its revocation"]
    }
  })
  testConditions(it, "a project token is bound to a request", {
    given: `${signedIn}; ${request}; update oauth_request set project_token_id = null`,
    act: (sql) => {
      const request = { request_id: ids.request, browser_hash: sha256("browser") }
      return AuthorizationRequestStore.make(sql).bindToken(
        request,
        { token_id: ids.projectToken, session_id: null, person_key_id: null },
        sha256("renewed")
      )
    },
    actsNotOn: {
      "if it is another one": `update oauth_request set request_id = '${id(39)}'`,
      "after another form renewed the cookie": `update oauth_request set browser_hash = ${others}`,
      "after the decision": `update oauth_request set decided_at = ${past}`
    }
  })
  const oldest = `where request_id = '${ids.request}'`
  testConditions(it, "the oldest open request of a network gives way", {
    given: `${signedIn}; ${request};
      update oauth_request set project_token_id = null, created_at = ${longAgo};
      insert into oauth_request
      select (jsonb_populate_record(r, jsonb_build_object('request_id', gen_random_uuid(), 'created_at', ${past}))).*
        from oauth_request r, generate_series(1, 49)`,
    bystander: "",
    act: (sql) => {
      const from = { network: "network", site: "site" }
      const another = { request_id: id(38), browser_hash: sha256("another"), client_id: "client", ...from }
      const rest = { redirect_uri: "http://127.0.0.1/callback", state: undefined, scopes: ["memory:read"] as const }
      const opened = { ...another, ...rest, code_challenge: "c".repeat(43), dpop_jkt: null, expires_at: inAnHour }
      return AuthorizationRequestStore.make(sql).insert(opened, now)
    },
    seen: `select from oauth_request having count(*) = 50 and not bool_or(request_id = '${ids.request}')`,
    actsOn: { "though it was denied": `update oauth_request set decided_at = ${past} ${oldest}` },
    actsNotOn: {
      "of another network": `update oauth_request set network = 'other' ${oldest}`,
      "with a project token": `update oauth_request set project_token_id = '${ids.projectToken}' ${oldest}`,
      "while another is of another network": `
        update oauth_request set network = 'other' where request_id = (select max(request_id::text)::uuid from oauth_request)`,
      "while another has a project token": `update oauth_request set project_token_id = '${ids.projectToken}'
         where request_id = (select max(request_id::text)::uuid from oauth_request)`
    }
  })
  const client = {
    client_id: "client",
    kind: "dynamic" as const,
    name: "Client",
    redirect_uris: [],
    application_type: null,
    grant_types: [],
    scopes: []
  }
  testConditions(it, "a registered client is kept", {
    given: signedIn,
    act: (sql) => AuthorizationRequestStore.make(sql).keepClient(client, now),
    actsNotOn: {
      "after its removal": "update oauth_client set client_id = 'other'",
      "after it was disabled": `update oauth_client set disabled_at = ${past}`
    }
  })
  const address = "https://agent.example/client"
  testConditions(it, "a client of a document is kept", {
    given: `${signedIn}; update oauth_client set kind = 'document', client_id = '${address}'`,
    act: (sql) =>
      AuthorizationRequestStore.make(sql).keepClient({ ...client, client_id: address, kind: "document" }, now),
    actsOn: { "when it is new": "delete from oauth_client" },
    actsNotOn: { "after it was disabled": `update oauth_client set disabled_at = ${past}` }
  })
  const callback = "https://agent.example/callback"
  testConditions(it, "a client follows its document", {
    given: `${signedIn}; update oauth_client set kind = 'document', client_id = '${address}'`,
    act: (sql) => {
      const kinds = { kind: "document", application_type: "web", grant_types: ["authorization_code"] } as const
      const document = { ...client, ...kinds, client_id: address, name: "Renamed", redirect_uris: [callback] }
      return AuthorizationRequestStore.make(sql).keepClient(document, now)
    },
    seen: `select from oauth_client
            where client_id = '${address}'
              and (name, redirect_uris, application_type, grant_types)
                  = ('Renamed', '{${callback}}'::text[], 'web', '{authorization_code}'::text[])`,
    actsNotOn: { "after it was disabled": `update oauth_client set disabled_at = ${past}` }
  })
  testConditions(it, "a code is replaced", {
    given: `${signedIn}; update oauth_grant set activated_at = null`,
    act: (sql) => {
      const code = { code_hash: sha256("new code"), code_challenge: "c", dpop_jkt: null, expires_at: inAnHour }
      return AuthorizationRequestStore.make(sql).replaceCode(ids.grant, code, now)
    },
    actsNotOn: {
      "of another grant": `update oauth_grant set grant_id = '${id(39)}'`,
      "after its exchange": `update oauth_grant set activated_at = ${past}`,
      "after the end of the grant": endGrant
    }
  })

  const access = {
    token_id: id(91),
    token_hash: sha256("new access"),
    expires_at: inAnHour,
    mobile_expires_at: inAnHour
  }
  const refresh = { token_hash: sha256("new refresh"), expires_at: inAnHour, salt: sha256("salt") }
  const code = {
    code_hash: sha256("code"),
    client_id: "client",
    code_challenge: "c",
    redirect_uri: "http://127.0.0.1/callback"
  }
  const exchanging = { presented: code, access, refresh, trace }
  const strangersCode = { ...exchanging, presented: { ...code, code_hash: sha256("stranger") } }
  const exchangeCode = (sql: SqlClient.SqlClient) =>
    changedEachWay(CodeStore.make(sql, audience).exchange, exchanging, strangersCode)(sql)
  testConditions(it, "a code is exchanged", {
    given: `${signedIn}; delete from oauth_refresh_token`,
    act: exchangeCode,
    actsOn: lastingToken,
    actsNotOn: {
      "if it is another one": `update oauth_code set code_hash = ${others}`,
      "of another grant": `update oauth_code set grant_id = '${id(39)}'`,
      "after its use": `update oauth_code set used_at = ${past}`,
      "at its expiry": `update oauth_code set expires_at = ${sqlNow}`,
      "with another challenge": "update oauth_code set code_challenge = 'other'",
      "with another redirect URI": "update oauth_grant set redirect_uri = 'http://127.0.0.1/other'",
      "of another client": `
        insert into oauth_client
        select (jsonb_populate_record(c, '{"client_id": "other"}')).* from oauth_client c;
        update oauth_grant set client_id = 'other'`,
      "by a client without codes": "update oauth_client set grant_types = '{refresh_token}'",
      ...grantOver,
      ...otherAudience
    }
  })
  const boundTo = (table: string, key: string) => `update ${table} set dpop_jkt = ${hash(key)}`
  const replayedProof = `insert into bridge_dpop_proof values (${hash("proof")}, ${later})`
  testConditions(it, "a code is exchanged with a proof, for tokens of its key", {
    given: `${signedIn}; delete from oauth_refresh_token; ${boundTo("oauth_code", "key")}`,
    act: (sql) => {
      const proving = { ...exchanging, presented: { ...code, proven } }
      return Effect.map(CodeStore.make(sql, audience).exchange([proving], ""), ([issued]) => issued!)
    },
    seen: `select from oauth_access_token a join oauth_refresh_token r on r.grant_id = a.grant_id
            where a.token_id = '${access.token_id}' and a.dpop_jkt = ${hash("key")} and r.dpop_jkt = ${hash("key")}`,
    actsOn: { "if the code is for any key": "update oauth_code set dpop_jkt = null" },
    actsNotOn: { "of another key": boundTo("oauth_code", "other"), "that was used": replayedProof }
  })
  testConditions(it, "a code is exchanged without a proof", {
    given: `${signedIn}; delete from oauth_refresh_token`,
    act: exchangeCode,
    actsNotOn: { "if it is for a key": boundTo("oauth_code", "key") }
  })
  testConditions(it, "a code gives a refresh token", {
    given: `${signedIn}; delete from oauth_refresh_token`,
    act: exchangeCode,
    seen: `select from oauth_refresh_token where token_hash = ${hash("new refresh")}`,
    actsNotOn: { "to a client without refresh tokens": "update oauth_client set grant_types = '{authorization_code}'" }
  })
  const alive = <E>(found: Effect.Effect<Option.Option<{ readonly alive: boolean }>, E>) =>
    Effect.map(
      found,
      Option.filter(({ alive }) => alive)
    )
  testConditions(it, "the grant of a code is alive", {
    given: signedIn,
    act: (sql) => alive(CodeStore.make(sql, audience).find({ code_hash: sha256("code") }, now)),
    actsOn: lastingToken,
    actsNotOn: {
      "of another code": `update oauth_code set code_hash = ${others}`,
      "of another grant": `update oauth_code set grant_id = '${id(39)}'`,
      ...grantOver,
      ...otherAudience
    }
  })
  testConditions(it, "the grant of a refresh token is alive", {
    given: signedIn,
    act: (sql) => alive(RefreshTokenStore.make(sql, audience).find({ token_hash: sha256("refresh") }, anHourAgo, now)),
    actsOn: lastingToken,
    actsNotOn: {
      "of another refresh token": `update oauth_refresh_token set token_hash = ${others}`,
      "of another grant": `update oauth_refresh_token set grant_id = '${id(39)}'`,
      ...grantOver,
      ...otherAudience
    }
  })

  const presented = { token_hash: sha256("refresh"), client_id: "client", scopes: ["memory:read"] as const }
  const using = { presented, access, used_by: sha256("caller"), successor: refresh, trace }
  const stranger = { ...using, presented: { ...presented, token_hash: sha256("stranger") } }
  const useRefresh = (sql: SqlClient.SqlClient) =>
    changedEachWay(RefreshTokenStore.make(sql, audience).use, using, stranger)(sql)
  testConditions(it, "a refresh token is used", {
    given: signedIn,
    act: useRefresh,
    actsOn: lastingToken,
    actsNotOn: {
      "if it is another one": `update oauth_refresh_token set token_hash = ${others}`,
      "of another grant": `update oauth_refresh_token set grant_id = '${id(39)}'`,
      "after its use": `update oauth_refresh_token set used_at = ${past}`,
      "at its expiry": `update oauth_refresh_token set expires_at = ${sqlNow}`,
      "of another client": `
        insert into oauth_client
        select (jsonb_populate_record(c, '{"client_id": "other"}')).* from oauth_client c;
        update oauth_grant set client_id = 'other'`,
      "for a scope that the grant lacks": "update oauth_grant set scopes = '{tasks:read}'",
      "by a client without refresh tokens": "update oauth_client set grant_types = '{authorization_code}'",
      ...grantOver,
      ...otherAudience
    }
  })
  testConditions(it, "a refresh token is used with a proof, for tokens of its key", {
    given: `${signedIn}; ${boundTo("oauth_refresh_token", "key")}`,
    act: (sql) => {
      const proving = { ...using, presented: { ...presented, proven } }
      return Effect.map(RefreshTokenStore.make(sql, audience).use([proving], ""), ([used]) => used!)
    },
    seen: `select from oauth_access_token a join oauth_refresh_token r on r.grant_id = a.grant_id
            where a.token_id = '${access.token_id}' and a.dpop_jkt = ${hash("key")}
              and r.generation = 1 and r.dpop_jkt = ${hash("key")}`,
    actsOn: { "if the token is of no key": "update oauth_refresh_token set dpop_jkt = null" },
    actsNotOn: { "of another key": boundTo("oauth_refresh_token", "other"), "that was used": replayedProof }
  })
  const held = {
    actsOn: {
      "while its successor can still be returned": `
        update oauth_refresh_token set used_at = ${past}, successor_salt = ${hash("salt")}`
    },
    actsNotOn: {
      "with another token": `update oauth_refresh_token set token_hash = ${others}`,
      "of another grant": `update oauth_refresh_token set grant_id = '${id(39)}'`,
      "of another key": boundTo("oauth_refresh_token", "other"),
      "after its use": `update oauth_refresh_token set used_at = ${past}`
    }
  }
  testConditions(it, "the grant of a refresh token counts what its client asks for", {
    given: signedIn,
    act: (sql) => lookedUp(RefreshTokenStore.make(sql, audience).findGrant, { token_hash: presented.token_hash, now }),
    ...held
  })
  testConditions(it, "the grant of a refresh token counts what its client asks for with a proof", {
    given: `${signedIn}; ${boundTo("oauth_refresh_token", "key")}`,
    act: (sql) => RefreshTokenStore.make(sql, audience).findProvenGrant(presented.token_hash, proven),
    actsOn: { ...held.actsOn, "if the token is of no key": "update oauth_refresh_token set dpop_jkt = null" },
    actsNotOn: { ...held.actsNotOn, "that was used": replayedProof }
  })
  testConditions(it, "a refresh token is used without a proof", {
    given: signedIn,
    act: useRefresh,
    actsNotOn: { "if it is of a key": boundTo("oauth_refresh_token", "key") }
  })
  const lasting = { ...refresh, expires_at: new Date(now.getTime() + 7_200_000) }
  for (const [name, act, given] of [
    [
      "a code",
      (sql) => {
        const all = [{ ...exchanging, refresh: lasting }]
        return Effect.map(CodeStore.make(sql, audience).exchange(all, ""), ([issued]) => issued!)
      },
      "; delete from oauth_refresh_token"
    ],
    [
      "a refresh token",
      (sql) => {
        const all = [{ ...using, successor: lasting }]
        return Effect.map(RefreshTokenStore.make(sql, audience).use(all, ""), ([used]) => used!)
      },
      ""
    ]
  ] as ReadonlyArray<readonly [string, Statement["act"], string]>)
    testConditions(it, `a refresh token for ${name} ends with its grant`, {
      given: `${signedIn}${given}`,
      act,
      seen: `select from oauth_refresh_token where token_hash = ${hash("new refresh")} and expires_at = ${later}`,
      actsNotOn: { "that lasts longer": `update oauth_grant set expires_at = ${later} + interval '1 day'` }
    })
  const predecessor = `
    update oauth_refresh_token set generation = 1;
    insert into oauth_refresh_token (token_hash, grant_id, generation, created_at, expires_at, used_at, successor_salt)
    values (${hash("predecessor")}, '${ids.grant}', 0, ${past}, ${later}, ${past}, ${hash("salt")})`
  testConditions(it, "the use of a refresh token ends the replay of its predecessor", {
    given: `${signedIn}; ${predecessor}`,
    act: useRefresh,
    seen: `select from oauth_refresh_token where token_hash = ${hash("predecessor")} and successor_salt is null`,
    actsNotOn: {
      "in another grant": `
        update oauth_refresh_token set grant_id = '${id(39)}' where token_hash = ${hash("predecessor")}`,
      "if the token is not its successor": "update oauth_refresh_token set generation = 2 where generation = 1"
    }
  })
  const replay = (elsewhere: boolean) => (sql: SqlClient.SqlClient) => {
    const replayed = { ...presented, since: anHourAgo, elsewhere }
    return RefreshTokenStore.make(sql, audience).replay(replayed, access, now, trace)
  }
  const used = `${signedIn};
    update oauth_refresh_token set used_at = ${past} + interval '1 second', successor_salt = ${hash("salt")}`
  testConditions(it, "a refresh token is replayed with a proof", {
    given: used,
    act: (sql) => {
      const replayed = { ...presented, since: anHourAgo, elsewhere: false, proven }
      return RefreshTokenStore.make(sql, audience).replay(replayed, access, now, trace)
    },
    seen: `select from oauth_access_token where token_id = '${access.token_id}' and dpop_jkt = ${hash("key")}`,
    actsNotOn: { "that was used": replayedProof }
  })
  for (const elsewhere of [true, false]) {
    testConditions(
      it,
      `a replay ${elsewhere ? "from elsewhere marks its grant" : "by the same caller leaves no mark"}`,
      {
        given: used,
        act: replay(elsewhere),
        seen: `select from oauth_grant where grant_id = '${ids.grant}'
                and replayed_elsewhere_at is ${elsewhere ? "not" : ""} null`,
        actsNotOn: {}
      }
    )
  }
  testConditions(it, "a used refresh token is replayed", {
    given: used,
    act: replay(false),
    actsOn: lastingToken,
    actsNotOn: {
      "if it is another one": `update oauth_refresh_token set token_hash = ${others}`,
      "of another grant": `update oauth_refresh_token set grant_id = '${id(39)}'`,
      "after the use of its successor": "update oauth_refresh_token set successor_salt = null",
      "more than sixty times": "update oauth_refresh_token set replays = 60",
      "after the grace": `update oauth_refresh_token set used_at = ${past}`,
      ...grantOver,
      ...otherAudience
    }
  })
})

layer(TestDatabase.sql)("sweeps of sign-in", (it) => {
  const deletes = (
    what: string,
    { actsNotOn, actsOn = {}, given }: Omit<Parameters<typeof testConditions>[2], "act">
  ) =>
    testConditions(it, `oauth ${what} are deleted`, {
      given: `${signedIn}; ${given}`,
      bystander: `${signedIn}; ${request}`,
      act: sweepOf(sweeps, `oauth ${what}`, now),
      actsOn,
      actsNotOn
    })

  deletes("requests", {
    given: `${request}; update oauth_request set expires_at = ${past} - interval '1 second'`,
    actsNotOn: { "for an hour after their expiry": `update oauth_request set expires_at = ${past}` }
  })
  testConditions(it, "access tokens of bridges are deleted", {
    given: `${reaching}; update bridge_access_token set expires_at = ${sqlNow} - interval '1 ms'`,
    bystander: reaching,
    act: sweepOf(sweeps, "access tokens of bridges", now),
    actsNotOn: { "until their end": `update bridge_access_token set expires_at = ${sqlNow}` }
  })
  const aDayAgo = `${sqlNow} - interval '1 day'`
  deletes("access tokens", {
    given: `update oauth_access_token set expires_at = ${aDayAgo} - interval '1 ms'`,
    actsNotOn: { "for a day after their expiry": `update oauth_access_token set expires_at = ${aDayAgo}` }
  })
  deletes("grants", {
    given: `update oauth_grant set expires_at = ${longAgo}, created_at = ${longAgo}`,
    actsOn: {
      "that were revoked": `
        update oauth_grant set expires_at = ${later}, revoked_at = ${longAgo}, end_reason = 'test'`,
      "whose code nobody exchanged": "update oauth_grant set activated_at = null"
    },
    actsNotOn: {
      "for thirty days after their expiry": `update oauth_grant set expires_at = ${thirtyDays}`,
      "for thirty days after their revocation": `
        update oauth_grant set expires_at = ${later}, revoked_at = ${thirtyDays}, end_reason = 'test'`,
      "for thirty days without an exchange": `
        update oauth_grant set expires_at = ${later}, activated_at = null, created_at = ${thirtyDays}`,
      "that are in force": `update oauth_grant set expires_at = ${later}`
    }
  })
  for (const [what, table] of Object.entries({
    request: "oauth_request",
    code: "oauth_code",
    "access token": "oauth_access_token",
    "refresh token": "oauth_refresh_token"
  })) {
    testConditions(it, `the ${what} of a deleted grant goes`, {
      given: `${signedIn}; ${request};
        update oauth_request set decided_at = ${past}, grant_id = '${ids.grant}';
        update oauth_grant set expires_at = ${longAgo}`,
      bystander: "",
      act: sweepOf(sweeps, "oauth grants", now),
      seen: `select where not exists (select from ${table})`,
      actsNotOn: { "if it is another's": `update ${table} set grant_id = '${id(39)}'` }
    })
  }
  deletes("refresh tokens", {
    given: `update oauth_refresh_token set created_at = ${longAgo}, expires_at = ${longAgo}, used_at = ${longAgo}`,
    actsNotOn: {
      "for thirty days after their use": `update oauth_refresh_token set used_at = ${thirtyDays}`,
      "that were never used": "update oauth_refresh_token set used_at = null"
    }
  })
  const grace = `${sqlNow} - interval '10 seconds'`
  testConditions(it, "the salt of a used refresh token is deleted", {
    given: `${signedIn}; update oauth_refresh_token set used_at = ${grace}, successor_salt = ${hash("salt")}`,
    bystander: signedIn,
    act: sweepOf(sweeps, "oauth refresh salts", now),
    actsNotOn: {
      "within the grace": `update oauth_refresh_token set used_at = ${grace} + interval '1 ms'`,
      twice: "update oauth_refresh_token set successor_salt = null"
    }
  })
  const due = `delete from oauth_grant; update oauth_client set created_at = ${longAgo}`
  deletes("clients", {
    given: due,
    actsOn: {
      "of a document": "update oauth_client set kind = 'document', client_id = 'https://agent.example/client'"
    },
    actsNotOn: {
      "for thirty days": `update oauth_client set created_at = ${thirtyDays}`,
      "for thirty days after their use": `update oauth_client set in_use_at = ${thirtyDays}`,
      "that an operator made": "update oauth_client set kind = 'operator'",
      "of a document that are disabled": `
        update oauth_client
           set kind = 'document', client_id = 'https://agent.example/client', disabled_at = ${past}`
    }
  })
  testConditions(it, "a client with a grant stays", {
    given: `${signedIn}; update oauth_client set created_at = ${longAgo}`,
    bystander: signedIn,
    act: sweepOf(sweeps, "oauth clients", now),
    seen: `select from oauth_client where client_id = 'client' and in_use_at = ${sqlNow}`,
    actsNotOn: { "if the grant is another's": "update oauth_grant set client_id = 'other'" }
  })
})
