/**
 * The lookup of a token (`tokens/self`) with 1, 16 and 64 clients, measured alternately with
 *   - the same lookups with DPoP proofs;
 *   - the same service in which each lookup has a statement of its own;
 *   - node:http and `pg`, answering with the same lookup.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Context, Effect } from "effect"
import { Rotation } from "../src/bridges/rotation/Rotation.ts"
import * as Tokens from "../src/platform/crypto/Tokens.ts"
import { raw } from "./peers/peers.ts"
import { enroll } from "./support/bridge.ts"
import * as harness from "./support/harness.ts"
import { figure, ratio, report } from "./support/report.ts"
import { generalize, running } from "./support/statements.ts"

const clients = [1, 16, 64]
const mostCpu = new Map([
  [16, { most: 1.2 }],
  [64, { most: 1 }]
])

const main = Effect.gen(function* () {
  const on = yield* harness.start
  const { token } = yield* enroll(on)
  const lookup = yield* running(Context.get(on.context, Rotation).self(token))
  const alone = yield* on.replica({ SERVICE_SHARED_LOOKUPS: "off" })
  const peer = yield* raw(on, generalize(lookup.ran, { bearer: Tokens.hash(token) }, []))
  const targets = { shared: on, alone, peer }

  const seconds = Math.max(1, (harness.seconds - 20) / (harness.rounds * clients.length * 4) - 0.5)
  const load = Effect.fnUntraced(function* (
    target: harness.Target,
    connections: number,
    seconds: number,
    proves = false
  ) {
    const { project_id, url: service } = on
    const first = yield* on.issue(connections * 4)
    const run = {
      operation: "self",
      service,
      seconds,
      count: 1_000_000,
      project_id,
      proves,
      first,
      connections
    } as const
    return yield* harness.measure(on, target, run)
  })

  for (const target of Object.values(targets)) yield* load(target, 16, 3)
  yield* load(on, 16, 3, true)
  yield* on.sql`analyze`
  const rounds = yield* harness.inTurns(
    Object.fromEntries(
      clients.flatMap((count) => [
        ...Object.entries(targets).map(
          ([name, target]) => [`${name} ${count}`, () => load(target, count, seconds)] as const
        ),
        [`proven ${count}`, () => load(on, count, seconds, true)] as const
      ])
    )
  )

  report(
    "lookups",
    clients.flatMap((count) => {
      const [shared, alone, peer, proven] = ["shared", "alone", "peer", "proven"].map(
        (name) => rounds[`${name} ${count}`]!
      )
      const of = count === 1 ? "1 client" : `${count} clients`
      return [
        figure(`tokens/self, ${of}`, shared!),
        count === 1
          ? figure("a statement for each lookup", alone!, { ratio: ratio("p50", shared!, alone!, { most: 1.05 }) })
          : figure("a statement for each lookup", alone!, {
              ratio: ratio("database CPU", shared!, alone!, count === 64 ? { most: 0.25 } : undefined)
            }),
        figure("the same two, CPU of the service", [], { ratio: ratio("CPU", shared!, alone!) }),
        figure("node:http and pg, the same lookup", peer!, {
          ratio: ratio("CPU", shared!, peer!, mostCpu.get(count))
        }),
        figure("tokens/self with DPoP proofs", proven!, { ratio: ratio("CPU", shared!, proven!) })
      ]
    })
  )
})

NodeRuntime.runMain(Effect.scoped(main))
