/** Import of what was kept elsewhere, and export to Markdown and back (decisions.md, What was kept elsewhere). */
import { assert, describe, it, layer } from "@effect/vitest"
import { Context, Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { randomBytes } from "node:crypto"
import type { Line } from "../../../src/agents/transfer/importMemory.ts"
import type { Format } from "../../../src/agents/transfer/sources/formats.ts"
import { originOf, type EntryItem, type TaskItem, titleOf, unitOf } from "../../../src/agents/transfer/sources/Item.ts"
import { pieces } from "../../../src/agents/transfer/sources/pieces.ts"
import { readSource } from "../../../src/agents/transfer/sources/readSource.ts"
import { Transfer } from "../../../src/agents/transfer/Transfer.ts"
import { Limits } from "../../../src/operator/limits/Limits.ts"
import { format as token } from "../../../src/platform/crypto/Tokens.ts"
import { operator } from "../../../src/platform/settings/Operator.ts"
import { Agent } from "../../support/agents/McpAgent.ts"
import { Service } from "../../support/service/Service.ts"

type Files = Readonly<Record<string, string | Buffer>>

const secret = Redacted.value(token("spt", randomBytes(32)))
const jsonl = (...objects: ReadonlyArray<unknown>) => objects.map((object) => `${JSON.stringify(object)}\n`).join("")

const issue = (id: string, more: object = {}) => ({
  id,
  title: `Issue ${id}`,
  status: "open",
  priority: 1,
  issue_type: "task",
  created_at: "2026-02-04T16:37:39.524657-08:00",
  ...more
})
const blocks = (depends_on_id: string, type = "blocks") => ({ issue_id: "x", depends_on_id, type })

/** Paragraphs, together longer than an entry that stays whole. */
const long = (name: string) => `${`About ${name}. `.repeat(500)}\n`

const sourceOf = (format: Format, files: Files) => ({
  format,
  label: "notes",
  files: Object.entries(files).map(([path, text]) => ({ path, bytes: Buffer.from(text) }))
})
const read = (format: Format, files: Files) => Effect.runSync(readSource(sourceOf(format, files)))

describe("an issue of beads", () => {
  const taskOf = (more: object, ...others: ReadonlyArray<unknown>) =>
    read("beads", { "i.jsonl": jsonl(issue("a", more), ...others) }).items[0] as TaskItem

  it.each([
    [undefined, "open", null],
    ["open", "open", null],
    ["pinned", "open", null],
    ["in_progress", "in_progress", null],
    ["hooked", "in_progress", null],
    ["blocked", "blocked", "Blocked in beads"],
    ["deferred", "blocked", "Deferred in beads"],
    ["closed", "done", null]
  ] as const)("with the status %s is a task that is %s", (written, status, blocked_reason) => {
    const task = taskOf({ status: written, closed_at: "2026-02-05T01:32:02Z" })
    const blocked_kind = status === "blocked" ? "other" : null
    assert.deepInclude(task, { status, blocked_kind, blocked_reason })
    assert.strictEqual(task.closed_at !== undefined, status === "done")
    assert.strictEqual(task.body.includes("- status: pinned"), written === "pinned")
  })

  it.each([
    ["blocks", "b", true],
    ["conditional-blocks", "b", true],
    ["waits-for", "b", true],
    ["related", "b", false],
    ["blocks", "elsewhere", false],
    ["parent-child", "elsewhere", false]
  ] as const)("that %s %s waits for it: %s; otherwise its text names it", (type, other, waits) => {
    const { body, depends_on } = taskOf({ dependencies: [blocks(other, type)] }, issue("b"))
    assert.deepStrictEqual([depends_on.length, body.includes(`- ${type}: ${other}`)], [waits ? 1 : 0, !waits])
  })

  it("has one parent", () => {
    const dependencies = [blocks("b", "parent-child"), blocks("c", "parent-child")]
    const files = { "i.jsonl": jsonl(issue("a", { dependencies }), issue("b"), issue("c")) }
    const refusal = Effect.runSync(Effect.flip(readSource(sourceOf("beads", files))))
    assert.include(refusal.message, "The issue has more than one parent")
  })

  it("keeps what a task has no field for, and leaves out what says nothing", () => {
    const title = "T".repeat(201)
    const kept = taskOf({ title, metadata: "draft", close_reason: "Shipped", labels: ["a b", "A-b"], assignee: "" })
    assert.deepInclude(kept, { title: titleOf(title), tags: ["a-b"], assignee: null })
    for (const fact of [`- title: ${title}`, "- metadata: draft", "- closed: Shipped"]) assert.include(kept.body, fact)
    assert.strictEqual(taskOf({ metadata: {}, close_reason: "Closed", priority: null }).body, "- beads: a")
  })

  it("with a long text goes on in notes, before its comments", () => {
    const line = `${"ü".repeat(499)}\n`
    const comment = { id: 1, author: "Bob", text: "Careful.", created_at: "2026-02-05T01:32:02Z" }
    const { body, notes } = taskOf({ description: line.repeat(20), comments: [comment] })
    const texts = [body, ...notes.map(({ text }) => text)]
    assert.strictEqual([...texts.join("").matchAll(/ü/g)].length, 499 * 20)
    assert.isAtMost(Buffer.byteLength(body), 16_384)
    for (const { text } of notes) assert.isAtMost(Buffer.byteLength(text), 4000)
    assert.strictEqual(texts.at(-1), "Bob: Careful.")
  })

  it("is skipped if it is something else", () => {
    const { items, skipped } = read("beads", { "i.jsonl": jsonl(issue("a"), { _type: "event" }) })
    assert.lengthOf(items, 1)
    assert.deepStrictEqual(skipped, [
      { place: { file: "i.jsonl", line: 2 }, why: "It is neither an issue nor a memory" }
    ])
  })
})

describe("a note in Markdown", () => {
  const entriesOf = (text: string, format: Format = "markdown") =>
    read(format, { "a.md": text }).items as ReadonlyArray<EntryItem>
  const partsOf = (text: string) => entriesOf(text).map(({ source }) => source.replace("markdown:notes/", ""))
  /** With the heading A, so many bytes. */
  const bytes = (count: number) => `# A\n\n${"ü".repeat((count - 5) / 2)}${"x".repeat((count - 5) % 2)}`

  it.each([
    ["of 4 KiB", bytes(4096), ["a.md"]],
    ["of one byte more", bytes(4097), ["a.md#a"]],
    ["with words before its only heading", `Before.\n\n${bytes(5000)}`, ["a.md", "a.md#a"]],
    ["with two sections", `${bytes(5000)}\n\n## B\n\nText.\n`, ["a.md#a", "a.md#b"]],
    ["with a heading alone", `${bytes(5000)}\n\n## B\n\n## C\n\nText.\n`, ["a.md#a", "a.md#c"]],
    ["with a heading twice", `${bytes(5000)}\n\n## B\n\n1\n\n## B\n\n2\n`, ["a.md#a", "a.md#b", "a.md#b-2"]],
    ["with a third level", `${bytes(5000)}\n\n### B\n\nText.\n`, ["a.md#a"]],
    ["with a section too long", `${bytes(9000)}\n\n${bytes(9000).slice(3)}`, ["a.md#a", "a.md#a+2"]]
  ])("%s is cut at its headings", (_, text, parts) => {
    assert.deepStrictEqual(partsOf(text), parts)
  })

  it.each([
    ["how to,api ,  api", ["how-to", "api"]],
    ["[How To, 2026, true]", ["how-to", "2026"]],
    [`[${"x".repeat(65)}, y]`, ["y"]],
    [`[${Array.from({ length: 17 }, (_, n) => `t${n}`).join(", ")}]`, Array.from({ length: 16 }, (_, n) => `t${n}`)]
  ])("with the tags %s has %s", (tags, expected) => {
    assert.deepStrictEqual(entriesOf(`---\ntags: ${tags}\n---\n# A\n`)[0]!.tags, expected)
  })

  it("has hashtags and a permalink if it is of basic-memory", () => {
    const text = "---\ntitle: Tea\npermalink: drinks/tea\n---\n# Heading\n\n- [fact] Green #leaf\n"
    const found = (["markdown", "basic-memory"] as const).map((format) => {
      const [{ source, tags, title }] = entriesOf(text, format) as [EntryItem]
      return [source, tags, title]
    })
    assert.deepStrictEqual(found, [
      ["markdown:notes/a.md", [], "Tea"],
      ["basic-memory:notes/drinks/tea", ["leaf"], "Tea"]
    ])
  })

  it("keeps its other fields with its first part", () => {
    const [first, second] = entriesOf(`---\ntype: guide\nowner: Ann\n---\n${bytes(5000)}\n\n## B\n\nText.\n`)
    assert.strictEqual(first!.title, "A")
    assert.match(first!.body, /```yaml\nowner: Ann\ntype: guide\n```$/)
    assert.deepInclude(second!, { body: "## B\n\nText.", title: "A: B", kind: "note" })
  })
})

describe("what a source has", () => {
  it("is named by the source and its key, without what separates a part, in 256 bytes with it", () => {
    assert.strictEqual(originOf("beads", "shop", "a#b%"), "beads:shop/a%23b%25")
    assert.strictEqual(unitOf("markdown:notes/a.md#b"), "markdown:notes/a.md")
    const keys = ["ü".repeat(60), `${"ü".repeat(60)}x`, `${"ü".repeat(60)}y`].map((key) => originOf("beads", "s", key))
    assert.strictEqual(keys[0], `beads:s/${"ü".repeat(60)}`)
    assert.strictEqual(new Set(keys).size, 3)
    for (const key of keys) assert.isAtMost(Buffer.byteLength(key), 128)
  })

  it("is cut at the last blank line that fits, else between lines, else between characters", () => {
    assert.deepStrictEqual(pieces("aaa\n\n\nbbbb\ncccc\n\ndddd", 10), {
      pieces: [
        { from: 0, text: "aaa" },
        { from: 3, text: "bbbb\ncccc" },
        { from: 6, text: "dddd" }
      ]
    })
    assert.deepStrictEqual(pieces(`aaaa\n${"x".repeat(11)}`, 10), { tooLong: 1 })
    const fitting = "x".repeat(10)
    assert.deepStrictEqual(pieces(`aaaa\n${fitting}`, 10), {
      pieces: [
        { from: 0, text: "aaaa" },
        { from: 1, text: fitting }
      ]
    })
    const cut = ["üü", "üü", "üü"].map((text) => ({ from: 0, text }))
    assert.deepStrictEqual(pieces("ü".repeat(6), 5, true), { pieces: cut })
  })
})

layer(Service.layer)("import-memory", (it) => {
  const bring = Effect.fnUntraced(function* (
    project_id: string,
    files: Files,
    { dryRun = false, format = "markdown", label = "notes" }: { dryRun?: boolean; format?: Format; label?: string } = {}
  ) {
    const { services } = yield* Service
    const list = Object.entries(files).map(([path, text]) => ({ path, bytes: Buffer.from(text) }))
    return yield* Context.get(services, Transfer).bring(project_id, { format, label, files: list }, dryRun)
  })
  const save = Effect.fnUntraced(function* (project_id: string) {
    const { services } = yield* Service
    const files: Record<string, string> = {}
    yield* Context.get(services, Transfer).saveMarkdown(project_id, (path, text) =>
      Effect.sync(() => void (files[path] = text))
    )
    return files
  })
  const agentOf = Effect.flatMap(Service, Agent.make)
  const stored = (project_id: string) =>
    SqlClient.SqlClient.use((sql) =>
      Effect.all([
        sql`select to_jsonb(e) as row from memory_entry e where project_id = ${project_id}::uuid order by id`,
        sql`select to_jsonb(t) as row from task t where project_id = ${project_id}::uuid order by id`,
        sql`select to_jsonb(d) as row from task_dependency d where project_id = ${project_id}::uuid order by task_id, depends_on`,
        sql`select to_jsonb(n) as row from task_note n where project_id = ${project_id}::uuid order by id`,
        sql`select lexeme, entry_id from memory_posting where project_id = ${project_id}::uuid order by lexeme, entry_id`,
        sql`select action, subject from audit_event where project_id = ${project_id}::uuid and action like 'memory.%' order by event_id`,
        sql`select stored_bytes::int, entries::int, tasks::int from project_usage where project_id = ${project_id}::uuid`
      ])
    )
  const done = (lines: ReadonlyArray<Line>) => lines.map((line) => [line.done, line.title])

  it.effect("a short note becomes one entry, a long one an entry for each section", () =>
    Effect.gen(function* () {
      const agent = yield* agentOf
      const files = {
        "docs/guide.md": `---\ntags: [How To, api]\nowner: Ann\n---\n\n# Guide\n\n${long("a")}\n## Install\n\nRun it.\n\n\`\`\`\n## no heading\n\`\`\`\n\n## Install\n\nAgain.\n`,
        "AGENTS.md": "\ufeffUse tabs.\r\nNo spaces.\r\n",
        "adr/1.md": "---\ntype: decision\n---\n# Use PostgreSQL\n\nBecause.\n",
        "empty.md": "\n\n"
      }
      const { counts, lines } = yield* bring(agent.project_id, files)
      assert.deepInclude(counts, { entries_added: 5, skipped: 1, tasks_added: 0 })
      assert.deepStrictEqual(done(lines), [
        ["added", "Use tabs."],
        ["added", "Use PostgreSQL"],
        ["added", "Guide"],
        ["added", "Guide: Install"],
        ["added", "Guide: Install"],
        ["skipped", ""]
      ])
      assert.deepStrictEqual(
        lines.map(({ line }) => line),
        [1, 4, 6, 10, 18, 1]
      )
      const { output } = yield* agent.call("memory_get", { id: lines[2]!.id })
      const { entry } = output
      assert.deepStrictEqual(
        [entry.tags, entry.kind, entry.provenance.source],
        [["how-to", "api"], "note", "markdown:notes/docs/guide.md#guide"]
      )
      assert.include(entry.body, "owner: Ann")
      assert.match(entry.provenance.actor, / \(import from markdown\)$/)
      const found = yield* agent.call("memory_search", { query: "PostgreSQL" })
      assert.strictEqual(found.output.entries[0].id, lines[1]!.id)
      assert.strictEqual(
        (yield* agent.call("memory_get", { id: lines[0]!.id })).output.entry.body,
        "Use tabs.\nNo spaces."
      )
    })
  )

  it.effect("a rule across the page is no front matter, and no title", () =>
    Effect.gen(function* () {
      const { project_id } = yield* agentOf
      const files = {
        "a.md": "---\n\nAfter a rule.\n",
        "b.md": "---\nBetween rules.\n---\n",
        "c.md": "---\n---\n# Without fields\n"
      }
      const { lines } = yield* bring(project_id, files)
      assert.deepStrictEqual(done(lines), [
        ["added", "After a rule."],
        ["added", "Between rules."],
        ["added", "Without fields"]
      ])
    })
  )

  it.effect("a source that is imported again changes nothing", () =>
    Effect.gen(function* () {
      const { project_id } = yield* agentOf
      const files = { "a.md": "# A\n\nText.\n", "b.md": `# B\n\n${long("b")}\n## C\n\n${long("c")}` }
      yield* bring(project_id, files)
      const before = yield* stored(project_id)
      const { counts } = yield* bring(project_id, files)
      assert.deepInclude(counts, { unchanged: 3, entries_added: 0, kept: 0 })
      assert.deepStrictEqual(yield* stored(project_id), before)
    })
  )

  it.effect("a dry run says the same and changes nothing", () =>
    Effect.gen(function* () {
      const { project_id } = yield* agentOf
      yield* bring(project_id, { "a.md": "# A\n\nText.\n" })
      const before = yield* stored(project_id)
      const files = { "a.md": "# A\n\nOther text.\n", "b.md": "# B\n\nText.\n" }
      const tried = yield* bring(project_id, files, { dryRun: true })
      assert.deepStrictEqual(yield* stored(project_id), before)
      const { counts, lines } = yield* bring(project_id, files)
      assert.deepStrictEqual(tried.counts, counts)
      assert.deepStrictEqual(done(tried.lines), done(lines))
      assert.deepStrictEqual(done(lines), [
        ["superseded", "A"],
        ["added", "B"]
      ])
    })
  )

  it.effect(
    "a changed note supersedes its entry, a part that is gone is archived, and what an agent wrote since is kept",
    () =>
      Effect.gen(function* () {
        const agent = yield* agentOf
        const { project_id } = agent
        const sections = (b: string) => `# A\n\n${long("a")}\n## B\n\n${b}\n## C\n\n${long("c")}`
        const first = yield* bring(project_id, {
          "a.md": sections("Old."),
          "x.md": "# X\n\nText.\n",
          "y.md": "# Y\n\nText.\n",
          "z.md": "# Z\n\nNobody brings it again.\n"
        })
        const [, b, c, x, y] = first.lines.map(({ id }) => id!)
        yield* agent.write("memory_add", { kind: "note", body: "Better.", supersedes: x })
        yield* agent.write("memory_archive", { id: y })
        const files = {
          "a.md": `# A\n\n${long("a")}\n## B\n\nNew.\n`,
          "x.md": "# X\n\nOther.\n",
          "y.md": "# Y\n\nOther.\n"
        }
        const { counts, lines } = yield* bring(project_id, files)
        assert.deepInclude(counts, {
          unchanged: 1,
          entries_superseded: 1,
          entries_archived: 1,
          kept: 2,
          entries_added: 0
        })
        const old = (yield* agent.call("memory_get", { id: b })).output.entry
        const successor = lines.find(({ done }) => done === "superseded")!.id!
        assert.deepInclude(old, { active: false, superseded_by: successor })
        assert.deepInclude((yield* agent.call("memory_get", { id: c })).output.entry, {
          active: false,
          superseded_by: null
        })
        // The source goes back: history does, too.
        const again = yield* bring(project_id, { "a.md": `# A\n\n${long("a")}\n## B\n\nOld.\n` })
        assert.deepInclude(again.counts, { entries_superseded: 1, unchanged: 1 })
        const search = yield* agent.call("memory_search", { query: "New" })
        assert.notInclude(JSON.stringify(search.output), successor)
        const sql = yield* SqlClient.SqlClient
        const [uncounted] = yield* sql`
          select (u.index_bytes
                  - (select sum(octet_length(lexeme) + 24)
                       from memory_posting p
                       join memory_entry e on e.project_id = p.project_id and e.id = p.entry_id and e.active
                      where p.project_id = u.project_id))::int as index_bytes,
                 ((select sum(active) from memory_count where project_id = u.project_id)
                  - (select count(*) from memory_entry where project_id = u.project_id and active))::int as active
            from project_usage u
           where u.project_id = ${project_id}::uuid`
        assert.deepStrictEqual(uncounted, { index_bytes: 0, active: 0 })
      })
  )

  it.effect("the same file of another source is another entry", () =>
    Effect.gen(function* () {
      const { project_id } = yield* agentOf
      yield* bring(project_id, { "README.md": "# One\n" }, { label: "one" })
      const { counts } = yield* bring(project_id, { "README.md": "# Two\n" }, { label: "two" })
      assert.deepInclude(counts, { entries_added: 1, entries_superseded: 0 })
    })
  )

  it.effect("issues of beads become tasks with dependencies, parents, notes and what they say besides", () =>
    Effect.gen(function* () {
      yield* TestClock.adjust("2 days")
      const agent = yield* agentOf
      const file = jsonl(
        issue("bd-1", { issue_type: "epic", labels: ["Big One"] }),
        issue("bd-1.1", {
          description: "Do it.",
          design: "So.",
          acceptance_criteria: "It works.",
          status: "in_progress",
          assignee: "ann",
          dependencies: [blocks("bd-1", "parent-child"), blocks("bd-2"), blocks("bd-9", "related")],
          comments: [
            { id: 1, issue_id: "bd-1.1", author: "Bob", text: "Careful.", created_at: "1970-01-02T01:32:02Z" },
            { id: 2, issue_id: "bd-1.1", author: "Ann", text: "I am.", created_at: "2026-02-05T01:32:02Z" }
          ]
        }),
        issue("bd-2", { status: "closed", closed_at: "1970-01-02T01:32:02Z", close_reason: "Shipped" }),
        issue("bd-3", { status: "deferred", defer_until: "2027-01-01T00:00:00Z", title: "T".repeat(300) }),
        issue("bd-4", { status: "tombstone" }),
        { _type: "memory", key: "style", value: "Use tabs." }
      )
      const options = { format: "beads", label: "shop" } as const
      const { counts, lines } = yield* bring(agent.project_id, { "issues.jsonl": file }, options)
      assert.deepInclude(counts, { tasks_added: 4, entries_added: 1, notes_added: 2, skipped: 1 })
      const [epic, child, closed, deferred] = lines.map(({ id }) => id!)
      const { task, notes } = (yield* agent.call("task_get", { id: child })).output
      assert.deepInclude(task, {
        parent: epic,
        depends_on: [closed],
        status: "in_progress",
        assignee: "ann",
        priority: 1
      })
      assert.strictEqual(
        task.body,
        "Do it.\n\n## Design\n\nSo.\n\n## Acceptance criteria\n\nIt works.\n\n- beads: bd-1.1\n- related: bd-9"
      )
      assert.deepStrictEqual(
        notes.map(({ created_at, text }: { created_at: string; text: string }) => [text, created_at.slice(0, 10)]),
        [
          ["Ann: I am.", "1970-01-03"],
          ["Bob: Careful.", "1970-01-02"]
        ]
      )
      const sql = yield* SqlClient.SqlClient
      const [uncounted] = yield* sql`
        select (u.stored_bytes
                - (select sum(octet_length(concat(title, body, blocked_reason, array_to_string(tags, ''))))
                     from task where project_id = u.project_id)
                - (select sum(octet_length(concat(title, body, array_to_string(tags, ''))))
                     from memory_entry where project_id = u.project_id)
                - (select sum(512 + octet_length(text)) from task_note where project_id = u.project_id))::int as bytes
          from project_usage u
         where u.project_id = ${agent.project_id}::uuid`
      assert.deepStrictEqual(uncounted, { bytes: 0 })
      const { task: first } = (yield* agent.call("task_get", { id: epic })).output
      assert.deepInclude(first, { tags: ["big-one", "epic"] })
      // What the source dates in the future is of now.
      assert.isBelow(Date.parse(first.created_at), Date.parse("2026-01-01"))
      assert.deepInclude((yield* agent.call("task_get", { id: closed })).output.task, {
        status: "done",
        closed_at: "1970-01-02T01:32:02.000Z"
      })
      assert.deepInclude((yield* agent.call("task_get", { id: deferred })).output.task, {
        status: "blocked",
        blocked_reason: "Deferred until 2027-01-01T00:00:00Z in beads"
      })
      assert.deepInclude((yield* bring(agent.project_id, { "issues.jsonl": file }, options)).counts, {
        unchanged: 5,
        tasks_added: 0,
        notes_added: 0
      })
    })
  )

  it.effect(
    "a line as bd export writes it keeps everything that a person wrote; without a priority it is the highest",
    () =>
      Effect.gen(function* () {
        const agent = yield* agentOf
        const file = `{"_type":"issue","id":"bd-7a.1","title":"Fix the cart","description":"It loses items.","spec_id":"cart-2","status":"open","issue_type":"bug","owner":"ann@example.com","estimated_minutes":90,"created_at":"2026-04-20T12:00:00Z","created_by":"Ann","updated_at":"2026-04-21T12:00:00Z","metadata":{"files":["cart.ts"]},"dependencies":[{"issue_id":"bd-7a.1","depends_on_id":"bd-9","type":"discovered-from","created_at":"2026-04-20T12:00:00Z","created_by":"Ann","metadata":"{}"}],"dependency_count":0,"dependent_count":0,"comment_count":0}\n`
        const { lines } = yield* bring(agent.project_id, { "issues.jsonl": file }, { format: "beads" })
        const { task } = (yield* agent.call("task_get", { id: lines[0]!.id })).output
        assert.deepInclude(task, { title: "Fix the cart", priority: 0, tags: ["bug"], depends_on: [] })
        assert.strictEqual(
          task.body,
          `It loses items.\n\n- beads: bd-7a.1\n- specification: cart-2\n- owner: ann@example.com\n- created by: Ann\n- estimated minutes: 90\n- metadata: {"files":["cart.ts"]}\n- discovered-from: bd-9`
        )
      })
  )

  it.effect(
    "a changed issue updates what an import on another host wrote, and keeps what its operator wrote by hand",
    () =>
      Effect.gen(function* () {
        const { project_id } = yield* agentOf
        const options = { format: "beads" } as const
        const both = (title: string) => ({ "i.jsonl": jsonl(issue("a", { title }), issue("b", { title })) })
        const { lines } = yield* bring(project_id, both("Old"), options)
        const sql = yield* SqlClient.SqlClient
        const wrote = (actor: string, { id }: Line) =>
          sql`update task set version = 2, updated_by = ${actor} where project_id = ${project_id} and id = ${id}`
        yield* wrote("operator:ann@elsewhere (import from beads)", lines[0]!)
        yield* wrote(operator, lines[1]!)
        const again = yield* bring(project_id, both("New"), options)
        assert.deepStrictEqual(
          again.lines.map(({ done }) => done),
          ["updated", "kept"]
        )
      })
  )

  it.effect("a changed issue updates its task, unless the project has changed it since", () =>
    Effect.gen(function* () {
      const agent = yield* agentOf
      const options = { format: "beads" } as const
      const first = yield* bring(
        agent.project_id,
        { "i.jsonl": jsonl(issue("a"), issue("b"), issue("c", { status: "closed" }), issue("d")) },
        options
      )
      const [a, b] = first.lines.map(({ id }) => id!)
      yield* agent.write("task_update", { id: b, expected_version: 1, body: "Mine." })
      const { counts, lines } = yield* bring(
        agent.project_id,
        {
          "i.jsonl": jsonl(
            issue("a", { title: "New title", status: "closed", dependencies: [blocks("d")] }),
            issue("b", { title: "New title" }),
            issue("c", { status: "in_progress" }),
            issue("d")
          )
        },
        options
      )
      assert.deepStrictEqual(
        lines.map(({ done, why }) => [done, why]),
        [
          ["updated", null],
          ["kept", "The project has changed it since"],
          ["kept", "A task cannot go from done to in_progress"],
          ["unchanged", null]
        ]
      )
      assert.deepInclude(counts, { tasks_updated: 1, kept: 2 })
      const { task } = (yield* agent.call("task_get", { id: a })).output
      assert.deepInclude(task, { title: "New title", status: "done", version: 2 })
      assert.strictEqual(task.depends_on.length, 1)
      const claimed = jsonl(issue("d", { status: "in_progress" }))
      const d = (yield* bring(agent.project_id, { "i.jsonl": claimed }, options)).lines[0]!.id
      assert.isNotNull((yield* agent.call("task_get", { id: d })).output.task.claimed_at)
      yield* bring(agent.project_id, { "i.jsonl": jsonl(issue("d")) }, options)
      assert.isNull((yield* agent.call("task_get", { id: d })).output.task.claimed_at)
      const cyclic = jsonl(
        issue("a", { status: "closed", dependencies: [blocks("d")] }),
        issue("d", { dependencies: [blocks("a")] })
      )
      const refusal = yield* Effect.flip(bring(agent.project_id, { "i.jsonl": cyclic }, options))
      assert.deepInclude(refusal.details, { line: 2 })
    })
  )

  it.effect("entities of server-memory become entries with their observations and relations", () =>
    Effect.gen(function* () {
      const agent = yield* agentOf
      const file = jsonl(
        { type: "entity", name: "Ann", entityType: "Person", observations: ["Likes tea", "Writes\nSQL"] },
        { type: "relation", from: "Ann", to: "Shop", relationType: "works_at" },
        { type: "relation", from: "Shop", to: "Town", relationType: "is_in" }
      )
      const { lines } = yield* bring(agent.project_id, { "memory.jsonl": file }, { format: "server-memory" })
      const { entry } = (yield* agent.call("memory_get", { id: lines[0]!.id })).output
      assert.deepInclude(entry, {
        title: "Ann",
        tags: ["person"],
        body: "- Likes tea\n- Writes\n  SQL\n- works_at: Shop"
      })
      assert.deepStrictEqual(done(lines), [
        ["added", "Ann"],
        ["added", "Shop"]
      ])
    })
  )

  it.effect("a note of basic-memory keeps its title, tags and permalink when its file moves", () =>
    Effect.gen(function* () {
      const agent = yield* agentOf
      const note =
        "---\ntitle: Coffee\ntype: note\npermalink: coffee\ntags:\n- brewing\nstatus: active\n---\n\n# Coffee\n\n## Observations\n- [method] Pour over #filter (slow)\n\n## Relations\n- requires [[Grinding]]\n"
      const { lines } = yield* bring(agent.project_id, { "coffee.md": note }, { format: "basic-memory" })
      const { entry } = (yield* agent.call("memory_get", { id: lines[0]!.id })).output
      assert.deepInclude(entry, { title: "Coffee", tags: ["brewing", "filter"] })
      for (const kept of ["- [method] Pour over #filter (slow)", "- requires [[Grinding]]", "status: active"]) {
        assert.include(entry.body, kept)
      }
      const moved = yield* bring(agent.project_id, { "drinks/coffee.md": note }, { format: "basic-memory" })
      assert.deepInclude(moved.counts, { unchanged: 1, entries_added: 0 })
      const tagged = { "coffee.md": note.replace("- brewing", "- tea") }
      const again = yield* bring(agent.project_id, tagged, { format: "basic-memory" })
      assert.deepInclude(again.counts, { entries_superseded: 1 })
    })
  )

  const whole = { "a.md": "# A\n\nText.\n" }
  const broken: ReadonlyArray<readonly [name: string, Files, Format, file: string, line: number, reason?: string]> = [
    [
      "bytes that are not UTF-8",
      { ...whole, "b.md": Buffer.from("x\ny\xff\n", "latin1") },
      "markdown",
      "b.md",
      2,
      "The line is not UTF-8"
    ],
    [
      "a line longer than an entry",
      { ...whole, "b.md": `# B\n\n${"x".repeat(16_385)}\n` },
      "markdown",
      "b.md",
      3,
      "The line has more than 16384 bytes"
    ],
    [
      "a token of this service",
      { ...whole, "b.md": `---\ntitle: B\n---\n# B\n\nx\n${secret}\ny\n` },
      "markdown",
      "b.md",
      7,
      "body contains a"
    ],
    ["a character that hides text", { ...whole, "b.md": "# B\n\nx\u202ey\n" }, "markdown", "b.md", 3, "body: Contains"],
    [
      "a file of an export with broken YAML",
      { ...whole, "b.md": "---\nbridge-service: entry\nid: [\n---\n" },
      "markdown",
      "b.md",
      4,
      "The front matter is not valid YAML"
    ],
    [
      "front matter without an end",
      { ...whole, "b.md": "---\ntitle: B\n\n# B\n" },
      "markdown",
      "b.md",
      1,
      "within 16 KiB no line is ---"
    ],
    [
      "front matter of 17 KiB",
      { ...whole, "b.md": `---\n${"a: b\n".repeat(3500)}---\nx\n` },
      "markdown",
      "b.md",
      1,
      "within 16 KiB no line is ---"
    ],
    [
      "a value with a colon",
      { ...whole, "b.md": "---\ntags: [a]\ntitle: B: c\n---\nx\n" },
      "markdown",
      "b.md",
      3,
      "a value with a colon needs quotes"
    ],
    [
      "aliases that expand",
      { ...whole, "b.md": "---\na: &a [x]\nb: [*a, *a]\n---\nx\n" },
      "markdown",
      "b.md",
      1,
      "has aliases, or is nested too deeply"
    ],
    [
      "fields nested without end",
      { ...whole, "b.md": `---\na: ${"[".repeat(8000)}${"]".repeat(8000)}\n---\nx\n` },
      "markdown",
      "b.md",
      2
    ],
    ["two files with one id", { ...twice(), ...whole }, "markdown", "c.md", 8, "It repeats b.md, line 8"],
    [
      "a line that is not JSON",
      { "i.jsonl": `${jsonl(issue("a"))}{"id":\n` },
      "beads",
      "i.jsonl",
      2,
      "It is not a JSON object"
    ],
    ["100,000 nested arrays", { "i.jsonl": `${jsonl(issue("a"))}${"[".repeat(1e5)}\n` }, "beads", "i.jsonl", 2],
    ["an issue without a title", { "i.jsonl": jsonl(issue("a"), { id: "b" }) }, "beads", "i.jsonl", 2],
    ["an issue twice", { "i.jsonl": jsonl(issue("a"), issue("a")) }, "beads", "i.jsonl", 2],
    ["issues that block each other", cycle("blocks"), "beads", "i.jsonl", 3],
    ["issues that are parts of each other", cycle("parent-child"), "beads", "i.jsonl", 3],
    ["an issue that waits for 33", { "i.jsonl": many() }, "beads", "i.jsonl", 34],
    [
      "a secret in a comment",
      { "i.jsonl": jsonl(issue("a"), issue("b", { comments: [remark()] })) },
      "beads",
      "i.jsonl",
      2
    ],
    [
      "a line of more than a million characters",
      { "m.jsonl": jsonl({ type: "entity", name: "x".repeat(2e6) }) },
      "server-memory",
      "m.jsonl",
      1,
      "The line has more than 1048576 characters"
    ],
    [
      "an entity without observations",
      { "m.jsonl": jsonl({ type: "entity", name: "A", entityType: "x" }) },
      "server-memory",
      "m.jsonl",
      1,
      "observations: Is required"
    ],
    [
      "an entity twice",
      {
        "m.jsonl": jsonl(
          ...["x", "y"].map((entityType) => ({ type: "entity", name: "A", entityType, observations: [] }))
        )
      },
      "server-memory",
      "m.jsonl",
      2,
      "It repeats the entity of line 1"
    ]
  ]
  function twice() {
    const file =
      "---\nbridge-service: entry\nid: 01900000-0000-7000-8000-000000000001\nkind: note\ntitle: T\ntags: []\n---\nText\n"
    return { "b.md": file, "c.md": file }
  }
  function cycle(type: string) {
    const each = (id: string, other: string) => issue(id, { dependencies: [blocks(other, type)] })
    return { "i.jsonl": jsonl(issue("z"), each("a", "b"), each("b", "a")) }
  }
  function many() {
    const others = Array.from({ length: 33 }, (_, index) => `n${index}`)
    return jsonl(...others.map((id) => issue(id)), issue("a", { dependencies: others.map((id) => blocks(id)) }))
  }
  function remark() {
    return { id: 1, author: "x", text: secret, created_at: "2026-02-05T01:32:02Z" }
  }
  for (const [name, files, format, file, line, reason = ""] of broken) {
    it.effect(`${name}: the refusal names file and line, and nothing is imported`, () =>
      Effect.gen(function* () {
        const { project_id } = yield* agentOf
        const before = yield* stored(project_id)
        const refusal = yield* Effect.flip(bring(project_id, files, { format }))
        assert.strictEqual(refusal._tag, "import_invalid", refusal.message)
        assert.deepInclude(refusal.details, { file, line }, refusal.message)
        assert.include(refusal.message, `${file}, line ${line}: `)
        assert.include(refusal.message, reason)
        assert.notInclude(refusal.message, secret)
        assert.deepStrictEqual(yield* stored(project_id), before)
      })
    )
  }

  it.effect("an import stays within the limits of the project, or is refused as a whole", () =>
    Effect.gen(function* () {
      const { project_id } = yield* agentOf
      const { services } = yield* Service
      yield* Context.get(services, Limits).set(project_id, { entries: 2 })
      const before = yield* stored(project_id)
      const files = { "a.md": "A", "b.md": "B", "c.md": "C" }
      const refusal = yield* Effect.flip(bring(project_id, files))
      assert.deepInclude(refusal, { _tag: "limit_exceeded" })
      assert.deepInclude(refusal.details, { limit: "entries", maximum: 2 })
      assert.deepStrictEqual(yield* stored(project_id), before)
    })
  )

  it.effect("an export to Markdown is the same each time, comes back unchanged, and can be imported elsewhere", () =>
    Effect.gen(function* () {
      const agent = yield* agentOf
      const { project_id } = agent
      const { output } = yield* agent.write("memory_add", {
        kind: "decision",
        body: "Use tabs.\n\n---\nfence",
        tags: ["c++"]
      })
      yield* agent.write("memory_add", {
        kind: "decision",
        title: "Yes: no",
        body: "  Use spaces.\r\n\n",
        supersedes: output.entry.id
      })
      yield* agent.write("memory_add", { kind: "note", title: "null", body: "猫" })
      const first = yield* agent.write("task_create", { title: "First", body: "" })
      const second = yield* agent.write("task_create", {
        title: "2",
        depends_on: [first.output.task.id],
        parent: first.output.task.id
      })
      yield* agent.write("task_update", {
        id: second.output.task.id,
        expected_version: 1,
        status: "blocked",
        blocked_kind: "external",
        blocked_reason: "Waits: for them"
      })
      const files = yield* save(project_id)
      assert.deepStrictEqual(yield* save(project_id), files)
      assert.deepStrictEqual(Object.keys(files).length, 5)
      assert.deepInclude((yield* bring(project_id, files)).counts, { unchanged: 4, skipped: 1, entries_added: 0 })
      const elsewhere = yield* agentOf
      const { counts } = yield* bring(elsewhere.project_id, files)
      assert.deepInclude(counts, { entries_added: 2, tasks_added: 2 })
      const again = yield* save(elsewhere.project_id)
      assert.strictEqual(Object.keys(again).length, 5)
      const { task } = (yield* elsewhere.call("task_get", { id: second.output.task.id })).output
      assert.deepInclude(task, { parent: first.output.task.id, blocked_reason: "Waits: for them", title: "2" })
    })
  )

  it.effect(
    "an edited file of an export supersedes its entry or updates its task; one that others changed is kept",
    () =>
      Effect.gen(function* () {
        const agent = yield* agentOf
        const { project_id } = agent
        const entry = (yield* agent.write("memory_add", { kind: "note", title: "Port", body: "It is 80." })).output
          .entry
        const task = (yield* agent.write("task_create", { title: "Open it", body: "Soon." })).output.task
        const files = yield* save(project_id)
        const edited = (from: string, to: string) =>
          Object.fromEntries(Object.entries(files).map(([path, text]) => [path, text.replace(from, to)]))
        const once = yield* bring(project_id, edited("It is 80.", "It is 81."))
        assert.deepInclude(once.counts, { entries_superseded: 1, unchanged: 1 })
        assert.deepInclude((yield* bring(project_id, edited("It is 80.", "It is 81."))).counts, { unchanged: 2 })
        assert.deepInclude((yield* bring(project_id, edited("It is 80.", "It is 82."))).counts, {
          entries_superseded: 1
        })
        assert.deepStrictEqual(Object.keys(yield* save(project_id)), Object.keys(files))
        const first = (yield* agent.call("memory_get", { id: entry.id })).output.entry
        assert.deepInclude(first, { active: false, body: "It is 80." })

        const todo = { "tasks/x.md": Object.entries(files).find(([path]) => path.startsWith("tasks/"))![1] }
        const closed = { "tasks/x.md": todo["tasks/x.md"].replace("status: open", "status: done") }
        assert.deepInclude((yield* bring(project_id, closed)).counts, { tasks_updated: 1 })
        assert.deepInclude((yield* agent.call("task_get", { id: task.id })).output.task, { status: "done", version: 2 })
        yield* agent.write("task_update", { id: task.id, expected_version: 2, status: "open", title: "Open it again" })
        assert.deepInclude((yield* bring(project_id, closed)).counts, { kept: 1, tasks_updated: 0 })

        const last = (yield* bring(project_id, edited("It is 80.", "It is 82."))).lines.find(
          ({ is }) => is === "entry"
        )!.id
        yield* agent.write("memory_add", { kind: "note", body: "It is 443.", supersedes: last })
        assert.deepInclude((yield* bring(project_id, edited("It is 80.", "It is 83."))).counts, { kept: 2 })
      })
  )

  it.effect("an edited file begins a task once everything it waits for is done or cancelled", () =>
    Effect.gen(function* () {
      const agent = yield* agentOf
      const { project_id } = agent
      const [one, other] = [yield* agent.task("One"), yield* agent.task("Other")]
      yield* agent.task("Begin", { depends_on: [one.id, other.id] })
      const begun = Effect.gen(function* () {
        const [path, text] = Object.entries(yield* save(project_id)).find(([, text]) => text.includes("Begin"))!
        const { lines } = yield* bring(project_id, { [path]: text.replace("status: open", "status: in_progress") })
        return lines.map(({ done, why }) => [done, why])
      })
      yield* agent.update(one, { status: "cancelled" })
      assert.deepStrictEqual(yield* begun, [["kept", "It waits for tasks that are not done or cancelled"]])
      yield* agent.update(other, { status: "done" })
      assert.deepStrictEqual(yield* begun, [["updated", null]])
    })
  )
})
