import { assert, describe, it } from "@effect/vitest"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { readdirSync } from "node:fs"
import { join } from "node:path"
import { text } from "node:stream/consumers"
import { compileCache } from "../support/service/ServiceAdmin.ts"

const folder = join(import.meta.dirname, "chaos")
// The races run as tests of their own, in races/, and those of backups in operator/backups/automatic.test.ts. The
// clients are installed from npm, which takes minutes. The soak takes an hour; soak-judge.test.ts tests its judge.
// The versions of PostgreSQL run these tests themselves. An upgrade takes two minutes;
// docs/procedures/upgrade.test.ts runs one from this release to the next.
const scripts = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((file) =>
  /^(?!parts|requests.races|database.(backups|versions)|crashes.upgrade|clients|everything).+[/\\].+\.ts$/.test(file)
)

/** Those that take longest, longest first. The others take about as long as each other. */
const longest = [
  "crashes/embedded.ts",
  "database/failover.ts",
  "crashes/enrollment-kill.ts",
  "crashes/migrations.ts",
  "crashes/first-start.ts",
  "push/channels.ts",
  "crashes/processes.ts",
  "crashes/replicas.ts",
  "database/backup.ts",
  "requests/connections.ts",
  "database/clock-skew.ts",
  "database/pool.ts",
  "crashes/push-kill.ts"
]
const gone = longest.filter((file) => !scripts.includes(file))
if (gone.length > 0) throw new Error(`${gone.join(", ")}: gone, and still in the order of the scripts`)
const inOrder = [...longest, ...scripts.filter((file) => !longest.includes(file))]

// A script waits for a third of its time: two run at once. They are dealt out so that both lanes end at about the same time.
for (const lane of [0, 1])
  describe.concurrent(`a slice of each chaos script, ${["one half", "the other half"][lane]}`, () => {
    for (const file of inOrder.filter((_, index) => (index % 4 === 1 || index % 4 === 2) === (lane === 1)))
      it(`sees no violation: ${file}`, { timeout: 180_000, concurrent: false }, async (context) => {
        const script = spawn(process.execPath, [join(folder, file)], {
          env: { NODE_COMPILE_CACHE: compileCache, ...process.env, SLICE: "1" },
          stdio: ["ignore", "pipe", "inherit"]
        })
        const [line, [code]] = await Promise.all([text(script.stdout), once(script, "exit")])
        const { skipped, violations } = JSON.parse(line)
        assert.deepStrictEqual(violations, [], line)
        assert.strictEqual(code, 0)
        if (skipped !== undefined) context.skip(skipped)
      })
  })
