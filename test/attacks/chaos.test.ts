import { assert, describe, it } from "@effect/vitest"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { readdirSync } from "node:fs"
import { join } from "node:path"
import { text } from "node:stream/consumers"
import { compileCache } from "../support/service/ServiceAdmin.ts"

const folder = join(import.meta.dirname, "chaos")
// The races run as tests of their own, in races/, and those of backups in operator/backups.test.ts. The clients are
// installed from npm, which takes minutes. The soak takes an hour; soak-judge.test.ts tests its judge. The versions of PostgreSQL run these tests themselves. An upgrade takes two
// minutes; docs/procedures/upgrade.test.ts runs one from this release to the next.
const scripts = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((file) =>
  /^(?!parts|requests.races|database.(backups|versions)|crashes.upgrade|clients|everything).+[/\\].+\.ts$/.test(file)
)

// A script waits for a third of its time: two run at once.
for (const lane of [0, 1])
  describe.concurrent(`a slice of each chaos script, ${["one half", "the other half"][lane]}`, () => {
    for (const file of scripts.filter((_, index) => index % 2 === lane))
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
