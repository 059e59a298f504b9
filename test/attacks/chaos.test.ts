import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import { Effect, Exit, Scope } from "effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync, readdirSync } from "node:fs"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { text } from "node:stream/consumers"
import { dataFolder } from "../support/database/PostgresUser.ts"
import { main } from "../support/service/processes/Main.ts"

const folder = join(import.meta.dirname, "chaos")
// The races run as tests of their own, in races/, and those of backups in operator/backups/automatic.test.ts. The
// clients are installed from npm, which takes minutes. The soak takes an hour; soak-judge.test.ts tests its judge.
// The versions of PostgreSQL run these tests themselves. An upgrade takes two minutes;
// docs/procedures/upgrade.test.ts runs one from this release to the next.
const scripts = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((file) =>
  /^(?!parts|requests.races|database.(backups|versions)|crashes.upgrade|clients|everything).+[/\\].+\.ts$/.test(file)
)

/** Seconds that a script takes beside other tests. The others take about twelve. */
const seconds: Readonly<Record<string, number>> = {
  "database/failover.ts": 50,
  "crashes/migrations.ts": 30,
  "crashes/processes.ts": 25,
  "push/channels.ts": 20,
  "database/clock-skew.ts": 20,
  "requests/canaries.ts": 20,
  "crashes/life.ts": 2
}
const gone = Object.keys(seconds).filter((file) => !scripts.includes(file))
if (gone.length > 0) throw new Error(`${gone.join(", ")}: gone, and still in the seconds of the scripts`)
const secondsOf = (file: string) => seconds[file] ?? 12

// A script waits for most of its time: two run at once. Each goes to the lane that ends first.
const lanes = [0, 1].map((): Array<string> => [])
const length = (lane: ReadonlyArray<string>) => lane.reduce((sum, file) => sum + secondsOf(file), 0)
for (const file of scripts.toSorted((a, b) => secondsOf(b) - secondsOf(a)))
  lanes.toSorted((a, b) => length(a) - length(b))[0]!.push(file)

const scope = Scope.makeUnsafe()
afterAll(() => Effect.runPromise(Scope.close(scope, Exit.void)))
/** Each script begins with a copy of this data folder, instead of making and migrating a database. */
let begun: string
beforeAll(async () => {
  begun = await Effect.runPromise(Scope.provide(dataFolder(), scope))
  const env = { ...process.env, SERVICE_DATA_DIR: begun, SERVICE_PORT: "0" }
  const service = spawn(process.execPath, [main], { env, stdio: ["ignore", "pipe", "inherit"] })
  createInterface(service.stdout).on("line", (line) => line.includes('"Ready"') && service.kill("SIGTERM"))
  await once(service, "exit")
})
/** A copy would name the original's files, where PostgreSQL had to move them. */
const canCopy = () => existsSync(join(begun, "postgres"))

for (const [index, lane] of lanes.entries())
  describe.concurrent(`a slice of each chaos script, lane ${index + 1}`, () => {
    for (const file of lane)
      it(`sees no violation: ${file}`, { timeout: 180_000, concurrent: false }, async (context) => {
        const script = spawn(process.execPath, [join(folder, file)], {
          env: { ...process.env, SLICE: "1", ...(canCopy() && { SLICE_DATA: begun }) },
          stdio: ["ignore", "pipe", "inherit"]
        })
        const [line, [code]] = await Promise.all([text(script.stdout), once(script, "exit")])
        const { skipped, violations } = JSON.parse(line)
        assert.deepStrictEqual(violations, [], line)
        assert.strictEqual(code, 0)
        if (skipped !== undefined) context.skip(skipped)
      })
  })
