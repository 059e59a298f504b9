/**
 * Enrollment (spec 4.1, 4.2), measured alternately with
 *   - pgbench, which runs only the same three statements: the limit that the database sets;
 *   - Debian's pebble, an ACME server that keeps everything in memory: its new account (fetch a nonce, send a signed
 *     request) is the closest operation of a known server;
 *   - for the proof alone, node:http and `pg` with the same two statements.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect } from "effect"
import { sha256 } from "../src/platform/crypto/Sha256.ts"
import * as Tokens from "../src/platform/crypto/Tokens.ts"
import { enroll } from "./support/bridge.ts"
import * as harness from "./support/harness.ts"
import { pebble, raw } from "./peers/peers.ts"
import { figure, ratio, report } from "./support/report.ts"
import { asScript, generalize } from "./support/statements.ts"

/** The statements of an enrollment: create the challenge; find it; enroll. */
const recorded = Effect.fnUntraced(function* (on: harness.Bench) {
  const { bridge_id, challenge_id, credential, ran, token } = yield* enroll(on)
  const names = {
    bridge_id,
    challenge_id,
    credential_hash: Tokens.hash(credential),
    key_hash: sha256("proof"),
    token_hash: Tokens.hash(token)
  }
  return generalize(ran, names, [on.project_id])
})

/** SQL expressions for the values that operation `:n` of the script sends. */
const parameters = {
  bridge_id: "'pgbench ' || :n::text",
  challenge_id: "lpad(to_hex(:n::bigint * 16 + 15), 32, '0')::uuid",
  credential_hash: "sha256((:n::text || ' credential')::bytea)",
  key_hash: "sha256((:n::text || ' key')::bytea)",
  token_hash: "sha256((:n::text || ' token')::bytea)"
}

const credentialsForScript = ({ project_id, sql }: harness.Bench, from: number, count: number) => sql`
  insert into bridge_enrollment_credential (
    credential_id, credential_hash, project_id, account_references, created_at, expires_at)
  select gen_random_uuid(), sha256((n::text || ' credential')::bytea), ${project_id}::uuid, '{github:octo}',
         clock_timestamp(), clock_timestamp() + interval '1 day'
    from generate_series(${from}::int, ${from + count - 1}::int) n`

const activeIdentities = ({ sql }: harness.Bench) =>
  Effect.map(
    sql`select count(*)::int as n from bridge_identity where status = 'active'`,
    ([row]) => row!["n"] as number
  )

const main = Effect.gen(function* () {
  const on = yield* harness.start
  const statements = yield* recorded(on)
  const script = harness.numbered + asScript(statements, parameters)
  const peer = yield* raw(on, statements.slice(1))
  const acme = yield* pebble

  // Enrollment, pgbench and pebble run for a fixed time; the two proof runs for a fixed number of proofs.
  const seconds = Math.max(1, Math.floor((harness.seconds - 26) / (harness.rounds * 3)))
  const proofs = 800
  const maxEnrollments = seconds * 3000

  const load = Effect.fnUntraced(function* (operation: "enroll" | "prove", at: harness.Target, seconds: number) {
    const count = operation === "prove" ? proofs : maxEnrollments
    const first = yield* on.issue(count + harness.connections)
    const { project_id, url: service } = on
    return yield* harness.measure(on, at, { operation, service, seconds, count, project_id, first })
  })

  const scripted = Effect.fnUntraced(function* (round: number) {
    const base = round * 10_000_000
    yield* credentialsForScript(on, base, maxEnrollments)
    return yield* harness.pgbench(on, script, { seconds, base, done: activeIdentities(on) })
  })

  const accounts = ({ pid, url }: harness.Target) =>
    harness.measure(on, { pid, url }, { operation: "account", seconds, count: seconds * 6000, first: 0 })

  yield* load("enroll", on, 5)
  yield* load("prove", peer, 10)
  yield* on.sql`analyze`
  const { account, enrollment, pgbench, prove, provePeer } = yield* harness.inTurns({
    enrollment: () => load("enroll", on, seconds),
    pgbench: scripted,
    account: () => (acme === undefined ? Effect.succeed(undefined) : accounts(acme)),
    prove: () => load("prove", on, 10),
    provePeer: () => load("prove", peer, 10)
  })

  const skipped = { name: "pebble, nonce and new account", note: "skipped: pebble or openssl is not installed" }
  report("enrollment", [
    figure("enrollment, challenge and proof", enrollment),
    figure("pgbench, the same three statements", pgbench, {
      ratio: ratio("rate", enrollment, pgbench, { least: 0.5 })
    }),
    account.every((run) => run !== undefined)
      ? figure(skipped.name, account, { ratio: ratio("rate", enrollment, account, { least: 3 }) })
      : skipped,
    figure("the proof alone", prove),
    figure("node:http and pg, the same two statements", provePeer, {
      ratio: ratio("CPU", prove, provePeer)
    })
  ])
})

NodeRuntime.runMain(Effect.scoped(main))
