/** The stages of the ranking, each by what it finds that words alone do not (decisions.md, Search). */
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { sweeps } from "../../../src/agents/memory/Sweeps.ts"
import { commitKeys } from "../../../src/agents/ranking/CommitIds.ts"
import { datesOf, keysAsked } from "../../../src/agents/ranking/Dates.ts"
import { namesIn } from "../../../src/agents/ranking/Names.ts"
import { relatedBy, words } from "../../../src/agents/ranking/RelatedWords.ts"
import { DatabaseClock } from "../../../src/platform/database/Clock.ts"
import { sweepOnce } from "../../../src/platform/database/Sweeper.ts"
import { Agent } from "../../support/agents/McpAgent.ts"
import { Service } from "../../support/service/Service.ts"

describe("what a text is indexed by besides its words", () => {
  const day = ["--05", "--05-08", "2026-05", "2026-05-08"]
  const dates: Readonly<Record<string, ReadonlyArray<string>>> = {
    "on 2026-05-08": day,
    "8 May 2026": day,
    "the 8th of May, 2026": day,
    "May 8th, 2026": day,
    "MAY 8 2026": day,
    "Sept. 8": ["--09", "--09-08"],
    "since last May": ["--05"],
    "in March": ["--03"],
    "March 2026": ["--03", "2026-03"],
    "2026-05": ["--05", "2026-05"],
    "it may fail": [],
    "they march on": [],
    "2026-13-01": [],
    "2026-00-01": [],
    "2026-05-00": [],
    "31 May": ["--05", "--05-31"],
    "32 May": [],
    "1 January, 2 Feb, 3 March": ["--01", "--01-01", "--02", "--02-02", "--03", "--03-03"],
    "4 Apr, 5 May, 6 June": ["--04", "--04-04", "--05", "--05-05", "--06", "--06-06"],
    "7 July, 8 Aug, 9 Sep": ["--07", "--07-07", "--08", "--08-08", "--09", "--09-09"],
    "10 Oct, 11 November, 12 Dec": ["--10", "--10-10", "--11", "--11-11", "--12", "--12-12"],
    "may.json in dec.ts": []
  }
  for (const [text, keys] of Object.entries(dates)) {
    it(`"${text}" has the dates ${keys.join(" ") || "of no day"}`, () =>
      assert.deepStrictEqual(datesOf(text).keys, keys))
  }

  it("a query that names a year asks for nothing of other years", () => {
    assert.deepStrictEqual(keysAsked(datesOf("8 May 2026").keys), ["2026-05", "2026-05-08"])
    assert.deepStrictEqual(keysAsked(datesOf("8 May").keys), ["--05", "--05-08"])
    assert.strictEqual(datesOf("released on 8 May 2026?").rest, "released on  ?")
  })

  it("a commit id counts by its first seven characters", () => {
    assert.deepStrictEqual(commitKeys(`9f3c2ab ${"9f3c2ab0".repeat(5)} 1234567 defaced 9f3c2a`), [
      "commit:9f3c2ab",
      "commit:9f3c2ab"
    ])
  })

  it("a name is a capitalised word within a sentence", () => {
    assert.deepStrictEqual(namesIn("What did Ana tell the API team? Then I asked Ana in Łódź."), ["ana", "api", "łódź"])
  })

  it("a word is related to other forms before other words, and never to itself", () => {
    const related = relatedBy(new Map(words.map((word) => [word, word])))
    assert.deepStrictEqual(related.get("break")?.slice(0, 2), [
      { lexeme: "broke", kind: "forms" },
      { lexeme: "broken", kind: "forms" }
    ])
    assert.deepInclude(related.get("break") ?? [], { lexeme: "crash", kind: "synonyms" })
    for (const [word, others] of related) {
      const lexemes = others.map(({ lexeme }) => lexeme)
      assert.strictEqual(new Set([word, ...lexemes]).size, lexemes.length + 1, word)
    }
  })
})

