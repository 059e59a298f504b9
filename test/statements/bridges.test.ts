/** Each condition in the statements and sweeps of Bridges decides alone in one row (spec 3, 4.1 to 4.7). */
import * as OpenChallenges from "../../src/platform/sql/OpenChallenges.ts"
import { layer } from "@effect/vitest"
import { Effect, Option } from "effect"
import type { SqlClient } from "effect/sql"
import { sweeps as enrollmentSweeps } from "../../src/bridges/enrollment/Sweeps.ts"
import * as ChallengeStore from "../../src/bridges/enrollment/ChallengeStore.ts"
import * as CredentialStore from "../../src/bridges/enrollment/CredentialStore.ts"
import * as ProofStore from "../../src/bridges/enrollment/ProofStore.ts"
import * as PossessionStore from "../../src/bridges/possession/PossessionStore.ts"
import { sweeps as proofSweeps } from "../../src/platform/proofs/Sweeps.ts"
import * as BridgeStore from "../../src/bridges/identity/BridgeStore.ts"
import * as KeyStore from "../../src/bridges/keys/KeyStore.ts"
import { sweeps as keySweeps } from "../../src/bridges/keys/Sweeps.ts"
import * as ConfirmOrAbortStore from "../../src/bridges/rotation/ConfirmOrAbortStore.ts"
import * as PrepareStore from "../../src/bridges/rotation/PrepareStore.ts"
import { sweeps as rotationSweeps } from "../../src/bridges/rotation/Sweeps.ts"
import * as TokenStore from "../../src/bridges/rotation/TokenStore.ts"
import { sha256 } from "../../src/platform/crypto/Sha256.ts"
import { changedEachWay, lookedUp, sweepOf, testConditions } from "../support/statements/Conditions.ts"
import {
  activate,
  activeToken,
  challenged,
  claim,
  consume,
  credential,
  disableProject,
  endToken,
  enrolled,
  expireRotation,
  fingerprint,
  grantAccess,
  hash,
  id,
  ids,
  later,
  longAgo,
  now,
  openChallenge,
  past,
  pendingIdentity,
  pendingRotation,
  projects,
  revokeIdentity,
  rotating,
  sqlNow,
  thirtyDays,
  trace
} from "../support/statements/OneOfEach.ts"
import { TestDatabase } from "../support/database/TestDatabase.ts"

const others = `bytea '\\x${"07".repeat(32)}'`
const otherFingerprint = `sha256:${"1".repeat(64)}`
const reenroll = (bridge_id: string) => `update bridge_enrollment_credential set reenroll_bridge_id = '${bridge_id}'`
const aMinuteAgo = `${sqlNow} - interval '1 minute'`
const endedAMinuteAgo = `
  select from bridge_rotation r join bridge_token t on t.token_id = r.successor_id
   where r.rotation_id = '${ids.rotation}' and r.state = 'expired' and r.ended_at = ${aMinuteAgo}
     and t.state = 'revoked' and t.ended_at = ${aMinuteAgo}`
const sweeps = [...enrollmentSweeps, ...rotationSweeps, ...proofSweeps, ...keySweeps]
const referencesOf = Effect.map(
  (found: Option.Option<{ readonly account_references: ReadonlyArray<string> }>) =>
    Option.getOrThrow(found).account_references
)

