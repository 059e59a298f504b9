/** A credential reaches one project (spec 1.5, 5.2): ids of other projects are answered like unknown ids. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { isolation } from "../support/attacks/Isolation.ts"
import { Agent } from "../support/agents/McpAgent.ts"
import { temporaryFolder } from "../support/database/PostgresUser.ts"
import { seed } from "../support/run/Seed.ts"
import { instance, Service } from "../support/service/Service.ts"

layer(Service.layer)("isolation", (it) => {
  it.effect(
    "operations with ids of other projects get the same answers as random ids, and change no rows there",
    () =>
      Effect.gen(function* () {
        const on = yield* instance({ SERVICE_APNS_TOPICS: "com.example.app" })
        const folder = yield* temporaryFolder
        const { violations } = yield* isolation(on, { count: 100, chunk: 10, folder, seed })
        assert.deepStrictEqual(violations, [], `SEED=${seed}`)
      }),
    60_000
  )

  it.effect("search, lists and snapshot show one project", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const [mine, other] = [yield* Agent.make(service), yield* Agent.make(service)]
      yield* other.note("ostrich")
      yield* other.task("ostrich")
      for (const [tool, given] of [
        ["memory_search", { query: "ostrich" }],
        ["memory_search", {}],
        ["search", { query: "ostrich" }],
        ["task_list", {}],
        ["continuity_context", {}]
      ] as const) {
        assert.notInclude((yield* mine.call(tool, given)).text, "ostrich")
      }
    })
  )

  it.effect("a cursor of another project reveals nothing of that project", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const [mine, other] = [yield* Agent.make(service), yield* Agent.make(service)]
      yield* other.note("ostrich one")
      yield* other.note("ostrich two")
      const { next_cursor } = (yield* other.call("memory_search", { limit: 1 })).output
      assert.deepStrictEqual((yield* mine.call("memory_search", { limit: 1, cursor: next_cursor })).output.entries, [])
    })
  )
})
