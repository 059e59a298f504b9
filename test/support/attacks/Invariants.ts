/** What must hold of the rows at every moment, whatever raced (spec 3.1, 3.2, 8). */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Each query finds the rows that violate its sentence. */
const broken = {
  "an identity has at most one active token":
    "select identity_id from bridge_token where state = 'active' group by identity_id having count(*) > 1",
  "an identity has at most one pending successor":
    "select identity_id from bridge_token where state = 'pending' group by identity_id having count(*) > 1",
  "a pending token, its pending rotation and the identity's pointer exist together": `
    select identity_id
      from (select identity_id, pending_rotation_id from bridge_identity where pending_rotation_id is not null) i
      full join (select identity_id, rotation_id, successor_id from bridge_rotation where state = 'pending') r
           using (identity_id)
      full join (select identity_id, token_id from bridge_token where state = 'pending') t using (identity_id)
     where rotation_id is distinct from pending_rotation_id
        or token_id is distinct from successor_id`,
  "a revoked identity has no live token": `
    select i.identity_id
      from bridge_identity i
      join bridge_token t on t.identity_id = i.identity_id
     where i.status = 'revoked' and t.state in ('active', 'pending')`,
  "a successor's state follows its rotation's": `
    select rotation_id
      from bridge_rotation r
      join bridge_token t on t.token_id = r.successor_id
     where t.state = 'pending' and r.state <> 'pending'
        or t.state in ('active', 'expired') and r.state <> 'confirmed'`,
  "the predecessor of a pending rotation is not revoked, that of a confirmed one is": `
    select rotation_id
      from bridge_rotation r
      join bridge_token t on t.token_id = r.predecessor_id
     where t.state = 'revoked' and r.state = 'pending'
        or t.state <> 'revoked' and r.state = 'confirmed'`,
  "an identity names only its own key rotation, and none that has ended": `
    select i.identity_id
      from bridge_identity i
      join bridge_key_rotation k on k.key_rotation_id = i.pending_key_rotation_id
     where k.identity_id <> i.identity_id or k.outcome is not null or i.status <> 'active'
        or k.confirmation_expires_at <> i.key_rotation_until`,
  "token and key of an identity are not replaced at once": `
    select i.identity_id
      from bridge_identity i
      join bridge_rotation r on r.rotation_id = i.pending_rotation_id
      join bridge_key_rotation k on k.key_rotation_id = i.pending_key_rotation_id
     where r.created_at < k.confirmation_expires_at and k.created_at < r.confirmation_expires_at`,
  "an active identity has enrolled, a pending one never had a token": `
    select i.identity_id
      from bridge_identity i
     where (i.status = 'active') <> (i.enrolled_at is not null) and i.status <> 'revoked'
        or i.status = 'pending' and exists (select 1 from bridge_token t where t.identity_id = i.identity_id)`,
  "a credential mints at most one token": `
    select credential_id from enrollment_challenge where consumed_at is not null
     group by credential_id having count(*) > 1`,
  "a credential with a challenge is claimed by the Bridge of that challenge": `
    select c.credential_id
      from enrollment_challenge h
      join bridge_identity i using (identity_id)
      join bridge_enrollment_credential c using (credential_id)
     where c.claimed_bridge_id is distinct from i.bridge_id or c.project_id <> i.project_id`,
  "a claimed credential has a challenge": `
    select c.credential_id
      from bridge_enrollment_credential c
     where c.claimed_at is not null
       and not exists (select 1 from enrollment_challenge h where h.credential_id = c.credential_id)`,
  "every token has its audit event": `
    select t.token_id
      from bridge_token t
      join enrollment_challenge h using (token_id)
     where not exists (select 1 from audit_event e
                        where e.action = 'bridge.enrolled' and e.subject ->> 'token_id' = t.token_id::text)`
}

/** One query, because the invariants are checked after every step of thousands of histories. */
const every = Object.entries(broken)
  .map(
    ([sentence, query]) => `select '${sentence.replaceAll("'", "''")}' as broken, b::text as found from (${query}) b`
  )
  .join("\nunion all\n")

export const violatedInvariants = (sql: SqlClient.SqlClient) =>
  sql.unsafe<{ readonly broken: string; readonly found: string }>(every)

export const invariants = Effect.gen(function* () {
  assert.deepStrictEqual(yield* violatedInvariants(yield* SqlClient.SqlClient), [])
})
