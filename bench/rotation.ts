/**
 * Rotation (spec 4.3, 4.4) and the bearer lookup behind every request of a Bridge, measured alternately with
 *   - the same two with DPoP proofs;
 *   - pgbench, which runs only the statements of a rotation;
 *   - node:http and `pg`, answering `tokens/self` with the same lookup.
 * Then memory and latency over `--requests` requests: eight lookups for each rotation.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Context, Effect } from "effect"
import { sha256 } from "../src/platform/crypto/Sha256.ts"
import * as Tokens from "../src/platform/crypto/Tokens.ts"
import { Rotation } from "../src/bridges/rotation/Rotation.ts"
import { enroll } from "./support/bridge.ts"
import * as harness from "./support/harness.ts"
import { raw } from "./peers/peers.ts"
import { figure, ratio, report } from "./support/report.ts"
import { asScript, generalize, running } from "./support/statements.ts"

/** Runs one rotation and one lookup in this process, and returns their statements. */
const recorded = Effect.fnUntraced(function* (on: harness.Bench) {
  const rotation = Context.get(on.context, Rotation)
  const { token: bearer } = yield* enroll(on)
  const preparing = yield* running(rotation.prepare(bearer, "prepare"))
  const { rotation_id, successor_token } = preparing.result.answer
  const confirming = yield* running(rotation.confirm(successor_token, rotation_id, "confirm"))
  const lookup = yield* running(rotation.self(successor_token))
  const names = {
    bearer: Tokens.hash(bearer),
    successor: Tokens.hash(successor_token),
    prepare_key_hash: sha256("prepare"),
    end_key_hash: sha256("confirm")
  }
  return {
    rotate: generalize([...preparing.ran, ...confirming.ran], names, []),
    self: generalize(lookup.ran, { bearer: Tokens.hash(successor_token) }, [])
  }
})

/** Each pgbench client rotates one Bridge: the successor of operation `:n` is the bearer of the client's next operation. */
const tokenHash = (n: string) => `sha256(('token ' || ${n})::bytea)`
const parameters = {
  bearer: tokenHash(":n::text"),
  successor: tokenHash("(:n::bigint + :clients::bigint)::text"),
  prepare_key_hash: "sha256((:n::text || ' prepare')::bytea)",
  end_key_hash: "sha256((:n::text || ' confirm')::bytea)"
}

const confirmedRotations = ({ sql }: harness.Bench) =>
  Effect.map(
    sql`select count(*)::int as n from bridge_rotation where state = 'confirmed'`,
    ([row]) => row!["n"] as number
  )

const main = Effect.gen(function* () {
  const on = yield* harness.start
  const statements = yield* recorded(on)
  const script = harness.numbered + asScript(statements.rotate, parameters)
  const peer = yield* raw(on, statements.self)

  const seconds = Math.max(1, Math.floor((harness.seconds - 25) / (harness.rounds * 7)))

  const load = Effect.fnUntraced(function* (
    operation: "self" | "rotate" | "mixed",
    target: harness.Target,
    seconds: number,
    { connections = harness.connections, count = 1_000_000, proves = false } = {}
  ) {
    const first = yield* on.issue(connections * 4)
    const { project_id, url: service } = on
    const run = { operation, service, seconds, count, project_id, first, connections, proves } as const
    return yield* harness.measure(on, target, run)
  })

  const scripted = Effect.fnUntraced(function* (round: number) {
    const base = round * 10_000_000
    for (let client = 0; client < harness.poolSize; client++) {
      const hash = Tokens.hash((yield* enroll(on)).token)
      yield* on.sql`
        update bridge_token
           set token_hash = ${on.sql.literal(tokenHash(`'${base + client}'`))}
         where token_hash = ${hash}`
    }
    return yield* harness.pgbench(on, script, { seconds, base, done: confirmedRotations(on) })
  })

  yield* load("rotate", on, 4)
  yield* load("self", on, 2)
  yield* load("self", peer, 2)
  yield* load("rotate", on, 2, { proves: true })
  yield* on.sql`analyze`
  const { many, pgbench, rotate, rotateProven, self, selfPeer, selfProven } = yield* harness.inTurns({
    rotate: () => load("rotate", on, seconds),
    rotateProven: () => load("rotate", on, seconds, { proves: true }),
    pgbench: scripted,
    many: () => load("rotate", on, seconds, { connections: 64 }),
    self: () => load("self", on, seconds),
    selfProven: () => load("self", on, seconds, { proves: true }),
    selfPeer: () => load("self", peer, seconds)
  })

  // Limited by the number of requests, not by time.
  const half = harness.requests / 2
  const first = yield* load("mixed", on, 3600, { count: half })
  const second = yield* load("mixed", on, 3600, { count: half })
  const grown = (second.rss_mib - first.rss_mib).toFixed(1)

  report("rotation", [
    figure("rotation, prepare and confirm", rotate),
    figure("the same with DPoP proofs", rotateProven, { ratio: ratio("CPU", rotate, rotateProven) }),
    figure("rotation, 64 clients", many),
    figure("pgbench, the same statements", pgbench, { ratio: ratio("rate", rotate, pgbench, { least: 0.7 }) }),
    figure("pgbench, compared with 64 clients", [], { ratio: ratio("rate", many, pgbench, { least: 1.2 }) }),
    figure("tokens/self", self),
    figure("the same with DPoP proofs", selfProven, { ratio: ratio("CPU", self, selfProven) }),
    figure("node:http and pg, the same lookup", selfPeer, { ratio: ratio("CPU", self, selfPeer, { most: 1.2 }) }),
    figure(`${half} requests: 10 % prepare, 10 % confirm, 80 % tokens/self`, [first]),
    figure(`the next ${half} requests`, [second], { note: `the service's memory changed by ${grown} MiB` })
  ])
})

NodeRuntime.runMain(Effect.scoped(main))
