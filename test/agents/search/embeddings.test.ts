/** Searches by meaning: with an endpoint for embeddings, and with one that fails. */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Embeddings } from "../../../src/agents/embeddings/Embeddings.ts"
import { Memory } from "../../../src/agents/memory/Memory.ts"
import { Limits } from "../../../src/operator/limits/Limits.ts"
import { Agent } from "../../support/agents/McpAgent.ts"
import { dimensions, type Embedder, send, startEmbedder } from "../../support/agents/Embedder.ts"
import { recording } from "../../support/run/Lines.ts"
import { instance } from "../../support/service/Service.ts"
import { TestDatabase } from "../../support/database/TestDatabase.ts"

/** What the endpoint knows: words that no entry shares with its question. */
const groups = [
  "reindeer caribou",
  "brook rivulet",
  "cobbler shoemaker",
  "quarrel altercation",
  "soup broth",
  "valise suitcase"
]

const start = Effect.fnUntraced(function* (known: ReadonlyArray<string> = groups) {
  const embedder = yield* startEmbedder(known)
  const on = yield* instance(embedder.settings)
  return { embedder, on, agent: yield* Agent.make(on) }
})
type On = Effect.Success<ReturnType<typeof instance>>

/** Runs the worker until it has nothing to do. */
const embedAll = (on: On) =>
  Context.get(on.services, Embeddings).round.pipe(Effect.repeat({ until: (worked) => !worked }))

const search = (agent: Agent, query: string, given: object = {}) =>
  Effect.map(agent.call("memory_search", { query, ...given }), ({ output }) => output)
const titles = ({ entries }: { entries: ReadonlyArray<{ title: string }> }) => entries.map(({ title }) => title)

const rowsOf = (project_id: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* sql<Record<"queued" | "vectors" | "slots" | "codes" | "distinct", number>>`
      select (select count(*) from embedding_queue where project_id = ${project_id}::uuid)::int as queued,
             (select count(*) from memory_embedding where project_id = ${project_id}::uuid)::int as vectors,
             (select count(distinct (number, slot)) from memory_embedding where project_id = ${project_id}::uuid)::int as distinct,
             (select coalesce(sum(length(ids)) / 16, 0) from embedding_block where project_id = ${project_id}::uuid)::int as slots,
             (select coalesce(sum(length(codes)) / ${dimensions / 8}, 0) from embedding_block
               where project_id = ${project_id}::uuid)::int as codes`
    return row!
  })

const flat = (length: number, value: number) => Array.from({ length }, () => value)

