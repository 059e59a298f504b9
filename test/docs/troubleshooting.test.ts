/** Every message and code in docs/troubleshooting.md is one that the code prints or answers; every term of the glossary is defined once. */
import { assert, describe, it } from "@effect/vitest"
import { readdirSync } from "node:fs"
import { join } from "node:path"
import { packageRoot } from "../support/run/Root.ts"
import { read, rows } from "../support/run/Markdown.ts"

const sources = ["src", "cli"]
  .flatMap((folder) =>
    readdirSync(join(packageRoot, folder), { recursive: true, encoding: "utf8" }).map((name) => `${folder}/${name}`)
  )
  .filter((name) => /\.(ts|mjs)$/.test(name))
  .map(read)

/** What the system says, not the service. */
const ofNode = ["EADDRINUSE"]

const symptoms = rows(read("docs/troubleshooting.md")).map((row) => row["You see"]!)
const quoted = symptoms.filter((symptom) => read("docs/troubleshooting.md").includes(`| \`${symptom}\` |`))

describe("docs/troubleshooting.md", () => {
  it.each(quoted.filter((one) => !ofNode.includes(one)))("quotes what the code says: %s", (message) => {
    const parts = message.split("…").map((part) => part.trim())
    const isSaid = sources.some((source) => {
      let at = 0
      return parts.every((part) => {
        const found = source.indexOf(part, at)
        at = found + part.length
        return found >= 0
      })
    })
    assert.isTrue(isSaid, message)
  })

  it("describes every symptom once, with its cause and what to do", () => {
    assert.isAbove(quoted.length, 40)
    for (const row of rows(read("docs/troubleshooting.md"))) {
      assert.isNotEmpty(row["Because"], row["You see"])
      assert.isNotEmpty(row["Do"], row["You see"])
    }
    assert.strictEqual(new Set(symptoms).size, symptoms.length)
  })
})

describe("docs/glossary.md", () => {
  it("has each word once, in alphabetical order", () => {
    const words = rows(read("docs/glossary.md")).map(({ Word }) => Word!)
    assert.isAbove(words.length, 30)
    assert.deepStrictEqual(
      words,
      words.toSorted((one, other) => one.localeCompare(other, "en"))
    )
  })
})
