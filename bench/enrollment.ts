/**
 * Enrollment (spec 4.1, 4.2) with 16 and 64 clients, measured alternately with
 *   - pgbench, which runs only the same three statements: the limit that the database sets;
 *   - node:http and `pg` with the same three statements;
 *   - for information, Debian's pebble, an ACME server that keeps everything in memory: its new account (fetch a nonce, send
 *     a signed request) is the closest operation of a known server.
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
  const peer = yield* raw(on, statements)
  const acme = yield* pebble

  const seconds = Math.max(1, Math.floor((harness.seconds - 26) / (harness.rounds * 6)))
  const maxEnrollments = seconds * 4000

  const load = Effect.fnUntraced(function* (target: harness.Target, connections: number, seconds: number) {
    const { project_id } = on
    const first = yield* on.issue(maxEnrollments + connections)
    const run = { operation: "enroll", seconds, count: maxEnrollments, project_id, first, connections } as const
    return yield* harness.measure(on, target, run)
  })

  const scripted = Effect.fnUntraced(function* (round: number) {
    const base = round * 10_000_000
    yield* credentialsForScript(on, base, maxEnrollments)
    return yield* harness.pgbench(on, script, { seconds, base, done: activeIdentities(on) })
  })

  const accounts = ({ pid, url }: harness.Target) =>
    harness.measure(on, { pid, url }, { operation: "account", seconds, count: seconds * 6000, first: 0 })

  yield* load(on, harness.connections, 5)
  yield* load(peer, harness.connections, 2)
  yield* on.sql`analyze`
  const { account, many, manyPeer, pgbench, some, somePeer } = yield* harness.inTurns({
    some: () => load(on, harness.connections, seconds),
    pgbench: scripted,
    many: () => load(on, 64, seconds),
    somePeer: () => load(peer, harness.connections, seconds),
    manyPeer: () => load(peer, 64, seconds),
    account: () => (acme === undefined ? Effect.succeed(undefined) : accounts(acme))
  })

  const skipped = { name: "pebble, nonce and new account", note: "skipped: pebble or openssl is not installed" }
  report("enrollment", [
    figure("enrollment, challenge and proof", some),
    figure("enrollment, 64 clients", many),
    figure("pgbench, the same three statements", pgbench, { ratio: ratio("rate", some, pgbench, { least: 0.55 }) }),
    figure("pgbench, compared with 64 clients", [], { ratio: ratio("rate", many, pgbench, { least: 0.9 }) }),
    figure("node:http and pg, the same three statements", somePeer, { ratio: ratio("CPU", some, somePeer) }),
    figure("the same, 64 clients", manyPeer, { ratio: ratio("CPU", many, manyPeer) }),
    figure("its rate, 16 clients", [], { ratio: ratio("rate", some, somePeer) }),
    figure("its rate, 64 clients", [], { ratio: ratio("rate", many, manyPeer) }),
    account.every((run) => run !== undefined)
      ? figure(skipped.name, account, { ratio: ratio("rate", some, account) })
      : skipped
  ])
})

NodeRuntime.runMain(Effect.scoped(main))
