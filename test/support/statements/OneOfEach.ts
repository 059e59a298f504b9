/** SQL that inserts one row of each kind, all of them valid at `now`: the usual rows of a table of conditions. */
import type { Trace } from "../../../src/platform/sql/AuditRow.ts"

const at = (hours: number) => new Date(Date.UTC(2026, 5, 1, 12 + hours))
const literal = (date: Date) => `timestamptz '${date.toISOString()}'`

/** A date for the statements under test. Texts for SQL: the same instant, an hour before and after it, and long ago. */
export const now = at(0)
export const sqlNow = literal(now)
export const past = literal(at(-1))
export const later = literal(at(1))
/** Exactly thirty days ago is not yet to be deleted; a second before that is. */
export const thirtyDays = literal(at(-720))
export const longAgo = `${thirtyDays} - interval '1 second'`

export const id = (n: number) => `00000000-0000-7000-8000-${String(n).padStart(12, "0")}`
export const hash = (text: string) => `sha256('${text}')`
export const trace: Trace = { event_id: id(99), at: now, address: "127.0.0.1", user_agent: "tests" }

export const ids = {
  project: id(1),
  otherProject: id(2),
  projectToken: id(11),
  credential: id(21),
  identity: id(22),
  token: id(23),
  challenge: id(24),
  rotation: id(25),
  successor: id(26),
  bridgeAccess: id(27),
  grant: id(31),
  access: id(32),
  request: id(33),
  personKey: id(81),
  device: id(41),
  delivery: id(42),
  lease: id(44),
  task: id(51),
  entry: id(52)
}

export const fingerprint = `sha256:${"0".repeat(64)}`

export const projects = `
  insert into project (project_id, name, created_at)
  values ('${ids.project}', 'Project', ${past}), ('${ids.otherProject}', 'Other', ${past})`

/** Nobody has used it yet. */
export const credential = `${projects};
  insert into bridge_enrollment_credential (
    credential_id, credential_hash, project_id, account_references, created_at, expires_at)
  values ('${ids.credential}', ${hash("credential")}, '${ids.project}', '{github:octo}', ${past}, ${later})`

export const claim = `
  update bridge_enrollment_credential
     set claimed_at = ${past}, claimed_bridge_id = 'bridge-1', claimed_device_id = 'device-1',
         claimed_fingerprint = '${fingerprint}', challenge_expires_at = ${sqlNow}`

export const pendingIdentity = `
  insert into bridge_identity (
    identity_id, project_id, bridge_id, status, device_id, display_name, public_key_fingerprint, account_references,
    challenge_expires_at, created_at)
  values ('${ids.identity}', '${ids.project}', 'bridge-1', 'pending', 'device-1', 'Bridge', '${fingerprint}', '{}',
          ${later}, ${past})`

export const openChallenge = `
  insert into enrollment_challenge (
    challenge_id, credential_id, identity_id, device_id, display_name, public_key_fingerprint, idempotency_key_hash,
    request_hash, nonce_hash, derivation_salt, key_id, created_at, expires_at)
  values ('${ids.challenge}', '${ids.credential}', '${ids.identity}', 'device-1', 'Bridge', '${fingerprint}',
          ${hash("key")}, ${hash("request")}, ${hash("nonce")}, ${hash("salt")}, 'k', ${past}, ${later})`

/** A Bridge that is about to prove its key. */
export const challenged = `${credential}; ${claim}; ${pendingIdentity}; ${openChallenge}`

export const activate = `
  update bridge_identity set status = 'active', enrolled_at = ${past}, challenge_expires_at = null`
export const revokeIdentity = `update bridge_identity set status = 'revoked', revoked_at = ${past}`
export const disableProject = `update project set disabled_at = ${past}`

export const activeToken = `
  insert into bridge_token (token_id, identity_id, token_hash, state, derivation_salt, key_id, created_at, expires_at)
  values ('${ids.token}', '${ids.identity}', ${hash("token")}, 'active', ${hash("salt")}, 'k', ${past}, ${later})`

export const consume = `
  update enrollment_challenge
     set consumed_at = ${past}, proof_key_hash = ${hash("proof")}, proof_request_hash = ${hash("request")},
         token_id = '${ids.token}'`

export const enrolled = `${challenged}; ${activate}; ${activeToken}; ${consume};
  update bridge_identity set enrolled_credential_id = '${ids.credential}'`

export const pendingRotation = `
  insert into bridge_token (token_id, identity_id, token_hash, state, derivation_salt, key_id, created_at)
  values ('${ids.successor}', '${ids.identity}', ${hash("successor")}, 'pending', ${hash("salt")}, 'k', ${past});
  insert into bridge_rotation (
    rotation_id, identity_id, predecessor_id, successor_id, state, created_at, prepared_from,
    confirmation_expires_at, prepare_key_hash)
  values ('${ids.rotation}', '${ids.identity}', '${ids.token}', '${ids.successor}', 'pending', ${past}, '127.0.0.1',
          ${later}, ${hash("prepare")});
  update bridge_identity set pending_rotation_id = '${ids.rotation}'`

/** A Bridge whose successor waits for its confirmation. */
export const rotating = `${enrolled}; ${pendingRotation}`

export const grantAccess = `update bridge_identity set access_role = 'reader', access_granted_at = ${past}`

/** A Bridge with a granted role and an access token. */
export const reaching = `${enrolled}; ${grantAccess};
  insert into bridge_access_token (
    token_id, token_hash, identity_id, role, public_key_fingerprint, scopes, resource, instance_id, created_at, expires_at)
  values ('${ids.bridgeAccess}', ${hash("bridge access")}, '${ids.identity}', 'reader', '${fingerprint}',
          '{memory:read}', 'http://127.0.0.1:8787/mcp', 'tests', ${past}, ${later})`

