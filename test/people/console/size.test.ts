/**
 * The pages of a large service stay small: 10,000 tasks, 100,000 entries of memory, 5,000 Bridges. TIMES=1 prints how long
 * the service takes for each page.
 */
import { assert, layer } from "@effect/vitest"
import { Context, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Bridges } from "../../../src/bridges/identity/Bridges.ts"
import { statementsOf } from "../../../src/platform/database/Migrations.ts"
import { signedInOperator } from "../../support/people/Console.ts"
import { bigProject, fill } from "../../support/database/Fill.ts"
import { Service } from "../../support/service/Service.ts"

/** Each text is as long as agents usually write them. */
const fillProject = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* fill(5000)
  const statements = `
      set local session_replication_role = replica;
      set local synchronous_commit = off;
      insert into task (project_id, id, title, body, status, priority, tags, version, created_by, created_at, updated_at,
                        blocked_kind, blocked_reason, closed_at)
      select '${bigProject}', (lpad(to_hex(i), 12, '0') || '70008000000000000f01')::uuid, 'Task number ' || i || ' of many',
             repeat('Some words of a task. ', 50), (array['open', 'in_progress', 'blocked', 'done'])[i % 4 + 1], i % 5,
             '{billing,review}', 1, 'operator', now() - i * interval '1 minute', now() - i * interval '1 minute',
             case when i % 4 = 2 then 'decision' end, case when i % 4 = 2 then repeat('Which of the two? ', 25) end,
             case when i % 4 = 3 then now() end from generate_series(1, 10000) i;
      insert into memory_entry (project_id, id, kind, title, body, tags, actor, role, created_at)
      select '${bigProject}', (lpad(to_hex(i), 12, '0') || '70008000000000000f02')::uuid, 'note', 'Note number ' || i,
             repeat('Some words of a note. ', 50), '{billing,review}', 'operator', 'operator',
             now() - i * interval '1 minute' from generate_series(1, 100000) i;
      insert into memory_posting (project_id, lexeme, entry_id, tf, dl)
      select '${bigProject}', lexeme, (lpad(to_hex(i), 12, '0') || '70008000000000000f02')::uuid, 1, 150
        from generate_series(1, 100000) i,
             unnest(array['note', 'number', 'word', 'invoic' || i % 50, i::text]) lexeme;
      insert into memory_count (project_id, part, active) values ('${bigProject}', 0, 100000)`
  yield* sql.withTransaction(Effect.forEach(statementsOf(statements), (statement) => sql.unsafe(statement).unprepared))
  // Also for the visibility map, which autovacuum would write later.
  yield* sql`vacuum analyze`.unprepared
})

layer(Service.layer, { timeout: 180_000 })("on a large service", (it) => {
  it.effect(
    "every page is below 100 KB, and long lists go on",
    () =>
      Effect.gen(function* () {
        yield* fillProject
        const service = yield* Service
        const person = yield* signedInOperator(service)
        const home = `/console/${bigProject}`
        const long = ["/tasks", "/memory", "/bridges", "/agents"].map((path) => home + path)
        const ofService = ["bridges", "access"].map((path) => `/console/${path}`)
        const pages = [
          ...long,
          ...ofService,
          ...["", "/tasks?status=blocked", "/documents", "/phones", "/activity", "/limits"].map((path) => home + path),
          ...[
            "query=note+number+77",
            "query=words",
            "query=invoic7+note",
            "query=nowhere",
            "kind=decision",
            "tag=review"
          ].map((search) => `${home}/memory?${search}`),
          ...["kind=bridges", "kind=refused", "about=bridge-77"].map((filter) => `${home}/activity?${filter}`),
          ...["projects", "push", "health", "activity"].map((path) => `/console/${path}`)
        ]
        for (const path of pages) {
          yield* person.get(path)
          const since = performance.now()
          const { status, text } = yield* person.get(path)
          const took = performance.now() - since
          if (process.env["TIMES"] !== undefined) {
            process.stdout.write(
              `${took.toFixed(0).padStart(5)} ms ${(text.length / 1000).toFixed(0).padStart(4)} KB ${path}\n`
            )
          }
          assert.strictEqual(status, 200, path)
          assert.isBelow(Buffer.byteLength(text), 100_000, path)
          if ([...long, ...ofService].includes(path)) assert.include(text, "Next page", path)
        }
        // A list goes on after the last row that it shows.
        for (const path of [`${home}/bridges`, `${home}/agents`, "/console/access"]) {
          const { text } = yield* person.get(path)
          for (const { 1: cursor, index } of text.matchAll(/href="[^"]*=([^"=]+)">Next page/g)) {
            const before = text.slice(0, index)
            const last = before.lastIndexOf(decodeURIComponent(cursor!))
            assert.isAbove(last, -1, path)
            assert.notInclude(before.slice(last), "<li", path)
          }
        }
        const next = /href="([^"]+)">Next page/.exec((yield* person.get("/console/bridges")).text)![1]!
        const [first, second] = [
          yield* person.get("/console/bridges"),
          yield* person.get(next.replaceAll("&amp;", "&"))
        ]
        const named = ({ text }: { readonly text: string }) => [
          ...new Set(text.split("Credentials that wait")[0]!.match(/bridge-\d+/g))
        ]
        const ending = yield* Context.get(service.services, Bridges).listAllByEnd({ after: undefined, limit: 30 })
        assert.deepStrictEqual(
          [...named(first), ...named(second)],
          ending.map(({ bridge_id }) => bridge_id)
        )
      }),
    180_000
  )
})
