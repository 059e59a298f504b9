/**
 * Kills the first start with kill -9 at a random moment, with its child processes or without them.
 *
 * The next start creates a database within ten seconds and serves.
 */
import { Effect } from "effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync, mkdirSync } from "node:fs"
import { join } from "node:path"
import { main } from "../../../support/service/processes/Main.ts"
import { admin, chaos, draw, freePort, percentile, scratch, server, size, sliced } from "../harness.ts"

const kills = size(5, 1)
const bound = sliced ? Infinity : 10_000

const starts: Array<number> = []
const found: Array<string> = []

const undisturbed = Effect.gen(function* () {
  const start = performance.now()
  yield* server(yield* scratch)
  return performance.now() - start
})

chaos(
  "first-start",
  () => ({ starts }),
  Effect.gen(function* () {
    const violations: Array<string> = []
    /** How long an undisturbed start takes, or about that; the moments of the kills are drawn from this range. */
    const [from, to] = [150, sliced ? 2000 : yield* Effect.scoped(undisturbed)]
    for (let n = 0; n < kills; n++) {
      yield* Effect.scoped(
        Effect.gen(function* () {
          const folder = yield* scratch
          const data = join(folder, "data")
          mkdirSync(data, { mode: 0o711 })
          const child = spawn(process.execPath, [main], {
            detached: true,
            stdio: "ignore",
            env: {
              PATH: process.env["PATH"],
              SERVICE_DATA_DIR: data,
              SERVICE_PORT: String(yield* freePort),
              SERVICE_LOG_LEVEL: "Fatal"
            }
          })
          yield* Effect.sleep(from + ((n + draw()) / kills) * (to - from))
          // The group includes PostgreSQL's setup, but not the server that the setup starts at the end.
          process.kill(n % 2 === 0 ? -child.pid! : child.pid!, "SIGKILL")
          yield* Effect.promise(() => once(child, "exit"))
          found.push(stage(data))
          const start = performance.now()
          const one = yield* server(folder)
          starts.push(Math.round(performance.now() - start))
          const { project_id } = yield* admin(folder, "create-project", "--name", "After")
          const { items } = yield* admin(folder, "list-projects")
          if (items.length !== 1 || items[0].project_id !== project_id) violations.push(`not one project at ${one.url}`)
        })
      )
    }
    const slowest = Math.max(...starts)
    if (slowest > bound) violations.push(`a start took ${slowest} ms`)
    return {
      figures: {
        kills,
        undisturbed_ms: to,
        killed_at: found,
        median_start_ms: percentile(starts, 0.5),
        slowest_start_ms: slowest
      },
      violations
    }
  })
)

const stage = (data: string) => {
  if (existsSync(join(data, "postgres/postmaster.pid"))) return "the database server had started"
  if (existsSync(join(data, "postgres"))) return "the database had been created"
  return existsSync(join(data, "secrets.env")) ? "the database was being created" : "nothing had been created"
}
