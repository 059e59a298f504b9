/** What holds for every page: the paths it names exist, and its links lead somewhere. */
import { assert, describe, it } from "@effect/vitest"
import { existsSync, readdirSync } from "node:fs"
import { dirname, join } from "node:path"
import { packageRoot } from "../../src/platform/settings/Package.ts"
import { read, rows, sections } from "../support/run/Markdown.ts"

const markdown = readdirSync(join(packageRoot, "docs")).filter((name) => name.endsWith(".md"))
const pages = ["README.md", "SECURITY.md", ...markdown.map((name) => `docs/${name}`)].map((page) => ({
  page,
  text: read(page)
}))

describe("every page", () => {
  it.each(pages)("$page names paths that exist, in this repository only", ({ page, text }) => {
    const named = [...text.matchAll(/`((?:src|test|cli|scripts|migrations|docs|deploy)\/[\w./-]*)`/g)].map(
      ([, path]) => path!
    )
    const linked = [...text.matchAll(/\]\(([^)#]+)[^)]*\)/g)].map(([, path]) => join(dirname(page), path!))
    for (const path of [...named, ...linked]) {
      if (!path.includes("NNNN")) assert.isTrue(existsSync(join(packageRoot, path)), path)
    }
    assert.notMatch(text, /https?:\/\/(?!127\.0\.0\.1|bridge\.example\.com)/)
  })
})

describe("docs/decisions.md", () => {
  const decisions = [...sections(read("docs/decisions.md"), 3)].map(([decision, text]) => ({ decision, text }))

  it.each(decisions)("says what would change: $decision", ({ text }) => {
    assert.match(text, /^Would change it: .+\.$/m)
  })
})

describe("docs/architecture.md", () => {
  it("shows who may use whom, as the linter does", () => {
    const rules = [...read("scripts/layers.mjs").matchAll(/^ {2}(\w+): \[(.*)\],?$/gm)].filter(([, domain]) =>
      existsSync(join(packageRoot, "src", domain!))
    )
    const documented = rows(read("docs/architecture.md")).filter((row) => row["May use"] !== undefined)
    assert.sameMembers(
      documented.map((row) => `${row["Domain"]}: ${row["May use"]}`),
      rules.map(([, domain, others]) => `${domain}: ${others!.replaceAll('"', "")}`)
    )
  })
})
