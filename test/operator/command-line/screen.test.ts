/** What service-admin shows on a terminal. Without one, its output is what scripts have always read. */
import { assert, describe, it } from "@effect/vitest"
import { Context, Option } from "effect"
import { helpOf, typedAs } from "../../../cli/support/help.ts"
import { facts, printed, table } from "../../../cli/support/terminal/Print.ts"

const now = Date.parse("2026-11-24T12:00:00Z")
const at = (hours: number) => new Date(now + hours * 3_600_000)
const terminal = (columns: number, isColoured = false) => ({ columns, now, isColoured })

const id = "0f000000-0000-7000-8000-00000000000"
const items = [
  { task_id: `${id}1`, status: "active", ended_at: null, created_at: at(-5), title: "Mend the crane that squeaks" },
  { task_id: `${id}2`, status: "revoked", ended_at: null, created_at: at(72), title: "港のクレーン\u001B[2J" }
]
const columns = ["task_id", "status", "ended_at", "created_at", "title"] as const
const shown = (...on: Parameters<typeof terminal>) => printed(table(items, columns, ""), terminal(...on)).split("\n")

describe("a table on a terminal", () => {
  it("has relative times, and no column without a value", () => {
    assert.deepStrictEqual(shown(120), [
      "task_id                               status   created_at  title",
      `${id}1  active   5 h ago     Mend the crane that squeaks`,
      `${id}2  revoked  in 3 d      港のクレーン\\u001b[2J`
    ])
  })
  it("is as narrow as the terminal: text is cut, ids never", () => {
    assert.deepStrictEqual(shown(74), [
      "task_id                               status   created_at  title",
      `${id}1  active   5 h ago     Mend the crane…`,
      `${id}2  revoked  in 3 d      港のクレーン\\u…`
    ])
  })
  it("never cuts an audit action, which --action takes", () => {
    const action = "bridge.rotation_prepared_elsewhere"
    const events = [
      { at: at(-1), action, outcome: "refused", code: "c".repeat(30), actor: "a".repeat(60), subject: {} }
    ]
    const columns = ["at", "action", "outcome", "code", "actor", "subject"] as const
    assert.include(printed(table(events, columns, ""), terminal(80)), action)
  })
  it("gives each item lines of its own if it cannot be that narrow", () => {
    const [first] = printed(table(items, columns, ""), terminal(40)).split("\n\n")
    assert.strictEqual(
      first,
      `task_id     ${id}1\nstatus      active\ncreated_at  5 h ago\ntitle       Mend the crane that squeaks`
    )
  })
  it("is coloured only if the terminal wants that", () => {
    assert.include(shown(120, true)[1], "\u001B[32mactive\u001B[0m")
    assert.include(shown(120, true)[2], "\\u001b[2J")
    assert.notInclude(shown(120).join(), "\u001B")
  })
  it("says nothing of columns if there is nothing", () => {
    assert.strictEqual(printed(table([], ["id"] as never, "There are none."), terminal(80)), "There are none.")
  })
})

describe("without a terminal", () => {
  it("a table has every column, full times and lines of any length", () => {
    assert.deepStrictEqual(printed(table(items, columns, ""), undefined).split("\n"), [
      "task_id                               status   ended_at  created_at                title",
      `${id}1  active   -         2026-11-24T07:00:00.000Z  Mend the crane that squeaks`,
      `${id}2  revoked  -         2026-11-27T12:00:00.000Z  港のクレーン\\u001b[2J`
    ])
  })
})

describe("text of strangers", () => {
  it("shows what would leave no mark, turn the line around or control the terminal", () => {
    const given = "a\u3164b\u00adc\u202ed\u2028e\u2029f\u009bg"
    assert.strictEqual(printed([given], undefined), "a\\u3164b\\u00adc\\u202ed\\u2028e\\u2029f\\u009bg")
  })
})

describe("a record", () => {
  it("has full times, on a terminal also relative ones", () => {
    const record = facts({ bridge_id: "b", expires_at: at(23) })
    assert.strictEqual(printed(record, terminal(80)), "bridge_id   b\nexpires_at  2026-11-25T11:00:00.000Z (in 23 h)")
    assert.strictEqual(printed(record, undefined), "bridge_id   b\nexpires_at  2026-11-25T11:00:00.000Z")
  })
  it("spells an object out on a terminal", () => {
    const record = facts({ key: { since: at(0), rotation_required: false, pending: null } })
    assert.strictEqual(
      printed(record, terminal(80)),
      "key  since=2026-11-24T12:00:00.000Z rotation_required=false pending=-"
    )
  })
})

describe("--help", () => {
  const flag = (name: string, type: string, description: string, more: object = {}) => ({
    name,
    type,
    description: Option.some(description),
    aliases: [],
    required: false,
    ...more
  })
  const [half, rest] = ["x".repeat(34), "y".repeat(33)]
  const doc: Parameters<typeof helpOf>[0] = {
    description: `${"a".repeat(49)} ${"b".repeat(48)} c`,
    usage: "",
    annotations: Context.empty(),
    commandPath: ["service-admin", "revoke"],
    flags: [
      flag("bridge", "BRIDGE", "Its name", { aliases: ["-b"], required: true }),
      flag("state", "choice", "Only those (choices: open, done)"),
      flag("quiet", "boolean", `${half} ${rest} z`),
      flag("a-flag-with-a-name-too-long", "N", "Its number")
    ],
    args: [{ name: "file", type: "string", description: Option.none(), required: true, variadic: true }]
  }

  it("stands in columns of 100 characters, long names on lines of their own, what is needed in the usage", () => {
    assert.deepStrictEqual(helpOf(doc).split("\n"), [
      "DESCRIPTION",
      `  ${"a".repeat(49)} ${"b".repeat(48)}`,
      "  c",
      "",
      "USAGE",
      "  service-admin revoke --bridge BRIDGE [flags] FILE...",
      "",
      "ARGUMENTS",
      "  FILE...",
      "",
      "FLAGS",
      "  --bridge, -b BRIDGE           Its name (required)",
      "  --state open|done             Only those",
      `  --quiet                       ${half} ${rest}`,
      "                                z",
      "  --a-flag-with-a-name-too-long N",
      "                                Its number"
    ])
  })

  it("names the program by which the command is called", () => {
    assert.deepStrictEqual([["service-admin", "status"], ["bridge", "run"], ["bridge-service"]].map(typedAs), [
      "service-admin status",
      "bridge-service bridge run",
      "bridge-service"
    ])
  })
})
