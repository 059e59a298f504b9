/** Kills one of two replicas ten times while Bridges rotate; parts/Rotations.ts says what must hold. */
import { Effect } from "effect"
import { balancer, beside, chaos, draw, scratch, server } from "../harness.ts"
import { progress, rotateUnderKills } from "../parts/Rotations.ts"

chaos(
  "replicas",
  progress,
  Effect.gen(function* () {
    const folder = yield* scratch
    const replicas = [yield* server(folder), yield* server(folder)]
    const base_url = yield* balancer(replicas.map(({ port }) => port))
    const { sql } = yield* beside(folder, replicas[0]!)
    const kill = Effect.suspend(() => replicas[draw() < 0.5 ? 0 : 1]!.killSome())
    return yield* rotateUnderKills({ folder, base_url, sql, kill })
  })
)
