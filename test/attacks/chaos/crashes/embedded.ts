/**
 * Kills the service and its embedded PostgreSQL with kill -9, either or both, ten times while Bridges rotate and agents
 * write.
 *
 * None of 5,000 acknowledged writes is lost, each start takes at most ten seconds, the indexes agree with their tables,
 * and a second PostgreSQL on the same folder is refused.
 */
import { Effect } from "effect"
import { spawnSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { postgresFiles } from "../../../../src/platform/database/embedded/PostgresFiles.ts"
import { beside, chaos, draw, ledger, percentile, scratch, server, size, sliced, until } from "../harness.ts"
import { makeLoad } from "../parts/Load.ts"

const kills = size(10, 1)
const writes = size(5000, 100)
const clients = size(16, 6)
const bound = sliced ? Infinity : 10_000

const starts: Array<number> = []

chaos(
  "embedded",
  () => ({ kills: starts.length }),
  Effect.gen(function* () {
    const folder = yield* scratch
    const data = join(folder, "data")
    const one = yield* server(folder)
    const notes = yield* ledger(folder)
    const load = yield* Effect.scoped(
      Effect.flatMap(beside(folder, one), (on) => makeLoad(on, notes, { bridges: clients, agents: clients }))
    )
    const violations: Array<string> = []
    const { directory, postgres } = yield* postgresFiles(data)
    const postmaster = () => Number(readFileSync(join(directory, "postmaster.pid"), "utf8").split("\n")[0])

    yield* load.during(
      Effect.gen(function* () {
        for (let n = 0; n < kills; n++) {
          const due = ((n + 0.5) / kills) * writes
          yield* until(`${due} acknowledged writes`, () => load.acknowledgements() >= due || load.violations.length > 0)
          yield* Effect.sleep(draw() * 100)
          if (n % 3 !== 0) process.kill(postmaster(), "SIGKILL")
          if (n % 3 === 1) {
            // The service is still running and restarts PostgreSQL. Writes in flight at the kill may be acknowledged without it.
            const [from, before] = [performance.now(), load.acknowledgements() + 2 * clients]
            yield* until(
              "acknowledged writes after PostgreSQL alone was killed",
              () => load.acknowledgements() > before || load.violations.length > 0
            )
            starts.push(Math.round(performance.now() - from))
          } else starts.push(yield* one.killAndRestart)
        }
        yield* until(
          `${writes} acknowledged writes`,
          () => load.acknowledgements() >= writes || load.violations.length > 0
        )
      })
    )

    const { sql } = yield* beside(folder, one)
    yield* load.settled(sql)
    yield* sql`create extension if not exists amcheck`
    const damages = yield* sql<{ readonly table: string; readonly msg: string }>`
      select c.relname as table, msg
        from pg_class c, lateral verify_heapam(c.oid)
       where c.relnamespace = 'public'::regnamespace and c.relkind = 'r'
       limit 10`
    for (const { table, msg } of damages) violations.push(`${table} is damaged: ${msg}`)
    const indexes = yield* sql<{ readonly index: string }>`
      select c.oid::regclass::text as index
        from pg_class c
        join pg_am a on a.oid = c.relam and a.amname = 'btree'
       where c.relnamespace = 'public'::regnamespace and c.relkind = 'i'`
    yield* Effect.forEach(indexes, ({ index }) =>
      sql`select bt_index_check(${index}::regclass, true)`.pipe(
        Effect.catch(({ reason }) => Effect.sync(() => violations.push(`${index} is damaged: ${reason.cause}`)))
      )
    )

    const { uid, gid } = { uid: undefined, gid: undefined, ...(yield* postgresFiles(data)).account }
    const second = spawnSync(postgres, ["-D", directory, "-c", "listen_addresses="], {
      uid,
      gid,
      cwd: "/",
      env: {},
      encoding: "utf8",
      timeout: 10_000
    })
    const refused = second.status === 1 && /lock file "postmaster.pid" already exists/.test(second.stderr)
    if (!refused) violations.push(`a second PostgreSQL was not refused: ${second.status} ${second.stderr}`)
    yield* sql`select 1`

    const slowest = Math.max(...starts)
    if (slowest > bound) violations.push(`a start took ${slowest} ms`)
    if ((load.outcomes()["no answer"] ?? 0) === 0) violations.push("no kill interrupted a request")
    return {
      figures: {
        ...load.counts(),
        acknowledged: load.acknowledgements(),
        outcomes: load.outcomes(),
        kills: starts.length,
        median_back_after_ms: percentile(starts, 0.5),
        slowest_back_after_ms: slowest,
        indexes_checked: indexes.length,
        second_postgres: refused ? "refused" : "let in"
      },
      violations: [...violations, ...load.violations]
    }
  })
)
