/**
 * Characters that control a terminal, reorder text or hide it (decisions.md, Characters that are not shown): new text with
 * them is refused, older text is shown escaped. What agents read says that it is data, and who wrote it.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Context, Effect, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { Transfer } from "../../src/agents/transfer/Transfer.ts"
import { notice } from "../../src/agents/continuity/Shapes.ts"
import { escaped, findHidden, withoutHidden } from "../../src/wire/Text.ts"
import { Agent } from "../support/agents/McpAgent.ts"
import { Service } from "../support/service/Service.ts"

/** Nobody needs these in a text, neither in one line nor in several. */
const never: Readonly<Record<string, string>> = {
  ESC: "\u001b[2J",
  BEL: "\u0007",
  DEL: "\u007f",
  CSI: "\u009b31m",
  "a carriage return alone": "safe\rrm -rf /",
  "an override of direction": "\u202egnp.exe",
  "an isolate": "\u2066a\u2069",
  "an invisible operator": "a\u2064b",
  "an annotation": "\ufff9a",
  "tag characters": "\u{e0049}\u{e0067}",
  "unassigned invisible characters": "a\u{e0fff}",
  "bytes as variation selectors": "😀\u{e0148}\u{e0155}\u{e015c}",
  "bits as zero widths": "a\u200b\u200c\u200b\u200b",
  "two bytes as selectors after each letter": withSelectors("Please review the deployment"),
  "a selector after a Latin letter": "a\ufe0f",
  "a selector after a digit without a keycap": "1\ufe0f",
  "a second selector after an emoji": "❤\ufe0f\ufe0e",
  "a second selector after a Han character": "葛\ufe00\u{e0100}",
  "an ideographic selector after an emoji": "❤\u{e0100}",
  "an unregistered selector after an emoji": "❤\ufe03",
  "a Mongolian selector after a Latin letter": "a\u180b",
  "a second Mongolian selector": "ᠠ\u180b\u180c",
  "Hangul fillers": "\u115f\u1160\u3164\uffa0",
  "a filler between letters": "ad\u3164min"
}
/** No line may consist of these alone. */
const invisible: Readonly<Record<string, string>> = {
  "a Hangul choseong filler": "\u115f",
  "a Hangul jungseong filler": "\u1160",
  "a Hangul filler": "\u3164",
  "a halfwidth Hangul filler": "\uffa0",
  "a selector": "\ufe0f",
  "two selectors": "\ufe00\u{e0100}",
  marks: " \u0301 \u034f",
  "blank Braille": "\u2800"
}
/** Ordinary in a text of several lines, but not in a name. */
const onlyInProse: Readonly<Record<string, string>> = {
  "a line break": "a\nb",
  "a Windows line break": "a\r\nb",
  "a tab": "a\tb",
  "a soft hyphen": "Donau\u00addampf",
  "a byte order mark": "\ufeffa",
  "a mark of direction": "שלום\u200f!",
  "a break without width": "ภาษา\u200bไทย",
  "a joiner between Latin letters": "ad\u200dmin",
  "a line separator": "a\u2028b",
  "an Arabic number sign": "\u0600\u0661"
}
const everywhere: Readonly<Record<string, string>> = {
  Persian: "می\u200cخواهم",
  Devanagari: "क्\u200dष",
  Japanese: "葛\u{e0100}飾区",
  "a family": "👩‍❤️‍💋‍👨 👨‍👩‍👧‍👦",
  "an astronaut": "👩🏽‍🚀",
  "a keycap": "1️⃣ #️⃣ *️⃣",
  "a heart": "❤️ ❤︎",
  "a flag": "🏳️‍🌈 🇺🇳",
  "a mathematical variant": "a ∩︀ b",
  Mongolian: "ᠠ\u180b",
  Korean: "한국어"
}

/** The hidden bytes 0 to 239, two after each letter, as U+E0100 to U+E01EF. */
function withSelectors(text: string) {
  return text.replaceAll(/\p{L}/gu, (letter, at: number) =>
    [letter, ...[2 * at, 2 * at + 1].map((byte) => String.fromCodePoint(0xe0100 + byte))].join("")
  )
}

const fields: ReadonlyArray<readonly [tool: string, field: string, given: (text: string) => Record<string, unknown>]> =
  [
    ["memory_add", "title", (title) => ({ kind: "note", body: "b", title })],
    ["memory_add", "session_ref", (session_ref) => ({ kind: "note", body: "b", session_ref })],
    ["memory_add", "body", (body) => ({ kind: "note", body })],
    ["task_create", "title", (title) => ({ title })],
    ["task_create", "body", (body) => ({ title: "t", body })]
  ]
const isProse = (field: string) => field === "body"

describe("a text", () => {
  for (const [name, text] of Object.entries(never)) {
    it(`with ${name} is shown nowhere`, () => {
      assert.isDefined(findHidden(text, "line"))
      assert.isDefined(findHidden(text, "prose"))
    })
  }
  for (const [name, text] of Object.entries(onlyInProse)) {
    it(`with ${name} is shown where there are several lines`, () => {
      assert.isDefined(findHidden(text, "line"))
      assert.isUndefined(findHidden(text, "prose"))
    })
  }
  for (const [name, text] of Object.entries(everywhere)) {
    it(`with ${name} is shown everywhere`, () => {
      assert.isUndefined(findHidden(text, "line"))
      assert.isUndefined(findHidden(text, "prose"))
    })
  }
})

