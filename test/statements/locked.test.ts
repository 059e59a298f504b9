/**
 * Sweeps of rotation, and statements that serve several requests, leave a Bridge alone that a request has locked, instead of
 * waiting for it or overtaking it.
 */
import { PgClient } from "@effect/sql-pg"
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Option } from "effect"
import { SqlClient } from "effect/sql"
import { sweeps as continuitySweeps } from "../../src/agents/continuity/Sweeps.ts"
import { sweeps as memorySweeps } from "../../src/agents/memory/Sweeps.ts"
import * as ChallengeStore from "../../src/bridges/enrollment/ChallengeStore.ts"
import * as ProofStore from "../../src/bridges/enrollment/ProofStore.ts"
import * as ConfirmOrAbortStore from "../../src/bridges/rotation/ConfirmOrAbortStore.ts"
import * as PrepareStore from "../../src/bridges/rotation/PrepareStore.ts"
import { sweeps } from "../../src/bridges/rotation/Sweeps.ts"
import { sha256 } from "../../src/platform/crypto/Sha256.ts"
import { DatabaseClock } from "../../src/platform/database/Clock.ts"
import { statementsOf } from "../../src/platform/database/Migrations.ts"
import { sweepOnce } from "../../src/platform/database/Sweeper.ts"
import { waitedForBy } from "../support/database/Locks.ts"
import {
  challenged,
  credential,
  enrolled,
  fingerprint,
  id,
  ids,
  now,
  past,
  pendingIdentity,
  projects,
  rotating,
  sqlNow,
  trace
} from "../support/statements/OneOfEach.ts"
import { TestDatabase } from "../support/database/TestDatabase.ts"

layer(TestDatabase.sql)("a Bridge that a request has locked", (it) => {
  const due = `set local session_replication_role = replica; ${rotating};
    update bridge_rotation set confirmation_expires_at = ${sqlNow};
    update bridge_token set expires_at = ${sqlNow} where state = 'active'`
  const sweep = (name: string) =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const run = sweeps.find((one) => one.name === name)!.run(sql, now, 9)
      const swept = yield* sql.withTransaction(Effect.andThen(sql`set local lock_timeout = '1s'`, run))
      return swept.length
    })

  it.effect("is skipped by the sweeps, which find it again later", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const another = PgClient.layer({ ...(yield* TestDatabase), maxConnections: 1 })
      yield* sql.withTransaction(Effect.forEach(statementsOf(due), (statement) => sql.unsafe(statement).unprepared))
      for (const name of ["settle rotations", "settle tokens"]) {
        const whileLocked = Effect.andThen(
          sql`select from bridge_identity for no key update`,
          Effect.provide(sweep(name), another)
        )
        assert.strictEqual(yield* sql.withTransaction(whileLocked), 0, name)
        assert.strictEqual(yield* sweep(name), 1, name)
      }
    })
  )
})

layer(TestDatabase.sql)("a project whose usage a write has locked", (it) => {
  const { otherProject, project } = ids
  const keyOf = (of: string, age: string) => `
    insert into project_usage (project_id, stored_bytes, index_bytes, entries, tasks) values ('${of}', 9, 0, 0, 0);
    insert into idempotency_record (project_id, tool, idempotency_key, request_hash, created_at)
    values ('${of}', 'memory_add', 'key', sha256('request'), ${sqlNow} - interval '${age}')`
  const due = `${projects}; ${keyOf(project, "9 days")}; ${keyOf(otherProject, "8 days")}`
  /** Deletes due keys while the usage of a project is locked; returns how many there were, or nothing if it waits for it. */
  const sweepBeside = Effect.fnUntraced(function* (locked: string) {
    const sql = yield* SqlClient.SqlClient
    const another = PgClient.layer({ ...(yield* TestDatabase), maxConnections: 1 })
    const sweep = SqlClient.SqlClient.use((sql) =>
      sql.withTransaction(Effect.andThen(sql`set local lock_timeout = '1s'`, continuitySweeps[0]!.run(sql, now, 9)))
    )
    const swept = Effect.option(Effect.map(Effect.provide(sweep, another), ({ length }) => length))
    const lock = sql`select from project_usage where project_id = ${locked}::uuid for update`
    return Option.getOrUndefined(yield* sql.withTransaction(Effect.andThen(lock, swept)))
  })

  it.effect("keeps its keys for now, and no other one's; only the oldest key of all is waited for", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const kept = sql<{ project_id: string }>`select project_id from idempotency_record order by created_at`
      yield* sql.withTransaction(Effect.forEach(statementsOf(due), (statement) => sql.unsafe(statement).unprepared))
      assert.strictEqual(yield* sweepBeside(project), undefined)
      assert.lengthOf(yield* kept, 2)
      // The batch is as full with the key that stays: others wait behind it.
      assert.strictEqual(yield* sweepBeside(otherProject), 2)
      assert.deepStrictEqual(yield* kept, [{ project_id: otherProject }])
      assert.strictEqual(yield* sweepBeside(project), 1)
      assert.lengthOf(yield* kept, 0)
    })
  )
})