layer(TestDatabase.sql)("statements of Bridges", (it) => {
  const request = {
    credential_hash: sha256("credential"),
    project_id: ids.project,
    bridge_id: "bridge-1",
    device_id: "device-1",
    display_name: "Bridge",
    public_key_fingerprint: fingerprint,
    idempotency_key_hash: sha256("new key"),
    request_hash: sha256("request")
  }
  const newChallenge = {
    challenge_id: id(81),
    identity_id: id(82),
    nonce_hash: sha256("new nonce"),
    derivation_salt: sha256("salt"),
    key_id: "k",
    expires_at: new Date(now.getTime() + 600_000)
  }
  const newToken = {
    token_id: id(83),
    token_hash: sha256("new token"),
    derivation_salt: sha256("salt"),
    key_id: "k",
    expires_at: new Date(now.getTime() + 86_400_000)
  }

  testConditions(it, "a challenge opens", {
    given: credential,
    act: (sql) =>
      Effect.map(
        ChallengeStore.make(sql).openChallenge([{ claim: request, challenge: newChallenge, trace }], ""),
        ([opened]) => opened!
      ),
    actsOn: {
      "for the Bridge that claimed the credential, once its challenge is over": claim,
      "after its first challenge, under another key": `${claim}; ${openChallenge}`,
      "while another credential is spent": `${openChallenge}; ${consume};
        update enrollment_challenge set credential_id = '${id(29)}'`,
      "for the key that has reserved the bridge_id": pendingIdentity,
      "for another key, once the reservation is over": `${pendingIdentity};
        update bridge_identity set challenge_expires_at = ${sqlNow}, public_key_fingerprint = '${otherFingerprint}'`,
      "for the active Bridge that the credential re-enrolls": `${pendingIdentity}; ${activate}; ${reenroll("bridge-1")}`
    },
    actsNotOn: {
      "with another credential": `update bridge_enrollment_credential set credential_hash = ${others}`,
      "in another project": `update bridge_enrollment_credential set project_id = '${ids.otherProject}'`,
      "with a revoked credential": `update bridge_enrollment_credential set revoked_at = ${past}`,
      "with a credential at its expiry": `update bridge_enrollment_credential set expires_at = ${sqlNow}`,
      "in a disabled project": disableProject,
      "with a credential that re-enrolls another Bridge": `${reenroll("bridge-2")}; ${pendingIdentity}; ${activate};
        update bridge_identity set bridge_id = 'bridge-2'`,
      "after another Bridge claimed the credential": `${claim};
        update bridge_enrollment_credential set claimed_bridge_id = 'bridge-2'`,
      "after another device claimed the credential": `${claim};
        update bridge_enrollment_credential set claimed_device_id = 'device-2'`,
      "after another key claimed the credential": `${claim};
        update bridge_enrollment_credential set claimed_fingerprint = '${otherFingerprint}'`,
      "while the credential's challenge is open": `${claim};
        update bridge_enrollment_credential set challenge_expires_at = ${later}`,
      "with an Idempotency-Key that was used": `${openChallenge};
        update enrollment_challenge set idempotency_key_hash = ${hash("new key")}`,
      "with a spent credential": `${openChallenge}; ${consume}`,
      "for an active Bridge": `${pendingIdentity}; ${activate};
        update bridge_identity set challenge_expires_at = ${past}`,
      "for a revoked Bridge": `${pendingIdentity}; ${revokeIdentity};
        update bridge_identity set challenge_expires_at = ${past}`,
      "for another key while the bridge_id is reserved": `${pendingIdentity};
        update bridge_identity set public_key_fingerprint = '${otherFingerprint}'`,
      "to re-enroll a pending Bridge": `${pendingIdentity}; ${reenroll("bridge-1")}`,
      "to re-enroll a revoked Bridge": `${pendingIdentity}; ${revokeIdentity}; ${reenroll("bridge-1")}`,
      "to re-enroll a Bridge of another project": `${pendingIdentity}; ${activate}; ${reenroll("bridge-1")};
        update bridge_identity set project_id = '${ids.otherProject}'`,
      "to re-enroll a Bridge that this credential has enrolled": `${pendingIdentity}; ${activate};
        ${reenroll("bridge-1")}; update bridge_identity set enrolled_credential_id = '${ids.credential}'`
    }
  })

  testConditions(it, "a challenge keeps a reservation that lasts longer", {
    given: `${credential}; ${pendingIdentity}`,
    act: (sql) => ChallengeStore.make(sql).openChallenge([{ claim: request, challenge: newChallenge, trace }], ""),
    seen: `select from bridge_identity where identity_id = '${ids.identity}' and challenge_expires_at = ${later}`,
    actsNotOn: { "that is over": `update bridge_identity set challenge_expires_at = ${past}` }
  })

  testConditions(it, "the holder of a token is found", {
    given: enrolled,
    act: (sql) => lookedUp(PossessionStore.make(sql).tokenHolder, { token_hash: sha256("token"), now }),
    actsNotOn: {
      "for another token": `update bridge_token set token_hash = ${others}`,
      "of another identity": `update bridge_token set identity_id = '${id(89)}'`
    }
  })

  testConditions(it, "a proof is remembered", {
    given: enrolled,
    act: (sql) =>
      Effect.map(
        PossessionStore.make(sql).remember(sha256("token"), {
          fingerprint,
          proof_hash: sha256("proof"),
          forget_at: now
        }),
        Option.filter(({ first }) => first)
      ),
    actsNotOn: {
      "for another token": `update bridge_token set token_hash = ${others}`,
      "by another key": `update bridge_identity set public_key_fingerprint = '${otherFingerprint}'`,
      twice: `insert into bridge_dpop_proof values (${hash("proof")}, ${past})`
    }
  })

  const asked = {
    token_hash: sha256("token"),
    proof: { fingerprint, proof_hash: sha256("proof"), forget_at: now }
  }
  testConditions(it, "a proof is remembered among others", {
    given: enrolled,
    act: (sql) =>
      Effect.map(
        PossessionStore.make(sql).rememberEach([{ ...asked, token_hash: sha256("unknown") }, asked]),
        ([, found]) => Option.filter(found!, ({ first }) => first)
      ),
    actsNotOn: {
      "for another token": `update bridge_token set token_hash = ${others}`,
      "by another key": `update bridge_identity set public_key_fingerprint = '${otherFingerprint}'`,
      twice: `insert into bridge_dpop_proof values (${hash("proof")}, ${past})`
    }
  })

  testConditions(it, "a proof is stored among others", {
    given: enrolled,
    act: (sql) => Effect.as(PossessionStore.make(sql).rememberEach([asked]), []),
    seen: `select from bridge_dpop_proof where proof_hash = ${hash("proof")}`,
    actsNotOn: {
      "for another token": `update bridge_token set token_hash = ${others}`,
      "by another key": `update bridge_identity set public_key_fingerprint = '${otherFingerprint}'`
    }
  })

  testConditions(it, "of two equal proofs the first is remembered", {
    given: enrolled,
    act: (sql) =>
      Effect.map(PossessionStore.make(sql).rememberEach([asked, asked]), ([first, second]) =>
        Option.filter(first!, (found) => found.first && Option.exists(second!, ({ first }) => !first))
      ),
    actsNotOn: { twice: `insert into bridge_dpop_proof values (${hash("proof")}, ${past})` }
  })

  testConditions(it, "a Bridge has to prove its key", {
    given: enrolled,
    act: (sql) => PossessionStore.make(sql).hold(ids.identity, now, trace),
    seen: "select 1 from audit_event where action = 'bridge.dpop_required'",
    actsNotOn: {
      "a second time": `update bridge_identity set dpop_required_since = ${past}`,
      "if it is another": `update bridge_identity set identity_id = '${id(89)}'`
    }
  })

  for (const role of ["reader", null] as const)
    testConditions(it, role === null ? "the access of a Bridge is withdrawn" : "a Bridge is granted access", {
      given: enrolled,
      act: (sql) => BridgeStore.make(sql).setAccess(ids.project, "bridge-1", role, now),
      ...(role === null
        ? {}
        : { seen: `select 1 from bridge_identity where access_role = 'reader' and access_granted_at = ${sqlNow}` }),
      actsOn: {
        "in the place of another role": `${grantAccess}; update bridge_identity set access_role = 'contributor'`
      },
      actsNotOn: {
        "if it is another": "update bridge_identity set bridge_id = 'bridge-2'",
        "if it is of another project": `update bridge_identity set project_id = '${ids.otherProject}'`,
        ...(role === null ? {} : { "if it is revoked": revokeIdentity, "as it is": grantAccess })
      }
    })

  testConditions(it, "a Bridge need not prove its key any more", {
    given: enrolled,
    act: (sql) => BridgeStore.make(sql).liftDpop(ids.project, "bridge-1"),
    actsNotOn: {
      "if it is another": "update bridge_identity set bridge_id = 'bridge-2'",
      "if it is of another project": `update bridge_identity set project_id = '${ids.otherProject}'`
    }
  })

  const keyRotation = `
    insert into bridge_key_rotation (
      key_rotation_id, identity_id, public_key_fingerprint, old_fingerprint, nonce_hash, derivation_salt, key_id,
      created_at, confirmation_expires_at, prepare_key_hash)
    values ('${id(61)}', '${ids.identity}', '${otherFingerprint}', '${fingerprint}', ${hash("nonce")}, ${hash("salt")},
            'k', ${past}, ${later}, ${hash("prepare key")});
    update bridge_identity set pending_key_rotation_id = '${id(61)}', key_rotation_until = ${later}`
  const endKeyRotation = (outcome: string, endKey = "end") => `
    update bridge_key_rotation
       set outcome = '${outcome}', end_key_hash = ${hash(endKey)}, end_request_hash = ${hash("r")}, ended_at = ${past}`
  const unnamed = "update bridge_identity set pending_key_rotation_id = null, key_rotation_until = null"
  const unable = {
    "for another token": `update bridge_token set token_hash = ${others}`,
    "for a token that has ended": endToken(ids.token),
    "for a token at its expiry": `update bridge_token set expires_at = ${sqlNow}`,
    "for a revoked Bridge": revokeIdentity,
    "in a disabled project": disableProject,
    "by another key": `update bridge_identity set public_key_fingerprint = 'sha256:${"2".repeat(64)}'`
  }

  testConditions(it, "a key rotation is prepared", {
    given: enrolled,
    act: (sql) =>
      KeyStore.make(sql).prepare(
        { token_hash: sha256("token"), key_hash: sha256("new key"), fingerprint: otherFingerprint, by: fingerprint },
        { ...newChallenge, key_rotation_id: id(62), confirmation_expires_at: newChallenge.expires_at },
        { rotations: 1, since: new Date(now.getTime() - 3_600_000) },
        now,
        trace
      ),
    actsOn: {
      "after the window of another": `${keyRotation}; update bridge_identity set key_rotation_until = ${sqlNow}`,
      "after the window of a token rotation": `${pendingRotation};
        update bridge_rotation set confirmation_expires_at = ${sqlNow}`,
      "beside one of another Bridge": `${keyRotation}; ${unnamed};
        update bridge_key_rotation set identity_id = '${id(89)}', created_at = ${sqlNow}`
    },
    actsNotOn: {
      ...unable,
      "while another is pending": keyRotation,
      "while a token rotation is pending": pendingRotation,
      "while a token rotation is pending that the snapshot does not see": `update bridge_identity
        set pending_rotation_id = '${id(89)}'`,
      "with an Idempotency-Key that was used": `${keyRotation}; ${unnamed};
        update bridge_key_rotation set prepare_key_hash = ${hash("new key")}`,
      "of the key that the Bridge has": `update bridge_identity set public_key_fingerprint = '${otherFingerprint}'`,
      "beyond the limit": `${keyRotation}; ${unnamed}; update bridge_key_rotation set created_at = ${sqlNow}`
    }
  })

  for (const outcome of ["confirmed", "aborted"] as const)
    testConditions(it, `a key rotation is ${outcome}`, {
      given: `${enrolled}; ${keyRotation}`,
      act: (sql) => {
        const store = KeyStore.make(sql)
        const end = outcome === "confirmed" ? store.confirm : store.abort
        const request = {
          token_hash: sha256("token"),
          key_rotation_id: id(61),
          key_hash: sha256("end"),
          request_hash: sha256("r"),
          by: fingerprint
        }
        return end(request, now, trace)
      },
      actsNotOn: {
        ...unable,
        "that has another id": `${unnamed}; update bridge_key_rotation set key_rotation_id = '${id(63)}'`,
        "of another Bridge": `update bridge_key_rotation set identity_id = '${id(89)}'`,
        "after its window": `update bridge_key_rotation set confirmation_expires_at = ${sqlNow}`,
        "that the Bridge does not name": unnamed,
        "with an Idempotency-Key that was used": `${keyRotation
          .replaceAll(id(61), id(63))
          .replace(hash("prepare key"), hash("another"))}; ${endKeyRotation(outcome)};
          update bridge_key_rotation set outcome = null, end_key_hash = null, end_request_hash = null, ended_at = null
           where key_rotation_id = '${id(61)}';
          update bridge_identity set pending_key_rotation_id = '${id(61)}'`
      }
    })

  testConditions(it, "a proof by the replaced key is remembered", {
    given: `${enrolled}; ${keyRotation}; ${unnamed}; ${endKeyRotation("confirmed")};
      update bridge_identity set public_key_fingerprint = '${otherFingerprint}'`,
    act: (sql) =>
      Effect.map(
        PossessionStore.make(sql).remember(
          sha256("token"),
          { fingerprint, proof_hash: sha256("proof"), forget_at: now },
          id(61)
        ),
        Option.filter(({ accepted, first }) => accepted && first)
      ),
    actsNotOn: {
      "of another key rotation": `update bridge_key_rotation set key_rotation_id = '${id(63)}'`,
      "of another Bridge": `update bridge_key_rotation set identity_id = '${id(89)}'`,
      "of another key": `update bridge_key_rotation set old_fingerprint = 'sha256:${"2".repeat(64)}'`,
      "of a key rotation that was aborted": endKeyRotation("aborted")
    }
  })

  testConditions(it, "a new key is asked for", {
    given: enrolled,
    act: (sql) =>
      Effect.map(
        BridgeStore.make(sql).requireKeyRotation(ids.project, "bridge-1", now),
        Option.filter(({ first }) => first)
      ),
    actsNotOn: {
      "of another Bridge": "update bridge_identity set bridge_id = 'bridge-2'",
      "of a Bridge of another project": `update bridge_identity set project_id = '${ids.otherProject}'`,
      "of a revoked Bridge": revokeIdentity,
      "a second time": `update bridge_identity set key_rotation_required_since = ${past}`
    }
  })

  testConditions(it, "an earlier challenge is found", {
    given: challenged,
    act: (sql) => ChallengeStore.make(sql).findEarlierChallenge({ ...request, idempotency_key_hash: sha256("key") }),
    actsNotOn: {
      "with another credential": `update bridge_enrollment_credential set credential_hash = ${others}`,
      "of another credential": `update enrollment_challenge set credential_id = '${id(29)}'`,
      "of another Idempotency-Key": `update enrollment_challenge set idempotency_key_hash = ${others}`
    }
  })

  const findCredential = (sql: SqlClient.SqlClient) => ChallengeStore.make(sql).findCredential(request)
  const consumedBy = `${claim}; ${pendingIdentity}; ${openChallenge}; ${activeToken}; ${consume}`
  testConditions(it, "a credential counts as used", {
    given: `${credential}; ${consumedBy}`,
    act: (sql) =>
      Effect.map(
        findCredential(sql),
        Option.filter(({ consumed }) => consumed)
      ),
    actsNotOn: {
      "by another credential's challenge": `update enrollment_challenge set credential_id = '${id(29)}'`,
      "by a challenge that nobody has proved": `update enrollment_challenge
        set consumed_at = null, proof_key_hash = null, proof_request_hash = null, token_id = null`
    }
  })
  testConditions(it, "a credential's Bridge is looked at", {
    given: `${credential}; ${pendingIdentity}`,
    act: (sql) =>
      Effect.map(
        findCredential(sql),
        Option.filter((found) => found.identity_status !== null)
      ),
    actsNotOn: {
      "in another project": `update bridge_identity set project_id = '${ids.otherProject}'`,
      "of another bridge_id": "update bridge_identity set bridge_id = 'bridge-2'"
    }
  })
  testConditions(it, "the status of a Bridge is found", {
    given: `${projects}; ${pendingIdentity}`,
    act: (sql) => CredentialStore.make(sql).findIdentityStatus(ids.project, "bridge-1"),
    actsNotOn: {
      "in another project": `update bridge_identity set project_id = '${ids.otherProject}'`,
      "of another Bridge": "update bridge_identity set bridge_id = 'bridge-2'"
    }
  })

  const findChallenge = (sql: SqlClient.SqlClient) => ProofStore.make(sql).findChallenge(ids.challenge, sha256("proof"))
  testConditions(it, "a challenge may enroll", {
    given: `${challenged}; ${activate}; ${reenroll("bridge-1")}`,
    act: (sql) =>
      Effect.map(
        findChallenge(sql),
        Option.filter(({ enrollable }) => enrollable)
      ),
    actsOn: { "a pending Bridge": "update bridge_identity set status = 'pending', enrolled_at = null" },
    actsNotOn: {
      "a Bridge that this credential has enrolled": `update bridge_identity
        set enrolled_credential_id = '${ids.credential}'`,
      "an active Bridge with a credential for new ones": `update bridge_enrollment_credential
        set reenroll_bridge_id = null`,
      "a revoked Bridge": revokeIdentity
    }
  })
  const secondChallenge = `
    insert into enrollment_challenge
    select (jsonb_populate_record(h, jsonb_build_object('challenge_id', '${id(89)}', 'credential_id', '${id(29)}'))).*
      from enrollment_challenge h`
  testConditions(it, "a proof's Idempotency-Key counts as used", {
    given: `${challenged}; ${secondChallenge}; ${activeToken}; ${consume} where challenge_id = '${id(89)}'`,
    bystander: challenged,
    act: (sql) =>
      Effect.map(
        findChallenge(sql),
        Option.filter(({ key_used }) => key_used)
      ),
    actsNotOn: {
      "under another key": `update enrollment_challenge set proof_key_hash = ${others} where challenge_id = '${id(89)}'`,
      "by another Bridge": `update enrollment_challenge set identity_id = '${id(88)}' where challenge_id = '${id(89)}'`,
      "by the challenge itself": `delete from enrollment_challenge where challenge_id = '${id(89)}';
        update enrollment_challenge
           set consumed_at = ${past}, proof_key_hash = ${hash("proof")}, proof_request_hash = ${hash("request")},
               token_id = '${ids.token}'`
    }
  })

  const enroll = (sql: SqlClient.SqlClient) => {
    const proof = { challenge_id: ids.challenge, key_hash: sha256("proof"), request_hash: sha256("request") }
    const proving = { identity_id: ids.identity, proof, token: newToken, trace }
    const other = { ...proving, identity_id: id(89), proof: { ...proof, challenge_id: id(89) } }
    return changedEachWay(ProofStore.make(sql).enroll, proving, other)(sql)
  }
  testConditions(it, "a proof enrolls", {
    given: challenged,
    bystander: rotating,
    act: enroll,
    actsOn: {
      "the active Bridge that the credential re-enrolls": `${activate}; ${reenroll("bridge-1")}`,
      "a Bridge with a pending rotation": `${activate}; ${reenroll("bridge-1")}; ${pendingRotation}`
    },
    actsNotOn: {
      "for another challenge": `update enrollment_challenge set challenge_id = '${id(89)}'`,
      "with a consumed challenge": `${activeToken}; ${endToken(ids.token)}; ${consume}`,
      "with a challenge at its expiry": `update enrollment_challenge set expires_at = ${sqlNow}`,
      "with a revoked credential": `update bridge_enrollment_credential set revoked_at = ${past}`,
      "in a disabled project": disableProject,
      "a revoked Bridge": revokeIdentity,
      "an active Bridge with a credential for new ones": activate,
      "a Bridge that this credential has re-enrolled": `${activate}; ${reenroll("bridge-1")};
        update bridge_identity set enrolled_credential_id = '${ids.credential}'`,
      "while a pending rotation cannot be seen": `update bridge_identity set pending_rotation_id = '${ids.rotation}'`
    }
  })

  const reenrolling = `${challenged}; ${activate}; ${reenroll("bridge-1")}; ${activeToken}`
  testConditions(it, "a re-enrollment revokes the token", {
    given: reenrolling,
    act: enroll,
    seen: "select from bridge_token where state = 'revoked' and end_reason = 'reenrolled'",
    actsOn: { "that is pending": "update bridge_token set state = 'pending'" },
    actsNotOn: {
      "that has ended": endToken(ids.token),
      "of another Bridge": `update bridge_token set identity_id = '${id(89)}'`,
      "at its expiry": `update bridge_token set expires_at = ${sqlNow}`
    }
  })
  testConditions(it, "a re-enrollment finds the token expired", {
    given: `${reenrolling}; update bridge_token set expires_at = ${sqlNow}`,
    act: enroll,
    seen: "select from bridge_token where state = 'expired' and end_reason = 'expired'",
    actsNotOn: { "before its expiry": `update bridge_token set expires_at = ${later}` }
  })
  testConditions(it, "a re-enrollment cancels the rotation", {
    given: `${reenrolling}; ${pendingRotation}`,
    bystander: rotating,
    act: enroll,
    seen: `select from bridge_rotation where state = 'cancelled' and ended_at = ${sqlNow}`,
    actsNotOn: {
      "that has ended": expireRotation,
      "at the end of its window": `update bridge_rotation set confirmation_expires_at = ${sqlNow}`
    }
  })

  testConditions(it, "a reference is approved", {
    given: `${projects};
      insert into approved_account_reference (project_id, reference, approved_at)
      values ('${ids.project}', 'github:octo', ${past})`,
    act: (sql) => CredentialStore.make(sql).lockApproved(ids.project, ["github:octo"]),
    actsNotOn: {
      "in another project": `update approved_account_reference set project_id = '${ids.otherProject}'`,
      "if it is another one": "update approved_account_reference set reference = 'github:cat'",
      "after its withdrawal": `update approved_account_reference set withdrawn_at = ${past}`
    }
  })

  testConditions(it, "revoking a credential ends its challenge", {
    given: challenged,
    act: (sql) => OpenChallenges.expireChallenges(sql, [ids.credential], now),
    seen: `select from enrollment_challenge where expires_at = ${sqlNow}`,
    actsNotOn: {
      "of another credential": `update enrollment_challenge set credential_id = '${id(29)}'`,
      "that is consumed": `${activeToken}; ${consume}`,
      "that is over": `update enrollment_challenge set expires_at = ${past}`
    }
  })

  testConditions(it, "revoking a credential frees its reservation", {
    given: challenged,
    bystander: pendingIdentity,
    act: (sql) => OpenChallenges.expireChallenges(sql, [ids.credential], now),
    seen: `select from bridge_identity where challenge_expires_at = ${sqlNow}`,
    actsOn: {
      "when the challenge of another credential is consumed": `${secondChallenge}; ${activeToken};
        ${consume} where credential_id = '${id(29)}'`,
      "when the challenge of another credential is for another Bridge": `${secondChallenge};
        update enrollment_challenge set identity_id = '${id(88)}' where credential_id = '${id(29)}'`
    },
    actsNotOn: {
      "while another credential has an open challenge": secondChallenge,
      "whose challenge is over": `update enrollment_challenge set expires_at = ${sqlNow}`,
      "of an active Bridge": `${activate}; update bridge_identity set challenge_expires_at = ${later}`
    }
  })

  testConditions(it, "revoking a credential locks the Bridge", {
    given: challenged,
    act: (sql) => OpenChallenges.lockReserved(sql, [ids.credential]),
    actsNotOn: {
      "of another credential": `update enrollment_challenge set credential_id = '${id(29)}'`,
      "of a consumed challenge": `${activeToken}; ${consume}`
    }
  })

  const page = { after: undefined, limit: 9 }
  testConditions(it, "a Bridge is listed with its token", {
    given: enrolled,
    act: (sql) =>
      Effect.map(BridgeStore.make(sql).list(ids.project, page), (found) =>
        found.length === 1 ? found.filter(({ token_expires_at }) => token_expires_at !== null) : []
      ),
    actsNotOn: {
      "in another project": `update bridge_identity set project_id = '${ids.otherProject}'`,
      "after the token's end": endToken(ids.token),
      "if the token is another's": `update bridge_token set identity_id = '${id(89)}'`
    }
  })
  const watched = (sql: SqlClient.SqlClient) => BridgeStore.make(sql).listByEnd(ids.project, page)
  const ofOtherProject = `update bridge_identity set project_id = '${ids.otherProject}'`
  testConditions(it, "a Bridge is watched with its token", {
    given: enrolled,
    act: (sql) =>
      Effect.map(watched(sql), (found) => (found.length === 1 && found[0]!.token_expires_at !== null ? found : [])),
    actsNotOn: {
      "in another project": ofOtherProject,
      "after the token's end": endToken(ids.token),
      "if the token is another's": `update bridge_token set identity_id = '${id(89)}'`
    }
  })
  testConditions(it, "a token starts with its confirmation", {
    given: `${rotating}; ${endToken(ids.token)};
      update bridge_token set state = 'active', expires_at = ${later} where token_id = '${ids.successor}';
      update bridge_rotation set state = 'confirmed', ended_at = ${sqlNow}, end_key_hash = ${hash("end")}`,
    act: (sql) =>
      Effect.map(watched(sql), (found) => found.filter((one) => one.token_started_at?.getTime() === now.getTime())),
    actsNotOn: {
      "of another token": `update bridge_rotation set successor_id = '${id(89)}'`,
      "if that was aborted": "update bridge_rotation set state = 'aborted'"
    }
  })
  testConditions(it, "a Bridge is watched with its pending rotation", {
    given: rotating,
    act: (sql) => Effect.map(watched(sql), (found) => found.filter((one) => one.rotation_expires_at !== null)),
    actsNotOn: {
      "unless it names none": "update bridge_identity set pending_rotation_id = null",
      "unless it names another": `update bridge_rotation set rotation_id = '${id(89)}'`
    }
  })
  testConditions(it, "a Bridge is about to end", {
    given: `${enrolled}; update bridge_token set created_at = ${past}, expires_at = ${sqlNow} + interval '15 minutes'`,
    act: (sql) => BridgeStore.make(sql).listEnding(ids.project, 0.8, now, new Date(now.getTime() + 1_200_000), 9),
    actsOn: { "without a token": endToken(ids.token) },
    actsNotOn: {
      "in another project": ofOtherProject,
      "while its token is young": `update bridge_token set expires_at = ${later}`,
      "when it is pending": "update bridge_identity set status = 'pending'",
      "when it is revoked": revokeIdentity
    }
  })
  testConditions(it, "a token of a Bridge is listed", {
    given: enrolled,
    act: (sql) => BridgeStore.make(sql).listTokens(ids.project, "bridge-1"),
    actsOn: { "after its end": endToken(ids.token) },
    actsNotOn: {
      "in another project": `update bridge_identity set project_id = '${ids.otherProject}'`,
      "of another Bridge": "update bridge_identity set bridge_id = 'bridge-2'",
      "of another identity": `update bridge_token set identity_id = '${id(89)}'`
    }
  })
  const listed = (expected: string) => (sql: SqlClient.SqlClient) =>
    Effect.map(CredentialStore.make(sql).list(ids.project, page, now), (found) =>
      found.filter(({ status }) => status === expected)
    )
  testConditions(it, "a credential is listed as enrolled", {
    given: enrolled,
    act: listed("enrolled"),
    actsOn: { "after its revocation": `update bridge_enrollment_credential set revoked_at = ${past}` },
    actsNotOn: {
      "in another project": `update bridge_enrollment_credential set project_id = '${ids.otherProject}'`,
      "with another's challenge": `update enrollment_challenge set credential_id = '${id(29)}'`,
      "with an open challenge": `update enrollment_challenge
        set consumed_at = null, proof_key_hash = null, proof_request_hash = null, token_id = null`
    }
  })
  testConditions(it, "a credential is listed as unused", {
    given: credential,
    act: listed("unused"),
    actsNotOn: {
      "after its revocation": `update bridge_enrollment_credential set revoked_at = ${past}`,
      "at its expiry": `update bridge_enrollment_credential set expires_at = ${sqlNow}`,
      "once it is claimed": claim
    }
  })

  testConditions(it, "a Bridge is revoked", {
    given: `${projects}; ${pendingIdentity}`,
    act: (sql) => BridgeStore.make(sql).revokeIdentity(ids.project, "bridge-1", now),
    actsNotOn: {
      "in another project": `update bridge_identity set project_id = '${ids.otherProject}'`,
      "under another bridge_id": "update bridge_identity set bridge_id = 'bridge-2'"
    }
  })

  testConditions(it, "revoking a Bridge clears the name of its key rotation", {
    given: `${enrolled}; ${keyRotation}`,
    act: (sql) => BridgeStore.make(sql).revokeIdentity(ids.project, "bridge-1", now),
    seen: `select from bridge_identity where identity_id = '${ids.identity}' and key_rotation_until is null`,
    actsNotOn: { "unless it is another": "update bridge_identity set bridge_id = 'bridge-2'" }
  })

  const revokes = (what: string, seen: string, actsNotOn: Record<string, string>, change = "") =>
    testConditions(it, `revoking a Bridge ends its ${what}`, {
      given: `${rotating}; ${change}`,
      act: (sql) => BridgeStore.make(sql).endCredentials(ids.identity, now),
      seen,
      actsNotOn
    })
  revokes("rotation", `select from bridge_rotation where ended_at = ${sqlNow} and state = 'cancelled'`, {
    "if it is another's": `update bridge_rotation set identity_id = '${id(89)}'`,
    "if it has ended": expireRotation,
    "at the end of its window": `update bridge_rotation set confirmation_expires_at = ${sqlNow}`
  })
  revokes(
    "challenge",
    `select from enrollment_challenge where expires_at = ${sqlNow}`,
    {
      "if it is another's": `update enrollment_challenge set identity_id = '${id(89)}'`,
      "if it is consumed": consume,
      "if it is over": `update enrollment_challenge set expires_at = ${past}`
    },
    `update enrollment_challenge
        set consumed_at = null, proof_key_hash = null, proof_request_hash = null, token_id = null`
  )
  revokes("tokens", `select from bridge_token where ended_at = ${sqlNow}`, {
    "if they are another's": `update bridge_token set identity_id = '${id(89)}'`,
    "if they have ended": `${endToken(ids.token)}; ${endToken(ids.successor)}`
  })

  const tokenNotActive = {
    "with another token": `update bridge_token set token_hash = ${others} where token_hash = ${hash("token")}`,
    "with an ended token": endToken(ids.token),
    "with a token at its expiry": `update bridge_token set expires_at = ${sqlNow}`,
    "for a revoked Bridge": revokeIdentity,
    "in a disabled project": disableProject
  }
  const lapsed = {
    "at the end of another's window": `${pendingRotation};
        update bridge_rotation set confirmation_expires_at = ${sqlNow}`
  }
  const preparing = (allowed?: PrepareStore.Allowed): PrepareStore.Preparing => ({
    presented_hash: sha256("token"),
    prepare_key_hash: sha256("new prepare"),
    successor: {
      rotation_id: id(84),
      successor_id: newToken.token_id,
      successor_hash: newToken.token_hash,
      derivation_salt: newToken.derivation_salt,
      key_id: newToken.key_id,
      confirmation_expires_at: newToken.expires_at
    },
    allowed,
    trace
  })
  const strange = (request: PrepareStore.Preparing) => ({ ...request, presented_hash: sha256("strange") })
  for (const replacing of [false, true]) {
    testConditions(it, replacing ? "a rotation is prepared in place of a lapsed one" : "a rotation is prepared", {
      given: enrolled,
      bystander: `${rotating}; update bridge_rotation set confirmation_expires_at = ${past}`,
      act: (sql) => {
        const store = PrepareStore.make(sql)
        const request = preparing()
        return replacing ? store.replace(request) : changedEachWay(store.prepare, request, strange(request))(sql)
      },
      actsOn: {
        ...(replacing && lapsed),
        "with a key that another Bridge has used": `${pendingRotation};
        ${expireRotation}; ${endToken(ids.successor)};
        update bridge_identity set pending_rotation_id = null;
        update bridge_rotation set identity_id = '${id(89)}', prepare_key_hash = ${hash("new prepare")}`
      },
      actsNotOn: {
        ...tokenNotActive,
        ...(!replacing && lapsed),
        "while another is pending": pendingRotation,
        "while a rotation that cannot be seen is pending": `
        update bridge_identity set pending_rotation_id = '${ids.rotation}'`,
        "while the Bridge names one that has ended": `${pendingRotation}; ${expireRotation};
        ${endToken(ids.successor)}; update bridge_rotation set confirmation_expires_at = ${past}`,
        "with a key that was used": `${pendingRotation};
        ${expireRotation}; ${endToken(ids.successor)};
        update bridge_identity set pending_rotation_id = null;
        update bridge_rotation set prepare_key_hash = ${hash("new prepare")}`
      }
    })
  }

  testConditions(it, "a lapsed rotation that gives way ended with its window", {
    given: `${rotating}; update bridge_rotation set confirmation_expires_at = ${aMinuteAgo}`,
    act: (sql) => PrepareStore.make(sql).replace(preparing()),
    seen: endedAMinuteAgo,
    actsNotOn: { "unless it ends now": `update bridge_rotation set confirmation_expires_at = ${sqlNow}` }
  })

  /** Two rotations of the last hour; the oldest of them uses up a limit of two. */
  const allowed = { rotations: 2, since: new Date(now.getTime() - 3_600_000) }
  const uuidAt = (seconds: number, n: number) => {
    const time = (now.getTime() + seconds * 1000).toString(16).padStart(12, "0")
    return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${String(n).padStart(12, "0")}`
  }
  const earlierRotation = (seconds: number, n: number) => `
    insert into bridge_rotation (
      rotation_id, identity_id, predecessor_id, successor_id, state, created_at, prepared_from,
      confirmation_expires_at, prepare_key_hash, ended_at)
    values ('${uuidAt(seconds, n)}', '${ids.identity}', '${id(86)}', '${id(87 + n)}', 'expired',
            ${sqlNow} + interval '${seconds} s', '127.0.0.1', ${past}, ${hash(`p${n}`)}, ${past})`
  const [older, newer] = [earlierRotation(-3599, 1), earlierRotation(-60, 2)]
  testConditions(it, "a rotation is prepared within the limit", {
    given: `${enrolled}; ${older}`,
    bystander: `${rotating}; update bridge_rotation set confirmation_expires_at = ${past}`,
    act: (sql) => {
      const request = preparing(allowed)
      return changedEachWay(PrepareStore.make(sql).prepare, request, strange(request))(sql)
    },
    actsOn: {
      "when another Bridge has used up its own": `${newer};
        update bridge_rotation set identity_id = '${id(89)}'`,
      "when the oldest was an hour ago": `${newer};
        update bridge_rotation set created_at = ${past} where rotation_id = '${uuidAt(-3599, 1)}'`
    },
    actsNotOn: { "after as many as are allowed": newer }
  })
  const prepareState = (sql: SqlClient.SqlClient) =>
    PrepareStore.make(sql).findPrepareState(sha256("token"), sha256("prepare"), allowed)
  testConditions(it, "the limit of rotations names its oldest", {
    given: `${enrolled}; ${older}; ${newer}`,
    bystander: enrolled,
    act: (sql) =>
      Effect.map(
        prepareState(sql),
        Option.filter((found) => found.limited_since !== null)
      ),
    actsNotOn: {
      "of the same Bridge": `update bridge_rotation set identity_id = '${id(89)}'`,
      "of the last hour": `update bridge_rotation set created_at = ${past}`
    }
  })
  testConditions(it, "a prepare finds the rotation of its key", {
    given: rotating,
    act: (sql) =>
      Effect.map(
        prepareState(sql),
        Option.filter((found) => found.key_rotation_id !== null)
      ),
    actsNotOn: {
      "of another Bridge": `update bridge_rotation set identity_id = '${id(89)}'`,
      "of another key": `update bridge_rotation set prepare_key_hash = ${others}`
    }
  })
  testConditions(it, "a prepare finds the pending rotation", {
    given: rotating,
    act: (sql) =>
      Effect.map(
        prepareState(sql),
        Option.filter((found) => found.pending_until !== null)
      ),
    actsNotOn: {
      "unless it has ended": expireRotation,
      "unless the Bridge names none": "update bridge_identity set pending_rotation_id = null"
    }
  })

  const end = { token_hash: sha256("successor"), rotation_id: ids.rotation, key_hash: sha256("end") }
  const ending = { ...end, expires_at: newToken.expires_at, trace }
  const earlierEnd = (state: string) => `
    insert into bridge_rotation (
      rotation_id, identity_id, predecessor_id, successor_id, state, created_at, prepared_from,
      confirmation_expires_at, prepare_key_hash, end_key_hash, ended_at)
    values ('${id(85)}', '${ids.identity}', '${id(86)}', '${id(87)}', '${state}', ${past}, '127.0.0.1', ${past},
            ${hash("p")}, ${hash("end")}, ${past})`
  const notEndable = {
    "with another token": `update bridge_token set token_hash = ${others} where token_hash = ${hash("successor")}`,
    "for another rotation": `update bridge_rotation set rotation_id = '${id(89)}'`,
    "after its end": expireRotation,
    "at the end of its window": `update bridge_rotation set confirmation_expires_at = ${sqlNow}`,
    "for a revoked Bridge": revokeIdentity,
    "in a disabled project": disableProject,
    "for an ended successor": endToken(ids.successor),
    "with the successor of another rotation": `update bridge_rotation set successor_id = '${id(89)}'`
  }
  const otherEnds = (state: string) => ({
    "with a key that another Bridge has used": `${earlierEnd(state)};
      update bridge_rotation set identity_id = '${id(89)}' where rotation_id = '${id(85)}'`,
    "after another of this Bridge": `${earlierEnd(state)};
      update bridge_rotation set end_key_hash = ${hash("another end")} where rotation_id = '${id(85)}'`
  })
  const usedBy = (outcome: "confirmed" | "aborted") => (sql: SqlClient.SqlClient) =>
    Effect.map(
      ConfirmOrAbortStore.make(sql).findNamedRotation(end, outcome),
      Option.filter(({ key_used }) => key_used)
    )
  for (const outcome of ["confirmed", "aborted"] as const) {
    testConditions(it, `an Idempotency-Key has ${outcome} a rotation`, {
      given: `${rotating}; ${earlierEnd(outcome)}`,
      bystander: rotating,
      act: usedBy(outcome),
      actsNotOn: {
        "of another Bridge": `update bridge_rotation set identity_id = '${id(89)}' where rotation_id = '${id(85)}'`,
        "under another key": `update bridge_rotation set end_key_hash = ${others} where rotation_id = '${id(85)}'`,
        "that ended otherwise": `update bridge_rotation
          set state = case state when 'confirmed' then 'aborted' else 'confirmed' end where rotation_id = '${id(85)}'`,
        "that is the named one": `delete from bridge_rotation where rotation_id = '${id(85)}';
          update bridge_rotation set state = '${outcome}', ended_at = ${past}, end_key_hash = ${hash("end")}`
      }
    })
  }

  testConditions(it, "a rotation is confirmed", {
    given: rotating,
    act: (sql) =>
      changedEachWay(ConfirmOrAbortStore.make(sql).confirm, ending, { ...ending, token_hash: sha256("strange") })(sql),
    actsOn: {
      "with a key that has aborted another": earlierEnd("aborted"),
      ...otherEnds("confirmed")
    },
    actsNotOn: {
      ...notEndable,
      "for an ended predecessor": endToken(ids.token),
      "for a predecessor at its expiry": `update bridge_token set expires_at = ${sqlNow} where state = 'active'`,
      "with a key that has confirmed another": earlierEnd("confirmed")
    }
  })
  testConditions(it, "a rotation is aborted", {
    given: rotating,
    act: (sql) => ConfirmOrAbortStore.make(sql).abort(ending),
    actsOn: {
      ...otherEnds("aborted"),
      "for an ended predecessor": endToken(ids.token),
      "for a predecessor at its expiry": `update bridge_token set expires_at = ${sqlNow} where state = 'active'`,
      "with a key that has confirmed another": earlierEnd("confirmed")
    },
    actsNotOn: { ...notEndable, "with a key that has aborted another": earlierEnd("aborted") }
  })

  testConditions(it, "a token is revoked", {
    given: rotating,
    act: (sql) => TokenStore.make(sql).revoke(sha256("token"), now, trace),
    actsOn: { "with a rotation that has ended": expireRotation },
    actsNotOn: {
      ...tokenNotActive,
      "while a pending rotation cannot be seen": "delete from bridge_rotation"
    }
  })
  testConditions(it, "revoking a token cancels the rotation", {
    given: rotating,
    act: (sql) => TokenStore.make(sql).revoke(sha256("token"), now, trace),
    seen: `select from bridge_rotation where state = 'cancelled' and ended_at = ${sqlNow}`,
    actsNotOn: {
      "that has ended": expireRotation,
      "at the end of its window": `update bridge_rotation set confirmation_expires_at = ${sqlNow}`,
      "that the Bridge does not name": "update bridge_identity set pending_rotation_id = null"
    }
  })

  testConditions(it, "revoking a token clears the name of the key rotation", {
    given: `${enrolled}; ${keyRotation}`,
    act: (sql) => TokenStore.make(sql).revoke(sha256("token"), now, trace),
    seen: `select from bridge_identity where identity_id = '${ids.identity}' and key_rotation_until is null`,
    actsNotOn: tokenNotActive
  })

  testConditions(it, "tokens/self shows an account reference", {
    given: `${enrolled};
      update bridge_identity set account_references = '{github:octo}';
      insert into approved_account_reference (project_id, reference, approved_at)
      values ('${ids.project}', 'github:octo', ${past})`,
    act: (sql) => lookedUp(TokenStore.make(sql).self, { token_hash: sha256("token"), now }).pipe(referencesOf),
    actsNotOn: {
      "of another project": `update approved_account_reference set project_id = '${ids.otherProject}'`,
      "of another Bridge": "update bridge_identity set account_references = '{}'",
      "after its withdrawal": `update approved_account_reference set withdrawn_at = ${past}`
    }
  })
})

layer(TestDatabase.sql)("what a Bridge learns about its token", (it) => {
  testConditions(it, "the pending rotation is shown", {
    given: rotating,
    act: (sql) =>
      Effect.map(
        lookedUp(TokenStore.make(sql).self, { token_hash: sha256("token"), now }),
        Option.filter(({ pending_rotation_id }) => pending_rotation_id === ids.rotation)
      ),
    actsNotOn: {
      "to another token": `update bridge_token set token_hash = ${others} where token_id = '${ids.token}'`,
      "after its end": expireRotation,
      "when the Bridge does not name it": "update bridge_identity set pending_rotation_id = null"
    }
  })
  testConditions(it, "a token is in good standing", {
    given: rotating,
    act: (sql) =>
      Effect.map(
        TokenStore.make(sql).findToken(sha256("successor")),
        Option.filter((token) => !token.revoked && token.confirmation_expires_at !== null)
      ),
    actsNotOn: {
      "of a revoked Bridge": revokeIdentity,
      "in a disabled project": disableProject,
      "of another identity": `update bridge_token set identity_id = '${id(89)}'`,
      "without the window of its rotation": `update bridge_rotation set successor_id = '${id(89)}'`
    }
  })
})

layer(TestDatabase.sql)("sweeps of Bridges", (it) => {
  const deletes = (name: string, given: string, actsOn: Record<string, string>, actsNotOn: Record<string, string>) =>
    testConditions(it, name, {
      given,
      bystander: rotating,
      act: sweepOf(sweeps, name, now),
      actsOn,
      actsNotOn
    })

  const ended = `${endToken(ids.token)}; update bridge_token set ended_at = ${longAgo}`
  const goesWith = `update enrollment_challenge set expires_at = ${longAgo}`

  deletes(
    "purge challenges",
    `${challenged}; ${goesWith}`,
    { "a used one whose token has ended": `${activeToken}; ${consume}; ${ended}` },
    {
      "for thirty days after its expiry": `update enrollment_challenge set expires_at = ${thirtyDays}`,
      "a used one whose token is active": `${activeToken}; ${consume}`,
      "a used one for thirty days after the end of its token": `${activeToken}; ${consume}; ${ended};
        update bridge_token set ended_at = ${thirtyDays}`,
      "a used one with another token": `${activeToken}; ${consume}; ${ended};
        update enrollment_challenge set token_id = '${id(89)}'`,
      "a used one for thirty days after its expiry": `${activeToken}; ${consume}; ${ended};
        update enrollment_challenge set expires_at = ${thirtyDays}`
    }
  )
  const rotationOf = (column: string, token_id: string) => `
    insert into bridge_rotation (
      rotation_id, identity_id, predecessor_id, successor_id, state, created_at, prepared_from,
      confirmation_expires_at, prepare_key_hash, ended_at)
    values ('${id(85)}', '${ids.identity}', '${id(86)}', '${id(87)}', 'expired', ${past}, '127.0.0.1', ${past},
            ${hash("p")}, ${past});
    update bridge_rotation set ${column} = '${token_id}'`
  deletes(
    "purge tokens",
    `${challenged}; ${activate}; ${activeToken}; ${ended}`,
    {
      "while a challenge has another token": `${consume}; update enrollment_challenge set token_id = '${id(89)}'`,
      "while a rotation has other tokens": rotationOf("predecessor_id", id(89))
    },
    {
      "for thirty days after its end": `update bridge_token set ended_at = ${thirtyDays}`,
      "while its challenge is there": consume,
      "while it is the predecessor of a rotation": rotationOf("predecessor_id", ids.token),
      "while it is the successor of a rotation": rotationOf("successor_id", ids.token)
    }
  )
  deletes(
    "purge credentials",
    `${credential}; update bridge_enrollment_credential set expires_at = ${longAgo}`,
    {
      "while another's challenge is there": `${openChallenge};
        update enrollment_challenge set credential_id = '${id(29)}'`
    },
    {
      "for thirty days after its expiry": `update bridge_enrollment_credential set expires_at = ${thirtyDays}`,
      "while its challenge is there": openChallenge
    }
  )
  deletes(
    "purge reservations",
    `${projects}; ${pendingIdentity}; update bridge_identity set challenge_expires_at = ${longAgo}`,
    {
      "while another's challenge is there": `${openChallenge};
        update enrollment_challenge set identity_id = '${id(89)}'`
    },
    {
      "for thirty days after its challenge": `update bridge_identity set challenge_expires_at = ${thirtyDays}`,
      "while a challenge is there": openChallenge,
      "of an active Bridge": `update bridge_identity set status = 'active', enrolled_at = ${past}`
    }
  )
  deletes(
    "forget proofs",
    `${projects}; insert into bridge_dpop_proof values (${hash("proof")}, ${sqlNow})`,
    {},
    { "that may come again": `update bridge_dpop_proof set forget_at = ${later}` }
  )
  const aDayAgo = `${sqlNow} - interval '1 day'`
  deletes(
    "forget token salts",
    `${enrolled}; update bridge_token set created_at = ${aDayAgo}`,
    { "of a token that has ended": endToken(ids.token) },
    {
      "while the proof may be replayed": `update bridge_token set created_at = ${aDayAgo} + interval '1 ms'`,
      "of a pending successor": "update bridge_token set state = 'pending'",
      twice: "update bridge_token set derivation_salt = null"
    }
  )
  deletes(
    "settle rotations",
    `${rotating}; update bridge_rotation set confirmation_expires_at = ${sqlNow}`,
    {},
    {
      "within its window": `update bridge_rotation set confirmation_expires_at = ${later}`,
      "after its end": expireRotation,
      "that the Bridge does not name": "update bridge_identity set pending_rotation_id = null"
    }
  )
  testConditions(it, "a rotation that is settled later ended with its window", {
    given: `${rotating}; update bridge_rotation set confirmation_expires_at = ${aMinuteAgo}`,
    act: sweepOf(sweeps, "settle rotations", now),
    bystander: rotating,
    seen: endedAMinuteAgo,
    actsNotOn: { "unless it ends now": `update bridge_rotation set confirmation_expires_at = ${sqlNow}` }
  })
  const keyRotation = `
    insert into bridge_key_rotation (
      key_rotation_id, identity_id, public_key_fingerprint, old_fingerprint, nonce_hash, derivation_salt, key_id,
      created_at, confirmation_expires_at, prepare_key_hash)
    values ('${id(61)}', '${ids.identity}', '${otherFingerprint}', '${fingerprint}', ${hash("nonce")}, ${hash("salt")},
            'k', ${longAgo}, ${longAgo}, ${hash("prepare key")})`
  const named = (until: string) =>
    `update bridge_identity set pending_key_rotation_id = '${id(61)}', key_rotation_until = ${until}`
  deletes(
    "settle key rotations",
    `${enrolled}; ${keyRotation}; ${named(sqlNow)}`,
    {},
    {
      "within its window": named(later),
      "that the Bridge does not name":
        "update bridge_identity set pending_key_rotation_id = null, key_rotation_until = null"
    }
  )
  deletes(
    "purge key rotations",
    `${enrolled}; ${keyRotation}`,
    {},
    {
      "for thirty days after its window": `update bridge_key_rotation set confirmation_expires_at = ${thirtyDays}`,
      "that the Bridge names": named(later)
    }
  )
  deletes(
    "settle tokens",
    `${enrolled}; update bridge_token set expires_at = ${sqlNow}`,
    {},
    {
      "before its expiry": `update bridge_token set expires_at = ${later}`,
      "after its end": endToken(ids.token),
      "that is pending": "update bridge_token set state = 'pending'"
    }
  )
  testConditions(it, "a token that is settled later ended with its term", {
    given: `${enrolled}; update bridge_token set expires_at = ${aMinuteAgo}`,
    act: sweepOf(sweeps, "settle tokens", now),
    bystander: enrolled,
    seen: `select from bridge_token where state = 'expired' and ended_at = ${aMinuteAgo}`,
    actsNotOn: { "unless it ends now": `update bridge_token set expires_at = ${sqlNow}` }
  })
  deletes(
    "purge rotations",
    `${rotating}; ${expireRotation}; update bridge_rotation set ended_at = ${longAgo}`,
    {},
    { "for thirty days after its end": `update bridge_rotation set ended_at = ${thirtyDays}` }
  )
})