layer(Service.layer)("a ranked search", (it) => {
  const project = Effect.gen(function* () {
    const agent = yield* Agent.make(yield* Service)
    const search = (query: string, given: Readonly<Record<string, unknown>> = {}) =>
      Effect.map(
        agent.call("memory_search", { query, ...given }),
        ({ output }) => output.entries as ReadonlyArray<{ id: string; matched: ReadonlyArray<string>; score: number }>
      )
    return { agent, search }
  })
  const found = (hits: ReadonlyArray<{ id: string; matched: ReadonlyArray<string> }>) =>
    hits.map(({ id, matched }) => [id, matched] as const)

  it.effect("finds other forms of irregular words and other words for the same, and says so", () =>
    Effect.gen(function* () {
      const { agent, search } = yield* project
      const both = yield* agent.note("The writer chose to write and choose.", { session_ref: "a" })
      const form = yield* agent.note("Ana wrote the importer.", { session_ref: "b" })
      const synonym = yield* agent.note("Purge the bucket of tenants.", { session_ref: "c" })
      assert.deepStrictEqual(found(yield* search("written")), [
        [form.id, ["related"]],
        [both.id, ["related"]]
      ])
      assert.deepStrictEqual(found(yield* search("delete a bucket")), [[synonym.id, ["words", "related"]]])
    })
  )

  it.effect("ranks an exact word above its forms, and these above other words for it", () =>
    Effect.gen(function* () {
      const { agent, search } = yield* project
      const synonym = yield* agent.note("the importer crashed twice here", { session_ref: "a" })
      const form = yield* agent.note("the importer broke twice here", { session_ref: "b" })
      const exact = yield* agent.note("the importer breaks twice here", { session_ref: "c" })
      const ids = (yield* search("break")).map(({ id }) => id)
      assert.deepStrictEqual(ids, [exact.id, form.id, synonym.id])
    })
  )

  it.effect("finds a date however it is written, and of that year only if one is named", () =>
    Effect.gen(function* () {
      const { agent, search } = yield* project
      const given = yield* agent.note("The freeze begins on 2026-05-08.", { session_ref: "a" })
      const later = yield* agent.note("The freeze begins on 8 May 2027.", { session_ref: "b" })
      assert.deepStrictEqual(
        (yield* search("May 8th, 2026")).map(({ id }) => id),
        [given.id]
      )
      assert.sameMembers(
        (yield* search("what is on the 8th of May?")).map(({ id }) => id),
        [given.id, later.id]
      )
    })
  )

  it.effect("finds a commit by its short id, and a short id by the whole one", () =>
    Effect.gen(function* () {
      const { agent, search } = yield* project
      const whole = "9f3c2ab41d0e5f6a7b8c9d0e1f2a3b4c5d6e7f80"
      const long = yield* agent.note(`Reverted ${whole}.`, { session_ref: "a" })
      assert.deepStrictEqual(
        (yield* search("9f3c2ab41")).map(({ id }) => id),
        [long.id]
      )
      const short = yield* agent.note("See 9f3c2ab for why.", { session_ref: "b" })
      assert.includeMembers(
        (yield* search(whole)).map(({ id }) => id),
        [short.id]
      )
    })
  )

  it.effect("finds what was written beside a match, in the same session or for the same task", () =>
    Effect.gen(function* () {
      const { agent, search } = yield* project
      const task_id: string = (yield* agent.task("Settlement")).id
      const far = yield* agent.note("Three entries away.", { session_ref: "s1", task_id })
      yield* agent.note("Two entries away.", { session_ref: "s1" })
      const before = yield* agent.note("It was Tuesday.", { session_ref: "s1" })
      const match = yield* agent.note("Which day did the walrus import run?", { session_ref: "s1", task_id })
      const after = yield* agent.note("Nothing of it was kept.", { session_ref: "s2", task_id })
      const other = yield* agent.note("Unrelated.", { session_ref: "s3" })
      const hits = found(yield* search("walrus"))
      assert.deepStrictEqual(hits[0], [match.id, ["words"]])
      assert.includeDeepMembers(hits, [
        [before.id, ["context"]],
        [after.id, ["context"]]
      ])
      const ids = hits.map(([id]) => id)
      assert.notInclude(ids, far.id)
      assert.notInclude(ids, other.id)
    })
  )

  it.effect("finds beside a match only what its filters let through", () =>
    Effect.gen(function* () {
      const { agent, search } = yield* project
      yield* agent.note("Left out.", { kind: "decision" })
      const match = yield* agent.note("The walrus sleeps.", { tags: ["sea"] })
      const beside = yield* agent.note("Beside it.", { tags: ["sea"] })
      yield* agent.note("Without the tag.")
      const ids = (yield* search("walrus", { kind: "note", tags: ["sea"] })).map(({ id }) => id)
      assert.deepStrictEqual(ids, [match.id, beside.id])
    })
  )

  it.effect("prefers an entry that has more of the words", () =>
    Effect.gen(function* () {
      const { agent, search } = yield* project
      const filling = Array.from({ length: 25 }, (_, index) => `filling${index}`).join(" ")
      const one = yield* agent.note("walrus ".repeat(12), { session_ref: "a" })
      const other = yield* agent.note("heron ".repeat(12), { session_ref: "b" })
      const both = yield* agent.note(`walrus heron ${filling}`, { session_ref: "c" })
      const ids = (yield* search("walrus heron")).map(({ id }) => id)
      assert.deepStrictEqual(ids, [both.id, other.id, one.id])
    })
  )

  it.effect("prefers an entry with an asked name in its title, not within another word", () =>
    Effect.gen(function* () {
      const { agent, search } = yield* project
      const named = yield* agent.note("The budget of the year is here.", { title: "Budget (Ana)", session_ref: "a" })
      yield* agent.note("Budget budget.", { title: "Budget of bananas", session_ref: "b" })
      assert.strictEqual((yield* search("what is the budget that Ana set"))[0]?.id, named.id)
    })
  )

  it.effect("finds dates in entries of an earlier release once the sweep has read them", () =>
    Effect.gen(function* () {
      const { agent, search } = yield* project
      const sql = yield* SqlClient.SqlClient
      const { project_id } = agent
      const dated = yield* agent.note("Moved on 2026-05-08, see 9f3c2ab.", { session_ref: "a" })
      const archived = yield* agent.note("Moved on 2026-05-09.", { session_ref: "b" })
      for (let index = 0; index < 120; index++) {
        const body = index % 2 === 0 ? `No date ${index}.` : "Was there on 2026-07-01."
        yield* agent.note(body, { session_ref: `c${index}` })
      }
      yield* agent.write("memory_archive", { id: archived.id })
      const usage = sql`select index_bytes::int as bytes from project_usage where project_id = ${project_id}::uuid`
      const complete = yield* usage
      yield* sql`
        with gone as (
          delete from memory_posting
           where project_id = ${project_id}::uuid
             and (lexeme like '--%' or lexeme like '2026-%' or lexeme like 'commit:%')
          returning lexeme)
        update project_usage
           set index_bytes = index_bytes - (select sum(octet_length(lexeme) + 24) from gone)
         where project_id = ${project_id}::uuid`
      yield* sql`delete from memory_reindex`
      const due = new Date("2026-12-01T00:00:00Z")
      yield* sql`insert into memory_reindex (project_id, due_at) values (${project_id}::uuid, ${due})`
      const sweepAt = (now: Date) =>
        Effect.provideService(
          sweepOnce(sweeps),
          DatabaseClock,
          DatabaseClock.of({
            now: Effect.succeed(now),
            nowIfKnown: Effect.asSome(Effect.succeed(now)),
            offset: Effect.succeed(0)
          })
        )

      yield* sweepAt(new Date(due.getTime() - 1))
      assert.deepStrictEqual(yield* search("8 May"), [])
      yield* sweepAt(due)
      assert.deepStrictEqual(
        (yield* search("8 May")).map(({ id }) => id),
        [dated.id]
      )
      assert.strictEqual((yield* search("9f3c2ab41d"))[0]?.id, dated.id)
      assert.deepStrictEqual(yield* sql`select from memory_posting where lexeme = '2026-05-09'`, [])
      assert.deepStrictEqual(yield* usage, complete)
      assert.deepStrictEqual(yield* sql`select from memory_reindex`, [])
    })
  )
})
