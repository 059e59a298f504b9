/**
 * The disk under the embedded database fills up while Bridges rotate and agents write, and later has room again.
 *
 * While it is full, writes are answered 503 `bridge_persistence_error`, reads succeed, and the service stays alive.
 * Afterwards it recovers by itself, and nothing acknowledged is lost.
 *
 * A disk of its own needs root (a tmpfs). Without root PostgreSQL refuses each insert with SQLSTATE 53100, the code of a
 * full disk. `disk` in the figures tells which of the two it was.
 */
import { Effect, Fiber } from "effect"
import { mkdirSync, rmSync } from "node:fs"
import { join } from "node:path"
import { beside, chaos, ledger, scratch, server, size, sliced } from "../harness.ts"
import { watchHealth } from "../parts/Health.ts"
import { makeLoad } from "../parts/Load.ts"
import { fillDisk, smallDisk } from "../parts/database/SmallDisk.ts"

const fulls = size(3, 1)
const bound = sliced ? Infinity : 5000

const recoveries: Array<number> = []

chaos(
  "disk-full",
  () => ({ recoveries }),
  Effect.gen(function* () {
    const folder = join(yield* scratch, "disk")
    mkdirSync(folder, { mode: 0o711 })
    const mounted = yield* smallDisk(folder, "size=224m,mode=0711")
    const one = yield* server(folder)
    const on = yield* beside(folder, one)
    const { sql } = on
    const load = yield* makeLoad(on, yield* ledger(join(folder, "..")), { bridges: 6, agents: 6 })
    const health = yield* watchHealth(one)
    const violations: Array<string> = []
    const { exchanges } = load
    let reads = 0

    const filler = join(folder, "filler")
    const disk = mounted
      ? {
          fill: fillDisk(filler),
          empty: Effect.sync(() => rmSync(filler))
        }
      : {
          fill: Effect.asVoid(sql`create trigger disk_full before insert on audit_event execute function disk_full()`),
          empty: Effect.asVoid(sql`drop trigger disk_full on audit_event`)
        }
    yield* sql`
      create function disk_full() returns trigger language plpgsql as
      $$ begin raise exception 'could not extend file: No space left on device' using errcode = '53100'; end $$`

    const until = (enough: () => boolean, otherwise: string) =>
      Effect.sleep("20 millis").pipe(
        Effect.repeat({ until: enough }),
        Effect.timeoutOrElse({ duration: "20 seconds", orElse: () => Effect.sync(() => violations.push(otherwise)) })
      )
    const since = (from: number, good: boolean) =>
      exchanges.filter(({ at, outcome }) => at >= from && /^20\d$/.test(outcome) === good).length

    yield* load.during(
      Effect.gen(function* () {
        for (let n = 0; n < fulls; n++) {
          yield* Effect.sleep(size(1500, 300))
          const from = performance.now()
          // A file that is deleted and written again could find room.
          const filling = yield* Effect.forkScoped(
            mounted ? Effect.forever(Effect.delay(disk.fill, "50 millis")) : disk.fill
          )
          yield* until(() => since(from, false) > size(100, 20), "the full disk made no request fail")
          const { answer, code } = yield* load.agents[0]!.call("memory_search")
          // Without room for its WAL, PostgreSQL itself stops and is restarted.
          if (code === undefined && answer.status === 200) reads++
          else if (code !== "bridge_persistence_error") violations.push(`a read was answered ${answer.status} ${code}`)
          yield* Effect.sleep(size(1500, 300))
          yield* Fiber.interrupt(filling)
          yield* disk.empty
          const over = performance.now()
          yield* until(() => since(over, true) > 20, "requests do not succeed although there is room again")
          const last = exchanges.findLast(({ at, outcome }) => at > over && !/^20\d$/.test(outcome))
          recoveries.push(last === undefined ? 0 : Math.round(last.at + last.millis - over))
        }
      })
    )
    yield* load.settled(sql)

    const outcomes = load.outcomes()
    if ((outcomes["no answer"] ?? 0) > 0) violations.push("a request had no answer")
    const slowest = Math.max(...recoveries)
    if (slowest > bound) violations.push(`errors for ${slowest} ms after the disk had room again`)
    return {
      figures: {
        disk: mounted ? "tmpfs" : "SQLSTATE 53100",
        ...load.counts(),
        outcomes,
        fulls,
        reads_while_full: reads,
        slowest_recovery_ms: slowest,
        ...health.figures()
      },
      violations: [...violations, ...load.violations, ...health.violations()]
    }
  })
)
