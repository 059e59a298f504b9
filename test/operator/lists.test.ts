/** Lists come in pages, so that no list is too long for a command. */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { bigProject, fill } from "../support/run/Fill.ts"
import { read, rows } from "../support/run/Markdown.ts"
import { TestDatabase } from "../support/run/TestDatabase.ts"
import { admin, result } from "../support/service/ServiceAdmin.ts"

const filled = Layer.effectDiscard(fill(1000))
const lists = rows(read("docs/reference.md")).filter(({ Command }) => Command?.startsWith("list-"))

layer(filled.pipe(Layer.provideMerge(TestDatabase.sql)), { timeout: 60_000 })("on a filled database", (it) => {
  const json = (...args: ReadonlyArray<string>) => Effect.map(admin(...args, "--json"), result)

  it.effect.each(lists.map(({ Command, Flags }) => ({ command: Command!, flags: Flags! })))(
    "$command goes on where its last page ended",
    ({ command, flags }) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const [device] = yield* sql`select project_id from mobile_device limit 1`
        const project = command === "list-devices" ? String(device!["project_id"]) : bigProject
        const of = [command, ...(flags.includes("--project") ? ["--project", project] : [])]
        const [all, first, people] = yield* Effect.all(
          [json(...of), json(...of, "--limit", "2"), admin(...of, "--limit", "1")],
          { concurrency: 3 }
        )
        const second = yield* json(...of, "--limit", "2", "--after", first.after)
        assert.isAtLeast(all.items.length, 3)
        assert.notProperty(all, "after")
        assert.deepStrictEqual([...first.items, ...second.items], all.items.slice(0, 4))
        const [key] = Object.entries(first.items[1]).find(([, value]) => value === first.after)!
        assert.strictEqual(new Set(all.items.map((item: Record<string, string>) => item[key])).size, all.items.length)
        const next = `Next: npx service-admin ${of.join(" ")} --limit 1 --after ${all.items[0][key]}   # the list goes on`
        assert.strictEqual(people.stdout.trimEnd().split("\n").at(-1), next)
      }),
    30_000
  )

  it.effect("a list for programs is complete, however many pages it takes", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const [all] = yield* sql`select count(*)::int as events from audit_event`
      const { items } = yield* json("list-audit-events")
      assert.isAtLeast(items.length, 2000)
      assert.strictEqual(items.length, all!["events"])
    })
  )
})
