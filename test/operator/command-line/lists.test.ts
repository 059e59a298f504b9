/** Lists come in pages, so that no list is too long for a command. */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { flagsOf } from "../../../cli/support/remote/flags.ts"
import { served } from "../../../cli/support/remote/Served.ts"
import { bigProject, fill } from "../../support/database/Fill.ts"
import { command as asked, makeOperatorToken } from "../../support/people/Operator.ts"
import { read, rows } from "../../support/run/Markdown.ts"
import { TestDatabase } from "../../support/database/TestDatabase.ts"
import { instance, Service } from "../../support/service/Service.ts"
import { admin, result } from "../../support/service/ServiceAdmin.ts"

const withCommands = Layer.effect(Service, instance({}, undefined, served)).pipe(Layer.provideMerge(TestDatabase.sql))
const filled = Layer.effectDiscard(fill(1000)).pipe(Layer.provideMerge(withCommands))
const paged = rows(read("docs/reference.md")).filter(
  ({ Command, Flags }) => Command?.startsWith("list-") && Flags?.includes("--limit")
)

/** One runs only where the database is. Of the other an operator elsewhere gets a page, and there are more. */
const onlyHere = ["list-operator-tokens", "list-audit-events"]

layer(filled, { timeout: 60_000, excludeTestServices: true })("on a filled database", (it) => {
  const json = (...args: ReadonlyArray<string>) => Effect.map(admin(...args, "--json"), result)
  /** The same in the server, as for an operator elsewhere: a program takes longer to start than the list to be read. */
  const inServer = Effect.fnUntraced(function* (command: string, ...args: ReadonlyArray<string>) {
    const service = yield* Service
    const { body, status, text } = yield* asked(service, yield* makeOperatorToken(service), command, flagsOf(args))
    assert.strictEqual(status, 200, text)
    return body
  })
  const list = (command: string, ...args: ReadonlyArray<string>) =>
    onlyHere.includes(command) ? json(command, ...args) : inServer(command, ...args)

  it.effect.each(paged.map(({ Command, Flags }) => ({ command: Command!, flags: Flags! })))(
    "$command goes on where its last page ended",
    ({ command, flags }) =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const [device] = yield* sql`select project_id from mobile_device limit 1`
        const project = command === "list-devices" ? String(device!["project_id"]) : bigProject
        const of = flags.includes("--project") ? ["--project", project] : []
        const [all, first] = yield* Effect.all([list(command, ...of), list(command, ...of, "--limit", "2")], {
          concurrency: 2
        })
        const second = yield* list(command, ...of, "--limit", "2", "--after", first.after)
        assert.isAtLeast(all.items.length, 3)
        assert.notProperty(all, "after")
        assert.deepStrictEqual([...first.items, ...second.items], all.items.slice(0, 4))
        const [key] = Object.entries(first.items[1]).find(([, value]) => value === first.after)!
        assert.strictEqual(new Set(all.items.map((item: Record<string, string>) => item[key])).size, all.items.length)
      }),
    30_000
  )

  it.effect("the command that goes on is the last line for people", () =>
    Effect.gen(function* () {
      const of = ["list-bridges", "--project", bigProject]
      const [first, { stdout }] = yield* Effect.all([json(...of, "--limit", "1"), admin(...of, "--limit", "1")], {
        concurrency: 2
      })
      const next = `Next: npx service-admin ${of.join(" ")} --limit 1 --after ${first.after}   # the list goes on`
      assert.strictEqual(stdout.trimEnd().split("\n").at(-1), next)
    })
  )

  it.effect.each([
    ["list-bridges", "--project", bigProject, "--state", "pending"],
    ["list-bridge-enrollment-credentials", "--project", bigProject, "--state", "enrolled"],
    ["list-tasks", "--project", bigProject, "--state", "in_progress"],
    ["list-audit-events", "--action", "project.created"],
    ["list-audit-events", "--project", bigProject]
  ])("%s shows only what the filter selects, and goes on with it", (of) =>
    Effect.gen(function* () {
      const [command = "", ...filter] = of
      const sql = yield* SqlClient.SqlClient
      yield* sql`update task set status = 'in_progress' where id in (select id from task order by id limit 3)`
      yield* sql`
        insert into audit_event (event_id, at, project_id, actor, action, outcome, subject, address, user_agent)
        select gen_random_uuid(), now(), ${bigProject}, 'operator:a@b', 'project.created', 'done', '{}', '', ''
          from generate_series(1, 2)`
      const [all, part, people] = yield* Effect.all(
        [list(command, ...filter.slice(0, -2)), list(command, ...filter), admin(command, ...filter, "--limit", "1")],
        { concurrency: 3 }
      )
      const wanted = filter.at(-1)
      const isWanted = ({ action, project_id, status }: Record<string, unknown>) =>
        [action, project_id, status].includes(wanted)
      assert.isAbove(part.items.length, 1)
      assert.isBelow(part.items.length, all.items.length)
      assert.deepStrictEqual(part.items, all.items.filter(isWanted))
      assert.include(people.stdout, filter.slice(-2).join(" "))
    })
  )

  it.effect("--since takes an instant, or how long ago it was", () =>
    Effect.gen(function* () {
      const ats = ({ items }: { readonly items: ReadonlyArray<{ readonly at: string }> }) => items.map(({ at }) => at)
      const [all, lately] = yield* Effect.all([json("list-audit-events"), json("list-audit-events", "--since", "5d")])
      const middle = ats(all)[ats(all).length >> 1]!
      assert.deepStrictEqual(
        ats(yield* json("list-audit-events", "--since", middle)),
        ats(all).filter((at) => at >= middle)
      )
      const days = (Date.parse(ats(all)[0]!) - Date.parse(ats(lately).at(-1)!)) / 86_400_000
      assert.isBelow(days, 5)
      assert.isBelow(ats(lately).length, ats(all).length)
    })
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
