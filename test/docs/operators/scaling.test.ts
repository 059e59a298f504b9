/** docs/scaling.md names the files that lock, the rate limits and the costs: each is compared with the code. */
import { assert, describe, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"
import { join } from "node:path"
import { packageRoot } from "../../support/run/Root.ts"
import { read, rows, sections } from "../../support/run/Markdown.ts"
import { sourceFiles } from "../../support/run/Sources.ts"

const text = read("docs/scaling.md")
const parts = sections(text, 2)
const filesWith = (what: RegExp) => sourceFiles.filter(({ source }) => what.test(source)).map(({ file }) => file)

describe("docs/scaling.md", () => {
  const named = new Map(rows(parts.get("A distributed database")!).map(({ Needs, Where }) => [Needs!, Where!] as const))
  const where = (needs: string) =>
    [...named].flatMap(([need, paths]) => (need.includes(needs) ? paths.match(/src\/[\w/]+\.ts/g)! : []))

  it("names every file that takes an advisory lock", () => {
    const embedded = "src/platform/database/embedded/EmbeddedPostgres.ts"
    assert.sameMembers(where("pg_advisory_xact_lock"), filesWith(/\bpg_(try_)?advisory_xact_lock\(/))
    assert.deepStrictEqual(filesWith(/\bpg_(try_)?advisory_(un)?lock/), [embedded])
  })

  it("names every file that skips locked rows", () => {
    assert.sameMembers(where("skip locked"), filesWith(/skip locked/))
  })

  it("is right that no other state stays in a database session", () => {
    assert.deepStrictEqual(filesWith(/\btemp(orary)? table\b|`\s*(listen|set (?!transaction|constraints))\b/i), [])
  })

  it("has the numbers of every rate limit", () => {
    const limits = sourceFiles.flatMap(({ source }) => [...source.matchAll(/perSecond: ([\d /]+), burst: (\d+)/g)])
    assert.isAbove(limits.length, 5)
    const said = parts.get("From one process to many")!
    for (const [, perSecond, burst] of limits) {
      const often = {
        "20 / 60": "20 wrong tokens a minute",
        "6 / 60": "6 refreshes a minute",
        "10 / 60": "10 changes to the phones",
        "1 / 60": "1 sign-in a minute",
        "1 / 6": "10 sign-ins a minute at consent",
        "1": "1 registration"
      }
      const named = often[perSecond as keyof typeof often]
      assert.include(said, named ?? perSecond!)
      if (named === undefined) assert.include(said, Number(burst).toLocaleString("en"))
    }
  })

  it("is right that the proxies' configurations allow an agent to wait", () => {
    for (const [file, timeouts] of [
      ["nginx.conf", /proxy_read_timeout (\d+)(s|h);/g],
      ["haproxy.cfg", /timeout server (\d+)(s)$/gm]
    ] as const) {
      const found = [...read(`deploy/${file}`).matchAll(timeouts)]
      assert.isNotEmpty(found)
      for (const [, time, unit] of found) assert.isAtLeast(Number(time) * (unit === "h" ? 3600 : 1), 30, file)
    }
  })

  it("has the table that the simulation prints", () => {
    const program = join(packageRoot, "bench/scaling/capacity.ts")
    const printed = execFileSync(process.execPath, [program, "--bridges", "10000"], { encoding: "utf8" })
    const columns = rows(parts.get("What a load costs")!).map((row) => Object.keys(row).join())
    for (const row of rows(printed).filter((row) => "Bridges" in row)) assert.include(columns, Object.keys(row).join())
  })

  it("turns the unit into a template with its sed command", () => {
    const [, script] = /^(sed '.*') deploy/m.exec(text)!
    const made = execFileSync("bash", ["-c", `${script} deploy/bridge-service.service`], {
      cwd: packageRoot,
      encoding: "utf8"
    })
    assert.match(made, /^\[Service\]\nEnvironment=SERVICE_PORT=%i$/m)
  })
})