describe("a line", () => {
  for (const [name, text] of Object.entries(invisible)) {
    it(`with ${name} alone is refused`, () => {
      assert.isDefined(findHidden(text, "line"))
    })
  }
  it("shows hidden bytes of an earlier release", () => {
    const escape = String.raw`\\udb40\\udd[0-9a-f]{2}`
    assert.match(escaped(withSelectors("ab"), "line"), new RegExp(`^a(?:${escape}){2}b(?:${escape}){2}$`))
    assert.strictEqual(escaped("\u3164", "line"), String.raw`\u3164`)
  })
  it("without its hidden characters has none", () => {
    const bases = ["a", "!", "1", "葛", "ا", "\u3164"]
    for (const base of bases) {
      for (const selector of ["\ufe0f", "\u{e0100}", "\u3164"]) {
        const left = withoutHidden(`x ${base}${selector}\u200c`)
        assert.isUndefined(findHidden(left, "line"), escaped(left, "line"))
      }
    }
  })
})

layer(Service.layer)("text that agents write", (it) => {
  const agent = Effect.flatMap(Service, (service) => Agent.make(service))

  for (const [tool, field, given] of fields) {
    it.effect(`${tool} refuses characters in ${field} that are not shown, and names the field, not the text`, () =>
      Effect.gen(function* () {
        const a = yield* agent
        for (const [name, text] of Object.entries(isProse(field) ? never : { ...never, ...onlyInProse })) {
          const { code, details, text: answer } = yield* a.write(tool, given(`pelican ${text}`))
          assert.strictEqual(code, "invalid_request", name)
          assert.strictEqual(details.field, field, name)
          assert.notInclude(answer, "pelican", name)
        }
      })
    )
    it.effect(`${tool} keeps in ${field} what languages and emoji need`, () =>
      Effect.gen(function* () {
        const a = yield* agent
        for (const text of Object.values(isProse(field) ? { ...everywhere, ...onlyInProse } : everywhere)) {
          const { output, text: answer } = yield* a.write(tool, given(text))
          const kept = (output?.entry ?? output?.task)?.[field] ?? output?.entry?.provenance[field]
          assert.strictEqual(kept, text.normalize("NFC"), answer)
        }
      })
    )
  }

  it.effect("refuses them in a tag, where a dash would stand for them", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const { code, details } = yield* a.write("memory_add", { kind: "note", body: "x", tags: ["one", "a\u202eb"] })
      assert.deepStrictEqual([code, details.field], ["invalid_request", "tags.1"])
    })
  )

  it.effect("refuses a title without a visible character, and makes none of a body", () =>
    Effect.gen(function* () {
      const a = yield* agent
      for (const [name, title] of Object.entries(invisible)) {
        const { code, details } = yield* a.write("task_create", { title })
        assert.deepStrictEqual([code, details.field], ["invalid_request", "title"], name)
      }
      assert.strictEqual((yield* a.note("\u034f\npelican")).title, "pelican")
      assert.strictEqual((yield* a.note("\u034f")).title, "(blank)")
    })
  )

  it.effect("refuses them in every text of a receipt and in a search", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const task = yield* a.task("T")
      const receipt = { session_ref: "s", worker: "w", outcome: "progress", summary: "s", next_steps: ["n"] }
      for (const change of [{ worker: "a\u200b" }, { summary: "\u001b" }, { next_steps: ["n", "\u202e"] }]) {
        const { code, details } = yield* a.update(task, { receipt: { ...receipt, ...change } })
        const [[name, value]] = Object.entries(change) as unknown as [[string, unknown]]
        const field = `receipt.${name}${Array.isArray(value) ? ".1" : ""}`
        assert.deepStrictEqual([code, details.field], ["invalid_request", field])
      }
      assert.strictEqual((yield* a.call("memory_search", { query: "\u001b" })).details.field, "query")
    })
  )

  it.effect("gives an entry without a title one that may be shown", () =>
    Effect.gen(function* () {
      const entry = yield* (yield* agent).note("\ufeffDonau\u00addampf\tschiff\nand more")
      assert.strictEqual(entry.title, "Donaudampf schiff")
      assert.strictEqual(entry.body, "\ufeffDonau\u00addampf\tschiff\nand more")
    })
  )

  it.effect("is escaped for agents if an earlier release accepted it, and the snapshot keeps its size", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const sql = yield* SqlClient.SqlClient
      const bad = "x\u001b[2J\u009b\u202e\u{e0041}"
      const note = yield* a.note("pelican")
      const task = yield* a.task("T")
      const receipt = { session_ref: "s", worker: "w", outcome: "progress", summary: "s", next_steps: ["n"] }
      yield* a.update(task, { receipt })
      const long = bad.repeat(100)
      yield* sql`update memory_entry set title = ${bad}, body = ${`a\tb\n${long}`} where id = ${note.id}::uuid`
      yield* sql`update task set title = ${bad}, body = ${long} where id = ${task.id}::uuid`
      yield* sql`update receipt set worker = ${bad}, summary = ${long}, next_steps = ${[bad]}::text[]
                  where task_id = ${task.id}::uuid`
      yield* sql`update project set name = ${bad} where project_id = ${a.project_id}::uuid`
      const reads = [
        yield* a.call("memory_get", { id: note.id }),
        yield* a.call("memory_search", { query: "pelican" }),
        yield* a.call("memory_search"),
        yield* a.call("task_get", { id: task.id }),
        yield* a.call("task_list"),
        yield* a.call("continuity_context", { max_bytes: 4096 }),
        yield* a.call("server_identity")
      ]
      const shown = String.raw`x\u001b[2J\u009b\u202e\udb40\udc41`
      for (const { output, text } of reads) {
        assert.isDefined(output, text)
        assert.notMatch(JSON.stringify(output).replaceAll(/\\[nt]/g, ""), /(?<!\\)\\u00|[\p{Cc}\p{Cf}]/u)
        assert.deepStrictEqual(JSON.parse(text), output)
        assert.include(text, JSON.stringify(shown).slice(1, -1))
      }
      assert.include(reads[0]!.output.entry.body, "a\tb\n")
      const snapshot = reads[5]!
      assert.isAtMost(Buffer.byteLength(snapshot.text), 4096)
      assert.strictEqual(snapshot.output.bytes, Buffer.byteLength(snapshot.text))
    })
  )

  it.effect("is imported as an earlier release exported it", () =>
    Effect.gen(function* () {
      const a = yield* agent
      const { services } = yield* Service
      const sql = yield* SqlClient.SqlClient
      const note = yield* a.note("pelican")
      yield* sql`update memory_entry set title = ${"a\u202eb"} where id = ${note.id}::uuid`
      let file = ""
      const transfer = Context.get(services, Transfer)
      const write = (text: string) => Effect.sync(() => void (file += text))
      yield* transfer.save(a.project_id, write)
      const other = yield* agent
      const counts = yield* transfer.load(other.project_id, Stream.make(Buffer.from(file)))
      assert.strictEqual(counts.memory, 1)
      assert.strictEqual((yield* other.call("memory_get", { id: note.id })).output.entry.title, String.raw`a\u202eb`)
    })
  )
})