layer(TestDatabase.sql, { timeout: 120_000 })("embeddings", (it) => {
  it.effect("find what is said in other words, and say so", () =>
    Effect.gen(function* () {
      const { agent, on } = yield* start()
      for (const group of groups) yield* agent.note(`The ${group.split(" ")[0]} matter was settled on Tuesday.`)
      for (let n = 0; n < 60; n++) yield* agent.note(`Entry ${n}: the build of part ${n} was green.`)
      const questions = groups.map((group) => group.split(" ")[1]!)
      for (const word of questions)
        assert.notInclude(titles(yield* search(agent, `any ${word} lately`)).join(), "settled")
      yield* embedAll(on)
      for (const [n, word] of questions.entries()) {
        const found = yield* search(agent, `any ${word} lately`)
        assert.include(found.entries[0].title, groups[n]!.split(" ")[0]!)
        assert.deepStrictEqual(found.entries[0].matched, ["meaning"])
        assert.isTrue(found.semantic)
      }
      const byWords = yield* search(agent, "brook matter settled")
      assert.include(byWords.entries[0].title, "brook")
      assert.includeMembers(byWords.entries[0].matched, ["words", "meaning"])
      const { entries } = yield* search(agent, "any rivulet beside an altercation", { limit: 50 })
      assert.deepInclude(entries.at(-1), { matched: ["meaning"] }, "the last one is found by nothing else")
    })
  )

  it.effect("are asked for once for each query, and respect filters", () =>
    Effect.gen(function* () {
      const { agent, embedder, on } = yield* start()
      yield* agent.note("The reindeer came.", { tags: ["north"] })
      yield* agent.note("A reindeer went.", { kind: "decision" })
      yield* embedAll(on)
      embedder.received.length = 0
      for (let n = 0; n < 3; n++) assert.lengthOf((yield* search(agent, "caribou")).entries, 2)
      assert.lengthOf(embedder.received, 1)
      assert.deepStrictEqual(titles(yield* search(agent, "caribou", { tags: ["north"] })), ["The reindeer came."])
      assert.deepStrictEqual(titles(yield* search(agent, "caribou", { kind: "decision" })), ["A reindeer went."])
      assert.lengthOf((yield* search(agent, "caribou", { limit: 1 })).entries, 1)
    })
  )

  it.effect("of one project are not found in another", () =>
    Effect.gen(function* () {
      const { agent, on } = yield* start()
      const other = yield* Agent.make(on)
      yield* agent.note("The reindeer is secret.")
      yield* other.note("Nothing of the kind.")
      yield* embedAll(on)
      assert.deepStrictEqual(titles(yield* search(other, "caribou secret reindeer")), [])
    })
  )

  it.effect("die with their entry", () =>
    Effect.gen(function* () {
      const { agent, on } = yield* start()
      const [first, second, third] = [
        yield* agent.note("The reindeer is brown."),
        yield* agent.note("The brook is cold."),
        yield* agent.note("The soup is hot.")
      ]
      yield* embedAll(on)
      yield* agent.note("The reindeer is grey.", { supersedes: first.id })
      yield* Context.get(on.services, Memory).archive(agent.project_id, second.id)
      const sql = yield* SqlClient.SqlClient
      const left = yield* sql`
        select entry_id as id from memory_embedding where project_id = ${agent.project_id}::uuid`
      assert.deepStrictEqual(left, [{ id: third.id }])
      const [block] = yield* sql<{ ids: Uint8Array; codes: Uint8Array }>`
        select ids, codes from embedding_block where project_id = ${agent.project_id}::uuid`
      assert.isTrue(block!.ids.subarray(0, 32).every((byte) => byte === 0))
      assert.isTrue(block!.codes.subarray(0, dimensions / 4).every((byte) => byte === 0))
      assert.isTrue(block!.codes.subarray(dimensions / 4).some((byte) => byte !== 0))
      yield* embedAll(on)
      assert.deepStrictEqual(titles(yield* search(agent, "caribou")), ["The reindeer is grey."])
      assert.deepStrictEqual(titles(yield* search(agent, "rivulet")), [])
    })
  )

  it.effect("of an entry that was superseded while the endpoint was asked are not stored", () =>
    Effect.gen(function* () {
      const { agent, embedder, on } = yield* start()
      const old = yield* agent.note("The reindeer is brown.")
      let answered: (() => void) | undefined
      const arrived = new Promise<void>((resolve) => {
        embedder.answer = (response, texts) => {
          embedder.answer = undefined
          answered = () =>
            send(response, 200, {
              data: texts.map((_, index) => ({ index, embedding: flat(dimensions, 1) }))
            })
          resolve()
        }
      })
      const round = yield* Effect.forkChild(Context.get(on.services, Embeddings).round)
      yield* Effect.promise(() => arrived)
      yield* agent.note("The reindeer is grey.", { supersedes: old.id })
      answered!()
      yield* Fiber.join(round)
      yield* embedAll(on)
      assert.deepStrictEqual(titles(yield* search(agent, "caribou")), ["The reindeer is grey."])
      assert.deepInclude(yield* rowsOf(agent.project_id), { queued: 0, vectors: 1 })
    })
  )

  it.effect("are made by several replicas at once, one for each entry", () =>
    Effect.gen(function* () {
      const { agent, embedder, on } = yield* start()
      const replica = yield* instance(embedder.settings)
      for (let n = 0; n < 300; n++) yield* agent.note(`Entry ${n}`)
      yield* Effect.all([embedAll(on), embedAll(replica), embedAll(on), embedAll(replica)], {
        concurrency: "unbounded"
      })
      // What a replica had leased when another one found nothing to do.
      yield* embedAll(on)
      assert.deepStrictEqual(yield* rowsOf(agent.project_id), {
        queued: 0,
        vectors: 300,
        slots: 300,
        codes: 300,
        distinct: 300
      })
      assert.lengthOf(new Set(embedder.received.map(({ text }) => text)), 300)
    })
  )

  it.effect("of entries that were written without them, or with another model, follow", () =>
    Effect.gen(function* () {
      const { agent, embedder, on } = yield* start()
      const without = yield* instance()
      yield* agent.at(without).note("The reindeer is old.")
      assert.deepInclude(yield* rowsOf(agent.project_id), { queued: 0, vectors: 0 })
      yield* embedAll(on)
      assert.deepStrictEqual(titles(yield* search(agent, "caribou")), ["The reindeer is old."])
      assert.isUndefined((yield* search(agent.at(without), "reindeer")).semantic)

      const another = yield* instance({ ...embedder.settings, SERVICE_EMBEDDINGS_MODEL: "other" })
      const words = yield* search(agent.at(another), "reindeer")
      assert.deepStrictEqual(titles(words), ["The reindeer is old."])
      yield* embedAll(another)
      assert.deepStrictEqual(titles(yield* search(agent.at(another), "caribou")), ["The reindeer is old."])
      const sql = yield* SqlClient.SqlClient
      yield* TestClock.adjust("11 minutes")
      yield* embedAll(another)
      assert.deepStrictEqual(
        yield* sql`select model from embedding_block where project_id = ${agent.project_id}::uuid`,
        [{ model: `other/${dimensions}` }]
      )
    })
  )

  it.effect("are not made for a project whose text may not be sent, and those that it has are deleted", () =>
    Effect.gen(function* () {
      const { agent, embedder, on } = yield* start()
      const limits = Context.get(on.services, Limits)
      yield* agent.note("The reindeer is old.")
      yield* embedAll(on)
      const set = yield* limits.set(agent.project_id, { embeddings: 0 })
      assert.deepInclude(set, { limit: "embeddings", value: null, maximum: 0, default: 1 })
      embedder.received.length = 0
      yield* agent.note("The brook is new.")
      const found = yield* search(agent, "caribou brook")
      assert.deepStrictEqual([titles(found)[0], found.semantic], ["The brook is new.", undefined])
      yield* TestClock.adjust("11 minutes")
      yield* embedAll(on)
      assert.deepStrictEqual(embedder.received, [])
      assert.deepStrictEqual(yield* rowsOf(agent.project_id), {
        queued: 0,
        vectors: 0,
        slots: 0,
        codes: 0,
        distinct: 0
      })
      yield* limits.set(agent.project_id, { embeddings: null })
      yield* TestClock.adjust("11 minutes")
      yield* embedAll(on)
      assert.include(titles(yield* search(agent, "rivulet")), "The brook is new.")
    })
  )

  it.effect("come from an endpoint that gets the model and the key, and nothing else", () =>
    Effect.gen(function* () {
      const embedder = yield* startEmbedder()
      const folder = yield* Effect.acquireRelease(
        Effect.sync(() => mkdtempSync(join(tmpdir(), "embeddings-test-"))),
        (path) => Effect.sync(() => rmSync(path, { recursive: true }))
      )
      const keyFile = join(folder, "key")
      writeFileSync(keyFile, "secret-of-the-endpoint\n")
      const { lines, record } = recording()
      yield* record(
        Effect.gen(function* () {
          const on = yield* instance({
            ...embedder.settings,
            SERVICE_EMBEDDINGS_KEY_FILE: keyFile,
            SERVICE_LOG_LEVEL: "All"
          })
          const agent = yield* Agent.make(on)
          yield* agent.note("x".repeat(9_000), { title: "Long" })
          yield* embedAll(on)
          yield* search(agent, "what is long")
        })
      )
      assert.deepStrictEqual(
        embedder.received.map(({ key, model, text }) => [key, model, text.length]),
        [
          ["Bearer secret-of-the-endpoint", "words", 4000],
          ["Bearer secret-of-the-endpoint", "words", 12]
        ]
      )
      assert.notInclude(lines.join(), "secret-of-the-endpoint")
      assert.notInclude(lines.join(), "what is long")
    })
  )

  const failures: Readonly<Record<string, Embedder["answer"]>> = {
    "answers with an error": (response) => send(response, 500, { error: "down" }),
    "does not know the key": (response) => send(response, 401, {}),
    redirects: (response) => void response.writeHead(307, { location: "/elsewhere" }).end(),
    "answers something else": (response) => send(response, 200, { data: "none" }),
    "leaves vectors out": (response) => send(response, 200, { data: [] }),
    "has another number of dimensions": (response, texts) =>
      send(response, 200, { data: texts.map((_, index) => ({ index, embedding: [1, 0] })) }),
    "answers too much": (response, texts) =>
      send(response, 200, { data: texts.map((_, index) => ({ index, embedding: flat(90_000, 0.123456) })) }),
    "closes the connection": (response) => void response.destroy()
  }
  for (const [what, answer] of Object.entries(failures)) {
    it.effect(`are left out while the endpoint ${what}: words answer and say so, and nothing is lost`, () =>
      Effect.gen(function* () {
        const { agent, embedder, on } = yield* start()
        yield* agent.note("The reindeer is old.")
        yield* embedAll(on)
        embedder.answer = answer
        yield* agent.note("The brook is new.")
        yield* embedAll(on)
        const found = yield* search(agent, "brook")
        assert.deepStrictEqual([titles(found)[0], found.semantic], ["The brook is new.", false])
        assert.isFalse((yield* agent.call("search", { query: "brook" })).output.semantic)
        assert.deepInclude(yield* rowsOf(agent.project_id), { queued: 1, vectors: 1 })
        // The endpoint is left alone for a while.
        const before = embedder.received.length
        yield* embedAll(on)
        yield* search(agent, "brook again")
        assert.lengthOf(embedder.received, before)
        embedder.answer = undefined
        yield* TestClock.adjust("3 seconds")
        yield* embedAll(on)
        const after = yield* search(agent, "rivulet")
        assert.deepStrictEqual([titles(after)[0], after.semantic], ["The brook is new.", true])
        assert.isTrue((yield* agent.call("search", { query: "rivulet" })).output.semantic)
        const tasks = yield* agent.call("search", { query: "rivulet", in: ["tasks"] })
        assert.notProperty(tasks.output, "semantic")
      })
    )
  }

  it.effect("are left out after half a second", () =>
    Effect.gen(function* () {
      const { agent, embedder, on } = yield* start()
      yield* agent.note("The reindeer is old.")
      yield* embedAll(on)
      const arrived = new Promise<void>((resolve) => (embedder.answer = () => resolve()))
      const searching = yield* Effect.forkChild(search(agent, "reindeer"))
      yield* Effect.promise(() => arrived)
      yield* TestClock.adjust("501 millis")
      const found = yield* Fiber.join(searching)
      assert.deepStrictEqual([titles(found), found.semantic], [["The reindeer is old."], false])
    })
  )

  it.effect("of a batch are made although the endpoint refuses one of its texts", () =>
    Effect.gen(function* () {
      const { agent, embedder, on } = yield* start()
      yield* agent.note("The reindeer is old.")
      yield* agent.note("The poison is in it.")
      yield* agent.note("The brook is new.")
      embedder.answer = (response, texts) =>
        texts.some((text) => text.includes("poison"))
          ? send(response, 413, {})
          : send(response, 200, {
              data: texts.map((_, index) => ({ index, embedding: flat(dimensions, 1) }))
            })
      yield* embedAll(on)
      assert.deepInclude(yield* rowsOf(agent.project_id), { queued: 1, vectors: 2 })
      for (let n = 0; n < 6; n++) {
        yield* TestClock.adjust("33 minutes")
        yield* embedAll(on)
      }
      const poisoned = embedder.received.filter(({ text }) => text.includes("poison"))
      assert.isBelow(poisoned.length, 20)
      assert.deepInclude(yield* rowsOf(agent.project_id), { vectors: 2 })
    })
  )

  for (const [name, value] of [
    ["SERVICE_EMBEDDINGS_URL", "http://models.example.com/v1/embeddings"],
    ["SERVICE_EMBEDDINGS_URL", "https://user:password@models.example.com/v1/embeddings"],
    ["SERVICE_EMBEDDINGS_URL", "models.example.com"],
    ["SERVICE_EMBEDDINGS_DIMENSIONS", "31"],
    ["SERVICE_EMBEDDINGS_DIMENSIONS", "4097"],
    ["SERVICE_EMBEDDINGS_MODEL", ""],
    ["SERVICE_EMBEDDINGS_KEY_FILE", "/nowhere/key"]
  ] as const) {
    it.effect(`are not configured with ${name}=${value}`, () =>
      Effect.gen(function* () {
        const settings = {
          SERVICE_EMBEDDINGS_URL: "http://127.0.0.1:9/v1/embeddings",
          SERVICE_EMBEDDINGS_MODEL: "words",
          SERVICE_EMBEDDINGS_DIMENSIONS: "256"
        }
        const refused = yield* Effect.flip(instance({ ...settings, [name]: value }))
        assert.deepInclude(refused, { _tag: "ConfigurationError" })
        assert.include(String(refused.message), name)
      })
    )
  }
})
