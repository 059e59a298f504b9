/** Searches by meaning: with an endpoint for embeddings, and with one that fails. */
import { assert, describe, it, layer } from "@effect/vitest"
import { Clock, Context, Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { makeCodes } from "../../../src/agents/embeddings/Codes.ts"
import { Embeddings } from "../../../src/agents/embeddings/Embeddings.ts"
import { makeEndpoint } from "../../../src/agents/embeddings/Endpoint.ts"
import { bytesOf, codeBytes, cosine, normalized, signsOf } from "../../../src/agents/embeddings/Vectors.ts"
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

/** The attempts that count, of the project's entry in the queue that has most of them. */
const attemptsOf = (project_id: string) =>
  Effect.map(
    SqlClient.SqlClient.use(
      (sql) => sql<{ attempts: number | null }>`
        select max(attempts)::int as attempts from embedding_queue where project_id = ${project_id}::uuid`
    ),
    ([row]) => row?.attempts
  )

const flat = (length: number, value: number) => Array.from({ length }, () => value)

type Answer = NonNullable<Embedder["answer"]>
/** Answers with a vector for each text. */
const sendFlat: Answer = (response, texts) =>
  send(response, 200, { data: texts.map((_, index) => ({ index, embedding: flat(dimensions, 1) })) })
/** Fails if one of the texts has the word. */
const failingWith =
  (word: string, fail: Answer): Answer =>
  (response, texts) =>
    (texts.some((text) => text.includes(word)) ? fail : sendFlat)(response, texts)

describe("the signs of a project's vectors", () => {
  const uuid = (n: number) => `00000000-0000-7000-8000-${String(n).padStart(12, "0")}`
  const cleared = "00000000-0000-0000-0000-000000000000"
  const blockOf = (number: number, version: number, vectors: ReadonlyArray<readonly [id: string, signs: number]>) => ({
    number,
    version,
    ids: Buffer.from(vectors.map(([id]) => id.replaceAll("-", "")).join(""), "hex"),
    codes: Buffer.from(Uint32Array.from(vectors.map(([, signs]) => signs)).buffer)
  })
  /** Their blocks in the database, and the numbers of those that were read. */
  const make = (dimensions = 32) => {
    const blocks = new Map<number, ReturnType<typeof blockOf>>()
    const read: Array<number> = []
    const codes = makeCodes(
      {
        versions: () => Effect.succeed([...blocks.values()]),
        blocks: (_project, _model, numbers) => {
          read.push(...numbers)
          return Effect.succeed(numbers.map((number) => blocks.get(number)!))
        }
      },
      "model",
      dimensions
    )
    const put = (...given: Parameters<typeof blockOf>) => blocks.set(given[0], blockOf(...given))
    const nearest = (limit: number) =>
      Effect.flatMap(codes.blocksOf("project"), (found) => codes.nearest(found, Uint32Array.of(0), limit))
    return { put, read, nearest }
  }

  it.effect("are compared with all others, although many are equally far", () =>
    Effect.gen(function* () {
      const { nearest, put } = make()
      put(0, 1, [
        [uuid(1), 0b111],
        [cleared, 0],
        [uuid(2), 0b1110]
      ])
      put(1, 1, [
        [uuid(3), 0b11100],
        [uuid(4), 0b1]
      ])
      assert.deepStrictEqual(yield* nearest(1), [uuid(4)])
      assert.deepStrictEqual(yield* nearest(2), [uuid(1), uuid(4)])
      assert.deepStrictEqual(yield* nearest(9), [uuid(1), uuid(2), uuid(3), uuid(4)])
    })
  )

  it.effect("are read again only where they have changed", () =>
    Effect.gen(function* () {
      const { nearest, put, read } = make()
      put(0, 1, [[uuid(1), 0]])
      put(1, 1, [[uuid(2), 0]])
      yield* nearest(9)
      put(1, 2, [[uuid(3), 0]])
      assert.deepStrictEqual(yield* nearest(9), [uuid(1), uuid(3)])
      assert.deepStrictEqual(read, [0, 1, 1])
    })
  )

  it.effect("are read, however many blocks have changed", () =>
    Effect.gen(function* () {
      const { nearest, put } = make()
      for (let number = 0; number < 129; number++) put(number, 1, [[uuid(number), 0]])
      assert.lengthOf(yield* nearest(999), 129)
    })
  )

  it.effect("are searched up to 16 MiB of a project, the newest", () =>
    Effect.gen(function* () {
      // 256 times 16 bytes of the id and 384 of signs: 163 blocks are less than 16 MiB, 164 are more.
      const { nearest, put, read } = make(3072)
      for (let number = 0; number < 164; number++) put(number, 1, [[uuid(number), 0]])
      const found = yield* nearest(999)
      assert.lengthOf(found, 163)
      assert.notInclude(found, uuid(0))
      assert.notInclude(read, 0)
    })
  )

  it.effect("give way to others once 64 MiB are kept, those first that were not searched for longest", () =>
    Effect.gen(function* () {
      const mib = 1024 * 1024
      const sizes: Readonly<Record<string, number>> = { a: 30 * mib, b: 34 * mib, c: 16 }
      const zeros = Buffer.alloc(34 * mib)
      const read: Array<string> = []
      const { blocksOf } = makeCodes(
        {
          versions: () => Effect.succeed([{ number: 0, version: 1 }]),
          blocks: (project, _model, [number]) =>
            Effect.sync(() => {
              read.push(project)
              return [{ number: number!, version: 1, ids: zeros.subarray(0, sizes[project]), codes: Buffer.alloc(0) }]
            })
        },
        "model",
        32
      )
      for (const project of ["a", "b", "a", "b", "a", "c", "a", "b"]) yield* blocksOf(project)
      assert.deepStrictEqual(read, ["a", "b", "c", "b"])
    })
  )
})

describe("a vector", () => {
  it.each([
    [32, 4],
    [33, 8],
    [64, 8],
    [65, 12]
  ])("of %s dimensions has signs of %s bytes, one for each dimension", (dimensions, bytes) => {
    assert.strictEqual(codeBytes(dimensions), bytes)
    const signs = signsOf(normalized([...flat(dimensions - 1, -1), 1]))
    assert.strictEqual(signs.byteLength, bytes)
    assert.strictEqual(signs.at(-1), (1 << ((dimensions - 1) % 32)) >>> 0)
  })

  it("of zeros is near to none", () => {
    const [none, one] = [normalized([0, 0]), normalized([3, 4])]
    assert.deepStrictEqual([...none, ...bytesOf(none)], [0, 0, 0, 0])
    assert.deepStrictEqual([...bytesOf(one)], [95, 127])
    assert.deepStrictEqual([cosine(one, bytesOf(none)), cosine(none, bytesOf(one))], [0, 0])
    assert.closeTo(cosine(one, bytesOf(one)), 1, 0.001)
  })
})

describe("an endpoint for embeddings", () => {
  const at = (url: string) => makeEndpoint({ url, model: "words", dimensions, keyFile: undefined })
  const begun = Effect.gen(function* () {
    const embedder = yield* startEmbedder()
    return { embedder, endpoint: yield* at(embedder.url) }
  })
  type Endpoint = Effect.Success<ReturnType<typeof at>>
  /** Why a query of the project fails. */
  const reasonOf = (endpoint: Endpoint, project: string, text = "text") =>
    Effect.map(Effect.flip(endpoint.query(project, text)), ({ reason }) => reason)

  it.effect("that fails is left alone for twice as long each time, for a minute at most, apart for queries", () =>
    Effect.gen(function* () {
      const { embedder, endpoint } = yield* begun
      embedder.answer = (response) => send(response, 500, {})
      yield* Effect.flip(endpoint.entries(["text"]))
      for (const seconds of [1, 2, 4, 8, 16, 32, 60, 60]) {
        embedder.received.length = 0
        yield* TestClock.adjust(seconds * 1000 - 1)
        assert.deepStrictEqual([yield* endpoint.ready, embedder.received.length], [false, 0])
        yield* TestClock.adjust(1)
        assert.deepStrictEqual(
          [yield* endpoint.ready, embedder.received.length],
          [false, 1],
          `after ${seconds} seconds`
        )
      }
      assert.strictEqual(yield* reasonOf(endpoint, "project"), "status 500")
      const { answer } = embedder
      embedder.answer = undefined
      yield* TestClock.adjust("1 minute")
      assert.isTrue(yield* endpoint.ready)
      embedder.answer = answer
      yield* Effect.flip(endpoint.entries(["text"]))
      embedder.answer = undefined
      yield* TestClock.adjust("1 second")
      assert.isTrue(yield* endpoint.ready, "after an answer not longer the next time")
    })
  )

  for (const [what, answer, millis, reason] of [
    ["answers with an error", (response) => send(response, 500, {}), 0, "status 500"],
    ["closes the connection", (response) => void response.destroy(), 0, "the connection ended"],
    ["does not answer in time", () => {}, 500, "took too long"]
  ] as ReadonlyArray<readonly [string, Answer, number, string]>) {
    it.effect(`that ${what} to a query of one project is left alone by this project only`, () =>
      Effect.gen(function* () {
        const { embedder, endpoint } = yield* begun
        const arrived = new Promise<void>((resolve) => {
          embedder.answer = failingWith("poison", (response, texts) => {
            resolve()
            answer(response, texts)
          })
        })
        const asking = yield* Effect.forkChild(reasonOf(endpoint, "one", "poison"))
        yield* Effect.promise(() => arrived)
        yield* TestClock.adjust(millis)
        assert.strictEqual(yield* Fiber.join(asking), reason)
        assert.strictEqual(yield* reasonOf(endpoint, "one"), "left alone")
        assert.lengthOf(yield* endpoint.query("another", "text"), dimensions)
        yield* TestClock.adjust("1 second")
        assert.lengthOf(yield* endpoint.query("one", "text"), dimensions)
      })
    )
  }

  it.effect("that refuses a query of one project as malformed is asked for its next one", () =>
    Effect.gen(function* () {
      const { embedder, endpoint } = yield* begun
      embedder.answer = failingWith("poison", (response) => send(response, 400, {}))
      assert.strictEqual(yield* reasonOf(endpoint, "one", "poison"), "status 400")
      assert.lengthOf(yield* endpoint.query("one", "text"), dimensions)
    })
  )

  for (const status of [401, 429]) {
    it.effect(`that answers ${status} to a query is left alone by all projects`, () =>
      Effect.gen(function* () {
        const { embedder, endpoint } = yield* begun
        // After an answer not longer the next time.
        for (let n = 0; n < 2; n++) {
          embedder.answer = (response) => send(response, status, {})
          assert.strictEqual(yield* reasonOf(endpoint, "one"), `status ${status}`)
          assert.strictEqual(yield* reasonOf(endpoint, "another"), "left alone")
          embedder.answer = undefined
          yield* TestClock.adjust("1 second")
          assert.lengthOf(yield* endpoint.query("another", "text"), dimensions)
        }
      })
    )
  }

  it.effect("that cannot be reached is left alone by all projects, and its entries were not the cause", () =>
    Effect.gen(function* () {
      const { url } = yield* Effect.scoped(startEmbedder())
      const endpoint = yield* at(url)
      assert.strictEqual(yield* reasonOf(endpoint, "one"), "not reachable")
      assert.strictEqual(yield* reasonOf(endpoint, "another"), "left alone")
      assert.deepInclude(yield* Effect.flip(endpoint.entries(["text"])), { fault: "endpoint" })
    })
  )
})

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

      const askedAgain = Effect.gen(function* () {
        const before = embedder.received.length
        yield* search(agent, "caribou")
        return embedder.received.length > before
      })
      const others = Effect.fnUntraced(function* (...queries: ReadonlyArray<string>) {
        for (const query of queries) yield* Effect.andThen(TestClock.adjust("299 seconds"), search(agent, query))
      })
      // Those of ten minutes are kept, and those of the ten before.
      yield* others("first", "second", "third", "fourth")
      assert.isFalse(yield* askedAgain, "for ten minutes")
      yield* others("fifth", "sixth")
      assert.isTrue(yield* askedAgain, "but not for ever")
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
      const fourth = yield* agent.note("The valise waits for its vector.")
      yield* agent.write("memory_archive", { id: fourth.id })
      assert.strictEqual((yield* rowsOf(agent.project_id)).queued, 1, "the grey reindeer alone")
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

  it.effect(
    "of an entry that was superseded while the endpoint was asked are not stored, the others with their entries",
    () =>
      Effect.gen(function* () {
        const { agent, embedder, on } = yield* start()
        const old = yield* agent.note("The reindeer is brown.")
        for (const word of ["brook", "valise", "soup"]) yield* agent.note(`The ${word} is cold.`)
        const asked = Promise.withResolvers<() => void>()
        embedder.answer = (response, texts) => {
          embedder.answer = undefined
          asked.resolve(() => embedder.send(response, texts))
        }
        const round = yield* Effect.forkChild(Context.get(on.services, Embeddings).round)
        const answer = yield* Effect.promise(() => asked.promise)
        yield* agent.note("The reindeer is grey.", { supersedes: old.id })
        answer()
        yield* Fiber.join(round)
        yield* embedAll(on)
        for (const [word, title] of [
          ["caribou", "The reindeer is grey."],
          ["rivulet", "The brook is cold."],
          ["suitcase", "The valise is cold."],
          ["broth", "The soup is cold."]
        ] as const)
          assert.strictEqual(titles(yield* search(agent, word))[0], title)
        assert.deepInclude(yield* rowsOf(agent.project_id), { queued: 0, vectors: 4 })
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
      assert.strictEqual((yield* rowsOf(agent.project_id)).queued, 0)
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
      const sql = yield* SqlClient.SqlClient
      const audited = yield* sql<{ value: string }>`
        select subject ->> 'embeddings' as value
          from audit_event
         where project_id = ${agent.project_id}::uuid
           and action = 'project.limits_set'`
      assert.sameMembers(
        audited.map(({ value }) => value),
        ["0", "default"]
      )
      yield* TestClock.adjust("11 minutes")
      yield* embedAll(on)
      assert.include(titles(yield* search(agent, "rivulet")), "The brook is new.")
    })
  )

  it.effect("are found if all were deleted and made again since the last search", () =>
    Effect.gen(function* () {
      const { agent, on } = yield* start()
      const limits = Context.get(on.services, Limits)
      yield* agent.note("The reindeer is old.")
      yield* embedAll(on)
      assert.deepStrictEqual(titles(yield* search(agent, "caribou")), ["The reindeer is old."])
      yield* agent.note("The brook is new.")
      for (const embeddings of [0, null]) {
        yield* limits.set(agent.project_id, { embeddings })
        yield* TestClock.adjust("11 minutes")
        yield* embedAll(on)
      }
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
          yield* agent.note("Brief.")
          yield* embedAll(on)
          yield* search(agent, "what is long")
        })
      )
      // A title that was taken from the text is not sent twice.
      assert.sameDeepMembers(
        embedder.received.map(({ key, model, text }) => [key, model, text]),
        [`Long\n${"x".repeat(3995)}`, "Brief.", "what is long"].map((text) => [
          "Bearer secret-of-the-endpoint",
          "words",
          text
        ])
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
      send(response, 200, {
        data: texts.map((_, index) => ({ index, embedding: flat(dimensions, 1) })),
        more: "x".repeat(100_000)
      }),
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
        assert.strictEqual(yield* attemptsOf(agent.project_id), 0)
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
      // It is left alone for a second, and after an answer not longer the next time.
      embedder.answer = undefined
      yield* TestClock.adjust("1 second")
      assert.isTrue((yield* search(agent, "caribou")).semantic)
      embedder.answer = (response) => send(response, 500, {})
      assert.isFalse((yield* search(agent, "brook")).semantic)
      embedder.answer = undefined
      yield* TestClock.adjust("1 second")
      assert.isTrue((yield* search(agent, "brook")).semantic)
    })
  )

  it.effect("are asked for by project, for 32,000 characters at once", () =>
    Effect.gen(function* () {
      const { agent, embedder, on } = yield* start()
      const other = yield* Agent.make(on)
      for (let n = 0; n < 9; n++) yield* agent.note("x".repeat(5_000), { title: "Long" })
      yield* other.note("y", { title: "Brief" })
      const requests: Array<string> = []
      embedder.answer = (response, texts) => {
        requests.push(texts.map((text) => text.at(-1)).join(""))
        sendFlat(response, texts)
      }
      yield* embedAll(on)
      assert.sameMembers(requests, ["xxxxxxxx", "x", "y"])
    })
  )

  it.effect("of entries are waited for half a minute, and their entries leased for longer", () =>
    Effect.gen(function* () {
      const { agent, embedder, on } = yield* start()
      /** Begins a round, and waits until the endpoint is asked; `answer` ends its request. */
      const begun = Effect.gen(function* () {
        let answer = () => {}
        const arrived = new Promise<void>((resolve) => {
          embedder.answer = (response, texts) => {
            answer = () => sendFlat(response, texts)
            resolve()
          }
        })
        const round = yield* Effect.forkChild(Context.get(on.services, Embeddings).round)
        yield* Effect.promise(() => arrived)
        return { round, answer }
      })
      yield* agent.note("The reindeer is old.")
      const since = yield* Clock.currentTimeMillis
      const slow = yield* begun
      const sql = yield* SqlClient.SqlClient
      const [row] = yield* sql<{ due_at: Date }>`
        select due_at from embedding_queue where project_id = ${agent.project_id}::uuid`
      assert.strictEqual(row!.due_at.getTime() - since, 120_000)
      assert.strictEqual(yield* attemptsOf(agent.project_id), 0, "so a crash costs none")
      yield* TestClock.adjust("29 seconds")
      slow.answer()
      yield* Fiber.join(slow.round)
      assert.deepInclude(yield* rowsOf(agent.project_id), { queued: 0, vectors: 1 })
      yield* agent.note("The brook is new.")
      const tooSlow = yield* begun
      // Nor does it answer when it is asked for something else.
      const askedAgain = new Promise<void>((resolve) => (embedder.answer = () => resolve()))
      yield* TestClock.adjust("30 seconds")
      yield* Effect.promise(() => askedAgain)
      yield* TestClock.adjust("30 seconds")
      yield* Fiber.join(tooSlow.round)
      assert.deepInclude(yield* rowsOf(agent.project_id), { queued: 1, vectors: 1 })
      assert.strictEqual(yield* attemptsOf(agent.project_id), 0)
    })
  )

  let refused = 0
  const poisons: Readonly<Record<string, Answer>> = {
    refuses: (response) => send(response, [400, 413, 422][refused++ % 3]!, {}),
    "fails with": (response) => send(response, 500, { error: "json: unsupported value: NaN" }),
    "answers no numbers for": (response, texts) =>
      send(response, 200, { data: texts.map((_, index) => ({ index, embedding: flat(dimensions, NaN) })) }),
    "closes the connection over": (response) => void response.destroy()
  }
  for (const [what, fail] of Object.entries(poisons)) {
    it.effect(`are made of all texts but the one that the endpoint ${what}, which is tried five times`, () =>
      Effect.gen(function* () {
        const { agent, embedder, on } = yield* start()
        const other = yield* Agent.make(on)
        const poison = `The poison that it ${what}.`
        yield* agent.note("The reindeer is old.")
        yield* agent.note(poison)
        yield* agent.note("The brook is new.")
        yield* other.note("The soup is hot.")
        embedder.answer = failingWith(poison, fail)
        yield* embedAll(on)
        assert.deepInclude(yield* rowsOf(agent.project_id), { queued: 1, vectors: 2 })
        assert.deepInclude(yield* rowsOf(other.project_id), { queued: 0, vectors: 1 })
        for (let n = 0; n < 3; n++) {
          yield* TestClock.adjust("33 minutes")
          yield* embedAll(on)
        }
        // With the others, and four times alone. The next pass finds it, and it begins again.
        const poisoned = embedder.received.filter(({ text }) => text === poison)
        assert.deepStrictEqual([poisoned.length, yield* attemptsOf(agent.project_id)], [6, 1])
        assert.deepInclude(yield* rowsOf(agent.project_id), { vectors: 2 })
      })
    )
  }

  it.effect("are made one by one after a request that took too long", () =>
    Effect.gen(function* () {
      const { agent, embedder, on } = yield* start()
      yield* agent.note("The reindeer is old.")
      yield* agent.note("The brook is new.")
      const arrived = new Promise<void>((resolve) => {
        embedder.answer = (response, texts) => (texts.length > 1 ? resolve() : sendFlat(response, texts))
      })
      const embedding = yield* Effect.forkChild(embedAll(on))
      yield* Effect.promise(() => arrived)
      yield* TestClock.adjust("30 seconds")
      yield* Fiber.join(embedding)
      assert.deepInclude(yield* rowsOf(agent.project_id), { queued: 0, vectors: 2 })
    })
  )

  for (const [status, attempts] of [
    [401, 0],
    [503, 1]
  ] as const) {
    it.effect(
      `wait for an endpoint that answers ${status} for hours, and no more than their first attempt counts`,
      () =>
        Effect.gen(function* () {
          const { agent, embedder, on } = yield* start()
          yield* agent.note("The reindeer is old.")
          yield* agent.note("The brook is new.")
          embedder.answer = (response) => send(response, status, {})
          for (let n = 0; n < 60; n++) {
            yield* embedAll(on)
            // A 503 may be due to one of the two, so each is tried alone afterwards.
            assert.strictEqual(yield* attemptsOf(agent.project_id), attempts)
            yield* TestClock.adjust("2 minutes")
          }
          embedder.answer = undefined
          yield* embedAll(on)
          assert.deepInclude(yield* rowsOf(agent.project_id), { queued: 0, vectors: 2 })
        })
    )
  }

  it.effect("are not waited for for ever if their text ends the endpoint each time", () =>
    Effect.gen(function* () {
      const { agent, embedder, on } = yield* start()
      yield* agent.note("The venom is in it.")
      let ended = false
      embedder.answer = (response, texts) => {
        ended ||= texts.some((text) => text.includes("venom"))
        if (ended) response.destroy()
        else sendFlat(response, texts)
      }
      for (let n = 0; n < 6; n++) {
        ended = false
        yield* embedAll(on)
        yield* TestClock.adjust("33 minutes")
      }
      // The first time it may have been an outage.
      assert.lengthOf(
        embedder.received.filter(({ text }) => text.includes("venom")),
        6
      )
      assert.deepInclude(yield* rowsOf(agent.project_id), { queued: 0, vectors: 0 })
    })
  )

  it.effect("are compared in one project although the endpoint fails with a query of another", () =>
    Effect.gen(function* () {
      const { agent, embedder, on } = yield* start()
      const other = yield* Agent.make(on)
      yield* agent.note("The reindeer is old.")
      yield* other.note("The brook is new.")
      yield* embedAll(on)
      embedder.answer = failingWith("poison", (response) => send(response, 500, {}))
      assert.isFalse((yield* search(agent, "any poison")).semantic)
      assert.isTrue((yield* search(other, "rivulet")).semantic)
      assert.isFalse((yield* search(agent, "caribou")).semantic)
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