layer(Service.layer)("what agents read", (it) => {
  it.effect("says that it is data and who wrote it", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const writer = yield* Agent.make(service)
      const reader = yield* Agent.make(service, { project_id: writer.project_id, role: "reader" })
      const editor = yield* Agent.make(service, { project_id: writer.project_id })
      const note = yield* writer.note("pelican")
      const task = yield* writer.task("T")
      const untouched = yield* writer.task("U")
      const receipt = { session_ref: "s", worker: "w", outcome: "progress", summary: "s" }
      yield* editor.update(task, { body: "rewritten", receipt })
      const { actor: author, role } = note.provenance
      const { created_by, updated_by } = (yield* reader.call("task_get", { id: task.id })).output.task
      assert.match(author, /^project_token:/)
      assert.strictEqual(role, "contributor")
      assert.strictEqual(created_by, author)
      assert.match(updated_by, /^project_token:/)
      assert.notStrictEqual(updated_by, author)

      const read = Effect.fnUntraced(function* (tool: string, given = {}) {
        const { output, text } = yield* reader.call(tool, given)
        assert.strictEqual(output.notice, notice, text)
        assert.strictEqual(Object.keys(output)[0], "notice")
        return output
      })
      yield* read("memory_get", { id: note.id })
      yield* read("runtime_bootstrap_get")
      for (const search of [{}, { query: "pelican" }]) {
        assert.deepInclude((yield* read("memory_search", search)).entries[0], { actor: author, role })
      }
      assert.strictEqual((yield* read("task_get", { id: task.id })).receipts[0].actor, updated_by)
      const writers = (tasks: ReadonlyArray<{ readonly id: string; readonly updated_by: string }>) =>
        Object.fromEntries(tasks.map((one) => [one.id, one.updated_by]))
      const expected = { [task.id]: updated_by, [untouched.id]: author }
      assert.deepStrictEqual(writers((yield* read("task_list")).tasks), expected)
      const snapshot = yield* read("continuity_context")
      assert.deepStrictEqual(writers(snapshot.open_tasks), expected)
      assert.deepInclude(snapshot.recent_memory[0], { actor: author, role })
      assert.strictEqual(snapshot.recent_receipts[0].actor, updated_by)
    })
  )

  it.effect("names no writer for a version that an earlier release wrote", () =>
    Effect.gen(function* () {
      const a = yield* Agent.make(yield* Service)
      const sql = yield* SqlClient.SqlClient
      const task = yield* a.task("T")
      yield* a.update(task, { body: "b" })
      yield* sql`update task set updated_by = null where id = ${task.id}::uuid`
      assert.isNull((yield* a.call("task_get", { id: task.id })).output.task.updated_by)
    })
  )
})
