/** What indexing an entry costs: time linear in its text, and at most 2,000 rows (decisions.md, Search). */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Stream } from "effect"
import { SqlClient } from "effect/sql"
import * as fc from "fast-check"
import { Memory } from "../../../src/agents/memory/Memory.ts"
import { maxPostings, searchText } from "../../../src/agents/memory/Search.ts"
import { Transfer } from "../../../src/agents/transfer/Transfer.ts"
import { Agent } from "../../support/agents/McpAgent.ts"
import { send } from "../../support/network/Http.ts"
import { Service } from "../../support/service/Service.ts"

const size = 16_384
const filled = (unit: string) => unit.repeat(Math.ceil(size / Buffer.byteLength(unit))).slice(0, size)
const ordinary = filled("The quick brown fox jumps over the lazy dog; see src/rotation/confirmSuccessor.ts. ")

/** The first is the worst of our expressions, the others of PostgreSQL's parser. */
const hostile: Readonly<Record<string, string>> = {
  "one long word": `${"a".repeat(size - 4)}ф`,
  "half an address": filled("1a@"),
  "a name of many parts": filled("a_"),
  "a path of many folders": filled("~/"),
  "comments that never end": filled("<!--")
}

layer(Service.layer)("cost of indexing", (it) => {
  const agent = Effect.flatMap(Service, (service) => Agent.make(service))

  /** Milliseconds of each way to write an entry. */
  const timesOf = Effect.fnUntraced(function* (body: string) {
    const a = yield* agent
    const { services } = yield* Service
    const timed = <A, E, R>(work: Effect.Effect<A, E, R>) =>
      Effect.gen(function* () {
        const since = performance.now()
        const result = yield* work
        return [performance.now() - since, result] as const
      })
    const [add, first] = yield* timed(a.note(body))
    const [supersede, second] = yield* timed(a.note("short", { supersedes: first.id }))
    assert.strictEqual(second.supersedes, first.id)
    const call = (id: number) => ({
      jsonrpc: "2.0",
      id,
      method: "tools/call",
      params: { name: "memory_add", arguments: { kind: "note", body, write_context: a.write_context } }
    })
    const [batch, answer] = yield* timed(
      send(`${a.url}/mcp`, {
        bearer: a.token,
        headers: { accept: "application/json, text/event-stream" },
        body: [1, 2, 3].map(call)
      })
    )
    assert.lengthOf(answer.text.match(/"structuredContent"/g) ?? [], 3)
    const last = yield* a.note(body)
    const [archive] = yield* timed(Context.get(services, Memory).archive(a.project_id, last.id))
    let file = ""
    const transfer = Context.get(services, Transfer)
    yield* transfer.save(a.project_id, (text) => Effect.sync(() => void (file += text)))
    const other = yield* agent
    const [load, counts] = yield* timed(transfer.load(other.project_id, Stream.make(Buffer.from(file))))
    assert.strictEqual(counts.memory, 6)
    return { add, supersede, batch, archive, load }
  })

  for (const [name, body] of Object.entries(hostile)) {
    it.effect(`${name} of 16 KiB is added, superseded, archived and imported like ordinary text`, () =>
      Effect.gen(function* () {
        yield* timesOf(ordinary)
        const usual = yield* timesOf(ordinary)
        const slow = Effect.map(timesOf(body), (times) =>
          Object.entries(times).filter(([way, time]) => time >= 100 * Math.max(20, usual[way as keyof typeof usual]))
        )
        // Measured again if a way was slow: the machine may have stood still.
        assert.deepStrictEqual(yield* Effect.repeat(slow, { until: (ways) => ways.length === 0, times: 1 }), [])
      })
    )
  }

  it.effect("identifiers are found as by the expression without bounds, which takes quadratic time", () =>
    Effect.sync(() => {
      const unbounded = /[\p{L}\p{N}]+(?:[_./:@#\\-]+[\p{L}\p{N}]+)+|\p{L}*\p{Ll}\p{Lu}[\p{L}\p{N}]*/gu
      const text = fc.string({ unit: fc.constantFrom(..."aB9фФ_. -ⅷǅ𐐀𐐨") })
      fc.assert(
        fc.property(text, (text) => {
          const parts = [...text.normalize("NFC").matchAll(unbounded)].map(([name]) =>
            name.replaceAll(/(\p{Ll}|\p{N})(?=\p{Lu})|(\p{Lu})(?=\p{Lu}\p{Ll})/gu, "$1$2 ")
          )
          const expected = parts
            .join(" ")
            .replaceAll(/[^\p{L}\p{N}]+/gu, " ")
            .toLowerCase()
          assert.strictEqual(searchText(text).parts, expected)
        }),
        { numRuns: 1000 }
      )
    })
  )

  const postingsOf = (id: string) =>
    SqlClient.SqlClient.use(
      (sql) => sql<{ lexeme: string; tf: number; dl: number }>`
        select lexeme, tf, dl
          from memory_posting
         where entry_id = ${id}::uuid`
    )
  const dense = String.fromCodePoint(...Array.from({ length: 5400 }, (_, index) => 0x4e00 + index))

  it.effect("an entry has at most 2,000 postings; its tags, title and beginning are among them", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const { id } = yield* a.note(`pelican ${dense}`, { title: "About ostriches", tags: ["area:billing"] })
      const postings = yield* postingsOf(id)
      assert.lengthOf(postings, maxPostings)
      for (const query of ["pelican", "ostriches", "billing", dense.slice(1000, 1004)]) {
        const { output } = yield* a.call("memory_search", { query })
        assert.strictEqual(output.entries[0]?.id, id, query)
      }
      assert.deepStrictEqual((yield* a.call("memory_search", { query: dense.slice(5000, 5004) })).output.entries, [])
      // 5,399 pairs, 5,400 characters, the words of body, title and tag: `about` is a stop word.
      assert.deepStrictEqual([...new Set(postings.map(({ dl }) => dl))], [5399 + 5400 + 4])
    })
  )

  it.effect("an entry that was indexed with runs of three and without bounds is found, and leaves no postings", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const { services } = yield* Service
      const sql = yield* SqlClient.SqlClient
      const url = `https://example.com/${"path/".repeat(20)}${"x".repeat(100)}.html`
      const words = `${url} <!-- hidden --> ${filled("foo_bar/baz,").slice(0, 1000)}`
      const { id } = yield* a.note(`${words} ${dense}`.slice(0, 5600))
      yield* sql`delete from memory_posting where entry_id = ${id}::uuid`
      const run = dense.slice(0, 5600 - words.length - 1)
      const grams = [1, 2, 3].flatMap((length) =>
        Array.from({ length: run.length - length + 1 }, (_, start) => run.slice(start, start + length))
      )
      yield* sql`
        insert into memory_posting (project_id, lexeme, entry_id, tf, dl)
        select ${a.project_id}::uuid, lexeme, ${id}::uuid, 1, 9000
          from (select lexeme from unnest(to_tsvector('english', ${words}))
                 union
                select unnest(${grams}::text[])) l`
      assert.isAbove((yield* postingsOf(id)).length, maxPostings)
      for (const query of [url, run.slice(-4), run.at(-1)!]) {
        const { output } = yield* a.call("memory_search", { query })
        assert.strictEqual(output.entries[0]?.id, id, query)
      }
      yield* Context.get(services, Memory).archive(a.project_id, id)
      assert.deepStrictEqual(yield* postingsOf(id), [])
    })
  )
})