layer(TestDatabase.sql)("a project that is indexed again while a write has locked its usage", (it) => {
  const { otherProject, project } = ids
  const restored = (of: string, entry: string) => `
    insert into project_usage (project_id, stored_bytes, index_bytes, entries, tasks) values ('${of}', 8, 0, 1, 0);
    insert into memory_entry (project_id, id, kind, title, body, tags, actor, role, created_at)
    values ('${of}', '${entry}', 'note', 'word', 'word', '{}', 'agent', 'contributor', ${past});
    insert into memory_reindex (project_id, due_at) values ('${of}', '-infinity')`
  const given = `${projects}; ${restored(project, id(52))}; ${restored(otherProject, id(53))}`

  it.effect("is waited for, and no write of a project that was indexed before it", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const another = PgClient.layer({ ...(yield* TestDatabase), maxConnections: 1 })
      yield* sql.withTransaction(Effect.forEach(statementsOf(given), (statement) => sql.unsafe(statement).unprepared))
      const sweep = yield* sql.withTransaction(
        Effect.gen(function* () {
          yield* sql`select from project_usage where project_id = ${otherProject}::uuid for update`
          const sweep = yield* Effect.forkChild(
            Effect.provide(sweepOnce(memorySweeps), [another, DatabaseClock.layerLocal])
          )
          yield* waitedForBy(1)
          yield* sql`set local lock_timeout = '1s'`
          yield* sql`update project_usage set entries = 2 where project_id = ${project}::uuid`
          return sweep
        })
      )
      yield* Fiber.join(sweep)
      const counts = yield* sql`
        select u.project_id, u.entries::int, u.index_bytes = sum(octet_length(p.lexeme) + 24) as complete
          from project_usage u
          join memory_posting p using (project_id)
         group by u.project_id
         order by u.project_id`
      assert.deepStrictEqual(counts, [
        { project_id: project, entries: 2, complete: true },
        { project_id: otherProject, entries: 1, complete: true }
      ])
      assert.deepStrictEqual(yield* sql`select from memory_reindex`, [])
    })
  )
})

const expires_at = new Date(now.getTime() + 300_000)
const minted = { derivation_salt: sha256("salt"), key_id: "k" }
const opening = {
  claim: {
    credential_hash: sha256("credential"),
    project_id: ids.project,
    bridge_id: "bridge-1",
    device_id: "device-1",
    display_name: "Bridge",
    public_key_fingerprint: fingerprint,
    idempotency_key_hash: sha256("new key"),
    request_hash: sha256("request")
  },
  challenge: { challenge_id: id(81), identity_id: id(82), nonce_hash: sha256("nonce"), ...minted, expires_at },
  trace
}
const open = (sql: SqlClient.SqlClient) => ChallengeStore.make(sql).openChallenge([opening], "skip locked")

interface Change {
  readonly given: string
  readonly lock: string
  readonly act: (sql: SqlClient.SqlClient) => Effect.Effect<ReadonlyArray<Option.Option<unknown>>, unknown>
  /** False if such a request always runs alone. */
  readonly shares?: boolean
}

