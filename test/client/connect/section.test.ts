/** The section for agents: files as people have them get it and lose it again byte for byte. */
import { assert, describe, it } from "vitest"
import * as Section from "../../../src/client/connect/Section.ts"
import { tools } from "../../../src/agents/mcp/Tools.ts"
import type { Edited } from "../../../src/client/connect/Edit.ts"

const files: Readonly<Record<string, string>> = {
  "an empty file": "",
  "blank lines": "\n\n",
  "one heading": "# Shop\n",
  "no newline at the end": "# Shop\nRun the tests.",
  "blank lines at the end": "# Shop\n\n\n",
  CRLF: "# Shop\r\n\r\nRun the tests.\r\n",
  "CRLF without newline at the end": "# Shop\r\nRun the tests.",
  "a byte order mark": "\uFEFF# Shop\n",
  "a comment that is not ours": "# Shop\n<!-- begin -->\n",
  "an import": "@AGENTS.md\n"
}

const textOf = (edited: Edited) => {
  assert.notProperty(edited, "why")
  return (edited as { readonly text: string }).text
}

const section = textOf(Section.set(""))
const [begin, end] = [section.split("\n")[0]!, section.split("\n").at(-1)!]

describe("the section", () => {
  it.each(Object.entries(files))("is added to %s, and removed", (_, before) => {
    const after = textOf(Section.set(before))
    const eol = before.includes("\r\n") ? "\r\n" : "\n"
    assert.strictEqual(after.slice(0, before.length), before)
    assert.strictEqual(after.slice(before.length).trim(), section.replaceAll("\n", eol))
    assert.strictEqual(textOf(Section.set(after)), after, "repeatable")
    assert.strictEqual(textOf(Section.remove(after)), before)
  })

  it("of an older release is replaced where it stands", () => {
    const before = `# Shop\n\n${begin}\nOld text.\n${end}\n\n# More\n`
    const after = textOf(Section.set(before))
    assert.strictEqual(after, `# Shop\n\n${section}\n\n# More\n`)
    assert.strictEqual(textOf(Section.remove(after)), "# Shop\n\n# More\n")
  })

  it("is all that its own file holds, so that removing it deletes the file", () => {
    assert.deepStrictEqual(Section.remove(`${section}\n`), { text: null })
    assert.deepStrictEqual(Section.remove("# Shop\n"), { text: "# Shop\n" })
  })

  it.each([
    ["without an end", `# Shop\n${begin}\nOld`, 2],
    ["without a beginning", `# Shop\n\n${end}\n`, 3],
    ["twice", `${section}\n${section}\n`, 1],
    ["back to front", `${end}\n${begin}\n`, 1]
  ])("%s is refused", (_, text, line) => {
    const why = `has markers of the section from line ${line} on that are not one beginning and one end`
    assert.deepStrictEqual(Section.set(text), { why })
    assert.deepStrictEqual(Section.remove(text), { why })
  })

  it("has at most 30 lines and names only tools and words of the service", () => {
    assert.isAtMost(section.split("\n").length, 30)
    const known = JSON.stringify(
      Object.entries(tools).map(([name, { input, output }]) => [name, input.ast, output.ast])
    )
    const words = [...section.matchAll(/`([a-z_]+)`/g)].map(([, word]) => word!)
    assert.isAbove(words.length, 15)
    const unknown = words.filter((word) => !known.includes(`"${word}"`) && !["task_claimed"].includes(word))
    assert.deepStrictEqual(unknown, [])
  })
})
