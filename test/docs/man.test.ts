/** The manual pages of the packages: they name every command with its flags, and a formatter finds nothing to warn of. */
import { spawnSync } from "node:child_process"
import { assert, describe, it } from "vitest"
import { manualPages } from "../../cli/man.ts"
import { read, rows, sections } from "../support/run/Markdown.ts"

const pages = new Map(await manualPages())
const parts = sections(read("docs/reference.md"), 2)

/** The text without the marks of roff. */
const plain = (page: string) =>
  page
    .replaceAll(/^\.\w+ ?/gm, "")
    .replaceAll("\\-", "-")
    .replaceAll("\\(aq", "'")

const has = (program: string) => spawnSync(program, ["--version"]).error === undefined
const formatter = has("mandoc")
  ? (["mandoc", "-T", "lint", "-W", "error"] as const)
  : has("groff")
    ? (["groff", "-man", "-ww", "-z"] as const)
    : undefined

describe.each([
  ["service-admin", "service-admin.1", "Commands"],
  ["bridge-service", "bridge-service.1", "bridge-service"],
  ["bridge-service bridge", "bridge-service-bridge.1", "The reference Bridge"]
] as const)("the manual page of %s", (program, name, part) => {
  const page = pages.get(name)!

  it("has every command with its flags, in the order of --help", () => {
    const [, ...commands] = plain(page).split(new RegExp(`^${program} (?=[a-z]+)`, "m"))
    const documented = rows(parts.get(part)!)
    assert.deepStrictEqual(
      commands.map((command) => /^[\w-]+/.exec(command)?.[0]),
      documented.map(({ Command }) => Command)
    )
    for (const [at, { Flags }] of documented.entries())
      for (const [flag] of Flags!.matchAll(/--[a-z-]+/g)) assert.include(commands[at], `\n${flag}`)
  })

  it.skipIf(formatter === undefined)("is formatted without a warning (needs mandoc or groff)", () => {
    const [command, ...args] = formatter!
    const { stderr, stdout } = spawnSync(command, args, { input: page, encoding: "utf8" })
    assert.strictEqual(stdout + stderr, "")
  })
})