const changes: Readonly<Record<string, Change>> = {
  "a prepare": {
    given: enrolled,
    lock: "bridge_identity",
    act: (sql) => {
      const successor = { rotation_id: id(84), successor_id: id(83), successor_hash: sha256("new"), ...minted }
      const keys = { presented_hash: sha256("token"), prepare_key_hash: sha256("new prepare") }
      const request = { ...keys, successor: { ...successor, confirmation_expires_at: expires_at }, trace }
      return PrepareStore.make(sql).prepare([{ ...request, allowed: undefined }], "skip locked")
    }
  },
  "a confirm": {
    given: rotating,
    lock: "bridge_identity",
    act: (sql) => {
      const request = { token_hash: sha256("successor"), rotation_id: ids.rotation, key_hash: sha256("end") }
      return ConfirmOrAbortStore.make(sql).confirm([{ ...request, expires_at, trace }], "skip locked")
    }
  },
  "a proof": {
    given: challenged,
    lock: "bridge_identity",
    act: (sql) => {
      const proof = { challenge_id: ids.challenge, key_hash: sha256("proof"), request_hash: sha256("request") }
      const token = { token_id: id(83), token_hash: sha256("new token"), ...minted, expires_at }
      return ProofStore.make(sql).enroll([{ identity_id: ids.identity, proof, token, trace }], "skip locked")
    }
  },
  "a challenge": { given: credential, lock: "bridge_enrollment_credential", act: open },
  "a challenge for a reserved bridge_id": {
    given: `${credential}; ${pendingIdentity}`,
    lock: "bridge_identity",
    act: open,
    shares: false
  }
}

for (const [name, { act, given, lock, shares = true }] of Object.entries(changes)) {
  layer(TestDatabase.sql)(`${name} that shares a statement`, (it) => {
    it.effect("passes over what another statement has locked", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const another = PgClient.layer({ ...(yield* TestDatabase), maxConnections: 1 })
        const prepared = `set local session_replication_role = replica; ${given}`
        yield* sql.withTransaction(Effect.forEach(statementsOf(prepared), (each) => sql.unsafe(each).unprepared))
        const acted = Effect.gen(function* () {
          const own = yield* SqlClient.SqlClient
          const timeout = own`set local lock_timeout = '1s'`
          const [result] = yield* own.withTransaction(Effect.andThen(timeout, act(own)))
          return Option.isSome(result!)
        })
        const whileLocked = Effect.andThen(
          sql`select from ${sql.literal(lock)} for no key update`,
          Effect.provide(acted, another)
        )
        assert.isFalse(yield* sql.withTransaction(whileLocked))
        assert.strictEqual(yield* acted, shares)
      })
    )
  })
}

layer(TestDatabase.sql)("two credentials for one Bridge in a shared statement", (it) => {
  it.effect("open one challenge, and the other credential stays unused", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const another = {
        claim: { ...opening.claim, credential_hash: sha256("another"), device_id: "device-2" },
        challenge: { ...opening.challenge, challenge_id: id(91), identity_id: id(92), nonce_hash: sha256("another") },
        trace: { ...trace, event_id: id(93) }
      }
      yield* sql.withTransaction(
        Effect.forEach(
          statementsOf(`set local session_replication_role = replica; ${credential}`),
          (each) => sql.unsafe(each).unprepared
        )
      )
      yield* sql`
        insert into bridge_enrollment_credential
        select (jsonb_populate_record(c, jsonb_build_object(
                 'credential_id', ${id(90)}::text, 'credential_hash', ${another.claim.credential_hash}::bytea::text))).*
          from bridge_enrollment_credential c`
      const opened = yield* ChallengeStore.make(sql).openChallenge([opening, another], "skip locked")
      assert.strictEqual(opened.filter(Option.isSome).length, 1)
      const claimed = yield* sql`select from bridge_enrollment_credential where claimed_at is not null`
      assert.strictEqual(claimed.length, 1)
    })
  )
})
