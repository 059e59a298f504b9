/** Search of memory (spec 4.11; decisions.md, Search). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { excerpt } from "../../../src/wire/Text.ts"
import { Agent } from "../../support/agents/McpAgent.ts"
import { Service } from "../../support/service/Service.ts"

const entries = {
  pipeline: "The deploy pipeline aborts after 90 seconds; raise DEPLOY_TIMEOUT in infra/pipelines/deploy.yaml.",
  token: "Rotation keeps the predecessor alive until confirm; see src/rotation/confirmSuccessor.ts.",
  lunch: "We eat at noon. The kitchen deploys soup.",
  chinese: "部署流水线的超时是九十秒，超过就会中止。",
  thai: "ระบบจะหยุดทำงานหลังจากเก้าสิบวินาที",
  cyrillic: "Ключ хранится в сейфе на третьем этаже.",
  names: "parseHTTPResponse fails on O'Brien's quote; foo_bar::baz is fine."
} as const

layer(Service.layer)("search", (it) => {
  const filled = Effect.gen(function* () {
    const agent = yield* Agent.make(yield* Service)
    const names = new Map<string, string>()
    for (const [name, body] of Object.entries(entries)) names.set((yield* agent.note(body)).id, name)
    const search = (query: string, given: Readonly<Record<string, unknown>> = {}) =>
      Effect.map(agent.call("memory_search", { query, ...given }), ({ output }) => ({
        matched: output.matched,
        found: output.entries.map(({ id }: { id: string }) => names.get(id))
      }))
    return { agent, search }
  })

  const finds = (query: string, first: keyof typeof entries) =>
    it.effect(`"${query}" ranks the entry "${first}" first`, () =>
      Effect.gen(function* () {
        const { search } = yield* filled
        const { found } = yield* search(query)
        assert.strictEqual(found[0], first)
      })
    )

  finds("How long does a deployment run before the pipeline gives up?", "pipeline")
  finds("what happens to the predecessor when a rotation is confirmed", "token")
  finds("confirm successor", "token")
  finds("deploy.yaml", "pipeline")
  finds("pipelines", "pipeline")
  finds("DEPLOY_TIMEOUT", "pipeline")
  finds("parse http response", "names")
  finds("O'Brien's", "names")
  finds("baz", "names")
  finds("流水线超时", "chinese")
  finds("秒", "chinese")
  finds("เก้าสิบวินาที", "thai")
  finds("ключ в сейфе", "cyrillic")

  it.effect("a query with only stop words lists the newest entries", () =>
    Effect.gen(function* () {
      const { search } = yield* filled
      const { found, matched } = yield* search("what is it that we have", { limit: 2 })
      assert.strictEqual(matched, "recent")
      assert.lengthOf(found, 2)
    })
  )

  it.effect("a query without a match returns no entries", () =>
    Effect.gen(function* () {
      const { search } = yield* filled
      assert.deepStrictEqual(yield* search("xylophone"), { matched: "ranked", found: [] })
    })
  )

  it.effect("kind and tags filter before the limit applies", () =>
    Effect.gen(function* () {
      const { agent } = yield* filled
      for (let index = 0; index < 5; index += 1) yield* agent.note(`deploy deploy deploy ${index}`)
      yield* agent.note("deploy deploy", { kind: "decision", tags: ["ops"] })
      const wanted = yield* agent.note("once: deploy", { kind: "decision", tags: ["ops", "ci", "night"] })
      const { output } = yield* agent.call("memory_search", {
        query: "deploy",
        tags: ["ci", "ops"],
        kind: "decision",
        limit: 1
      })
      assert.strictEqual(output.entries[0].id, wanted.id)
    })
  )

  it.effect("a hit is an excerpt of at most 400 bytes", () =>
    Effect.gen(function* () {
      const { agent } = yield* filled
      yield* agent.note(`walrus ${"猫".repeat(2000)}`)
      const { output } = yield* agent.call("memory_search", { query: "walrus" })
      assert.isAtMost(Buffer.byteLength(output.entries[0].excerpt), 400)
      assert.isTrue(output.entries[0].excerpt.isWellFormed())
    })
  )

  it("an excerpt has no more bytes than it may, wherever its last character ends", () => {
    for (const shift of ["", "a", "aa", "aaa"]) {
      const whole = `${shift}${"猫".repeat(200)}`
      const cut = excerpt(whole, 40)
      assert.isTrue(whole.startsWith(cut.slice(0, -1)) && cut.endsWith("…"), cut)
      assert.include([38, 39, 40], Buffer.byteLength(cut))
    }
  })

  it.effect("titles and tags are searched too", () =>
    Effect.gen(function* () {
      const { agent } = yield* filled
      const { id } = yield* agent.note("text", { title: "About ostriches", tags: ["area:billing"] })
      for (const query of ["ostrich", "billing"]) {
        assert.strictEqual((yield* agent.call("memory_search", { query })).output.entries[0].id, id)
      }
    })
  )
})