/** The Bridge has no other token. Triggers do not run here. */
export const endToken = (token_id: string) => `
  update bridge_token
     set state = 'revoked', ended_at = ${past}, end_reason = 'revoked', expires_at = ${later}
   where token_id = '${token_id}';
  update bridge_identity
     set without_token_since = ${past}
   where identity_id = (select identity_id from bridge_token where token_id = '${token_id}')`
export const expireRotation = `update bridge_rotation set state = 'expired', ended_at = ${past}`

export const audience = { resource: "http://127.0.0.1:8787/mcp", instance_id: "tests" }

/** A project token, and a grant made with it, with an unused code, an access token and an unused refresh token. */
export const signedIn = `${projects};
  insert into project_token (token_id, token_hash, project_id, role, scopes, created_at, expires_at)
  values ('${ids.projectToken}', ${hash("project token")}, '${ids.project}', 'contributor', '{memory:read}', ${past},
          ${later});
  insert into oauth_client (client_id, kind, name, redirect_uris, grant_types, scopes, created_at)
  values ('client', 'dynamic', 'Client', '{http://127.0.0.1/callback}', '{authorization_code,refresh_token}',
          '{memory:read}', ${past});
  insert into oauth_grant (
    grant_id, client_id, project_id, project_token_id, scopes, resource, instance_id, redirect_uri, created_at,
    activated_at, expires_at)
  values ('${ids.grant}', 'client', '${ids.project}', '${ids.projectToken}', '{memory:read}', '${audience.resource}',
          '${audience.instance_id}', 'http://127.0.0.1/callback', ${past}, ${past}, ${later});
  insert into oauth_code (code_hash, grant_id, code_challenge, created_at, expires_at)
  values (${hash("code")}, '${ids.grant}', 'c', ${past}, ${later});
  insert into oauth_access_token (token_id, token_hash, grant_id, scopes, created_at, expires_at)
  values ('${ids.access}', ${hash("access")}, '${ids.grant}', '{memory:read}', ${past}, ${later});
  insert into oauth_refresh_token (token_hash, grant_id, generation, created_at, expires_at)
  values (${hash("refresh")}, '${ids.grant}', 0, ${past}, ${later})`

export const endGrant = `update oauth_grant set revoked_at = ${past}, end_reason = 'test'`

/** What ends a grant, and with it everything that depends on it. */
export const grantOver = {
  "a revoked grant": endGrant,
  "a grant at its end": `update oauth_grant set expires_at = ${sqlNow}`,
  "a disabled client": `update oauth_client set disabled_at = ${past}`,
  "a revoked project token": `update project_token set revoked_at = ${past}`,
  "a project token at its end": `update project_token set expires_at = ${sqlNow}`,
  "a disabled project": disableProject
}
export const otherAudience = {
  "another resource": "update oauth_grant set resource = 'http://127.0.0.1:8788/mcp'",
  "another instance": "update oauth_grant set instance_id = 'other'"
}
export const lastingToken = { "a project token without an end": "update project_token set expires_at = null" }

/** A request that the person has not decided yet, with the project token that was entered. */
export const request = `
  insert into oauth_request (
    request_id, browser_hash, client_id, network, redirect_uri, scopes, code_challenge, created_at, expires_at,
    project_token_id)
  values ('${ids.request}', ${hash("browser")}, 'client', 'network', 'http://127.0.0.1/callback', '{memory:read}',
          '${"c".repeat(43)}', ${past}, ${later}, '${ids.projectToken}')`

/** A passkey of that project token, which has signed five times. */
export const passkey = `${signedIn};
  insert into person_key (
    person_key_id, credential_id, public_key, sign_count, label, project_token_id, project_id, created_at, expires_at)
  values ('${ids.personKey}', ${hash("credential id")}, ${hash("public key")}, 5, 'Laptop', '${ids.projectToken}',
          '${ids.project}', ${past}, ${later})`

/** A phone of that sign-in, and a notification that is due for it. */
export const phone = `${signedIn};
  insert into mobile_device (
    device_id, project_id, subject, client_id, grant_id, provider, environment, topic, token_key_id, token_sealed,
    token_lookup, token_updated_at, state, created_at, last_seen_at, preferences)
  values ('${ids.device}', '${ids.project}', '${ids.projectToken}', 'client', '${ids.grant}', 'apns', 'production',
          'app', 'k', ${hash("sealed")}, ${hash("lookup")}, ${past}, 'active', ${past}, ${past},
          '{"kinds": {}, "minimum_priority": "low", "quiet_hours": null, "paused_until": null}');
  insert into push_outbox (
    delivery_id, event_id, device_id, project_id, kind, reference, priority, collapse_key, state, not_before,
    expires_at, created_at)
  values ('${ids.delivery}', '${id(43)}', '${ids.device}', '${ids.project}', 'task.blocked', '${ids.task}', 1, 'c',
          'pending', ${sqlNow}, ${later}, ${past})`

/** Makes the phone a browser that registered at the console. */
export const subscribed = `
  insert into web_push_key (web_push_key_id, public_key, salt, token_key_id, created_at, replaced_at)
  values ('${id(45)}', ${hash("x")} || ${hash("y")} || '\\x04', ${hash("salt")}, 'k', ${past}, ${past});
  update mobile_device
     set provider = 'webpush', environment = 'web', client_id = null, grant_id = null, web_push_key_id = '${id(45)}'`

export const lease = (until: string) => `
  update push_outbox set state = 'leased', lease_token = '${ids.lease}', lease_until = ${until}`

export const endDevice = (state: "revoked" | "inactive") => `
  update mobile_device
     set state = '${state}', ended_at = ${past}, token_key_id = null, token_sealed = null, token_lookup = null`
