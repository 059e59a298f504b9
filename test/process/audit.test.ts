/** The server and its audit log: it links rows by itself, gives heads away, and does not start as the owner. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { TestDatabase } from "../support/database/TestDatabase.ts"
import { serviceProcess } from "../support/service/processes/Process.ts"
import { admin } from "../support/service/ServiceAdmin.ts"

const untilLinked = SqlClient.SqlClient.use((sql) =>
  Effect.repeat(
    sql<{ open: number }>`
      select count(*)::int as open
        from audit_event e
       where not exists (select from audit_link l where l.event_id = e.event_id)`,
    { until: ([row]) => row!.open === 0 }
  )
)

/** Of the chain of all rows. */
const countOf = (line: string) => {
  const { annotations } = JSON.parse(line)
  return annotations.scope === "all" ? annotations.count : 0
}

layer(TestDatabase.sql, { excludeTestServices: true })("the server", (it) => {
  it.effect("links audit rows each second and gives their heads to the log; a changed log is found with them", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      assert.strictEqual((yield* admin("create-project", "--name", "p", "--json")).code, 0)
      const server = yield* serviceProcess()
      yield* untilLinked
      yield* Effect.repeat(Effect.sleep("100 millis"), {
        until: () => server.lines.some((line) => line.includes("Audit head"))
      })
      const folder = yield* Effect.acquireRelease(
        Effect.sync(() => mkdtempSync(join(tmpdir(), "service-heads-"))),
        (path) => Effect.sync(() => rmSync(path, { recursive: true }))
      )
      const file = join(folder, "log")
      writeFileSync(file, server.lines.join("\n"))
      const verify = Effect.map(admin("verify-audit-log", "--heads", file, "--json"), ({ code, stdout }) => {
        const { broken, heads, rows } = JSON.parse(stdout)
        return { code, heads, rows, problems: broken.map(({ problem }: { problem: string }) => problem) }
      })
      assert.deepStrictEqual(yield* verify, { code: 0, heads: 2, rows: 2, problems: [] })

      const ofProject = yield* admin("verify-audit-log", "--project", "p", "--json")
      assert.deepInclude(JSON.parse(ofProject.stdout), { ok: true, chains: 1, rows: 1 })

      server.signal("SIGTERM")
      yield* server.exit
      yield* sql`alter table audit_event disable trigger user`
      yield* sql`update audit_event set actor = 'bridge:b'`
      yield* sql`truncate audit_link, audit_chain, audit_chain_progress`
      yield* serviceProcess()
      yield* Effect.repeat(sql<{ n: number }>`select count(*)::int as n from audit_chain`, {
        until: ([row]) => row!.n === 2
      })
      assert.deepStrictEqual(yield* verify, { code: 1, heads: 2, rows: 2, problems: ["head_differs"] })

      writeFileSync(file, "no head\n")
      const empty = yield* admin("verify-audit-log", "--heads", file, "--json")
      assert.strictEqual(empty.code, 1)
      assert.include(empty.stderr, "holds no head")
    })
  )

  it.effect("gives heads away when it stops and when it starts, though an hour has not passed", () =>
    Effect.gen(function* () {
      const newest = (lines: ReadonlyArray<string>) =>
        Math.max(0, ...lines.filter((line) => line.includes("Audit head")).map((line) => countOf(line)))
      const known = (server: Effect.Success<ReturnType<typeof serviceProcess>>) =>
        Effect.repeat(Effect.sleep("100 millis"), { until: () => newest(server.lines) > 0 })
      const first = yield* serviceProcess()
      yield* known(first)
      const before = newest(first.lines)
      assert.strictEqual((yield* admin("create-project", "--name", "q", "--json")).code, 0)
      yield* untilLinked
      first.signal("SIGTERM")
      yield* first.exit
      const last = newest(first.lines)
      assert.isAbove(last, before)
      const second = yield* serviceProcess()
      yield* known(second)
      assert.strictEqual(newest(second.lines), last)
    })
  )

  it.effect("does not start with the address of the owner", () =>
    Effect.gen(function* () {
      const { database } = yield* TestDatabase
      const output = yield* Effect.flip(
        serviceProcess({ SERVICE_DATABASE_OWNER_URL: `postgres://owner@127.0.0.1:1/${database}` })
      )
      assert.include(output, "SERVICE_DATABASE_OWNER_URL is for commands")
    })
  )
})
