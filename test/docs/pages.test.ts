/** On every page, the paths it names and the files it links to exist. */
import { assert, describe, it } from "@effect/vitest"
import { existsSync, readdirSync } from "node:fs"
import { dirname, join } from "node:path"
import { packageRoot } from "../support/run/Root.ts"
import { read, sections } from "../support/run/Markdown.ts"

const markdown = readdirSync(join(packageRoot, "docs")).filter((name) => name.endsWith(".md"))
const pages = ["README.md", "SECURITY.md", ...markdown.map((name) => `docs/${name}`)].map((page) => ({
  page,
  text: read(page)
}))

describe("every page", () => {
  it.each(pages)("$page names only paths that exist in this repository", ({ page, text }) => {
    const named = [...text.matchAll(/`((?:src|test|cli|scripts|migrations|docs|deploy)\/[\w./-]*)`/g)].map(
      ([, path]) => path!
    )
    const linked = [...text.matchAll(/\]\(([^)#]+)[^)]*\)/g)].map(([, path]) => join(dirname(page), path!))
    for (const path of [...named, ...linked]) {
      if (!path.includes("NNNN")) assert.isTrue(existsSync(join(packageRoot, path)), path)
    }
    assert.notMatch(
      text,
      /https?:\/\/(?!127\.0\.0\.1|bridge\.example\.com|fcm\.googleapis\.com|ntfy\.sh|hooks\.example\.com)/
    )
  })
})

describe("docs/decisions.md", () => {
  const decisions = [...sections(read("docs/decisions.md"), 3)].map(([decision, text]) => ({ decision, text }))

  it.each(decisions)("gives its reason, and at most one trigger for changing it: $decision", ({ text }) => {
    const [reason = "", ...triggers] = text.trim().split(/^(?=Would change it)/m)
    assert.match(reason.trim(), /\S\.$/)
    assert.isAtMost(triggers.length, 1)
    for (const trigger of triggers) {
      assert.match(trigger.trim(), /^Would change it: \S.+\.$/)
      assert.notInclude(trigger, "nothing known")
    }
  })
})
