/** On every page, the paths it names and the files it links to exist. */
import { assert, describe, it } from "@effect/vitest"
import { existsSync, readdirSync } from "node:fs"
import { dirname, join } from "node:path"
import { markdown as rendered } from "../../src/people/site/docs/Markdown.ts"
import { outline } from "../../src/people/site/docs/Outline.ts"
import { packageRoot } from "../support/run/Root.ts"
import { read, rows, sections } from "../support/run/Markdown.ts"
import { sourceFiles } from "../support/run/Sources.ts"

/** Where README.md has its facts about other systems from. */
const sources = /https:\/\/(?:github\.com|goteleport\.com)\/[\w./-]+/g

const markdown = readdirSync(join(packageRoot, "docs")).filter((name) => name.endsWith(".md"))
const pages = ["README.md", "SECURITY.md", ...markdown.map((name) => `docs/${name}`)].map((page) => ({
  page,
  text: read(page)
}))

describe("every page", () => {
  it.each(pages)("$page names only paths that exist in this repository", ({ page, text }) => {
    const named = [
      ...text.matchAll(/`((?:src|test|cli|scripts|migrations|docs|deploy|bench|examples|packages|plugins)\/[\w./-]*)`/g)
    ].map(([, path]) => path!)
    const inside = page === "README.md" ? text.replaceAll(sources, "#") : text
    const linked = [...inside.matchAll(/\]\(([^)#]+)[^)]*\)|(?:src|srcset)="([^"]+)"/g)].map(([, path, picture]) =>
      join(dirname(page), path ?? picture!)
    )
    for (const path of [...named, ...linked]) {
      if (!path.includes("NNNN")) assert.isTrue(existsSync(join(packageRoot, path)), path)
    }
    assert.notMatch(
      inside,
      /https?:\/\/(?!127\.0\.0\.1|10\.0\.0\.|localhost|bridge\.example\.com|fcm\.googleapis\.com|ntfy\.sh|hooks\.example\.com)/
    )
  })
})

describe("every link between pages", () => {
  const linked = [...pages, ...["CONTRIBUTING.md", "CHANGELOG.md"].map((page) => ({ page, text: read(page) }))]
  const anchors = new Map(
    linked.map(({ page, text }) => {
      const ids = outline(rendered(page, text).text).map(({ id }) => id)
      return [page, new Set(ids)] as const
    })
  )

  it.each(linked)("$page leads to the section that it names", ({ text }) => {
    assert.deepStrictEqual(
      text.match(/"[^"\n]+" in (?:[a-z]+\.md|\[[a-z]+\.md\]\([a-z/]+\.md\))(?!#)|[a-z]+\.md, "[^"\n]+"/g) ?? [],
      []
    )
  })

  it.each(linked)("$page names headings that exist, as GitHub and /docs call them", ({ page, text }) => {
    for (const [, path, id] of text.matchAll(/\]\(([^)#]*)#([^)]+)\)/g)) {
      const to = path === "" ? page : join(dirname(page), path!)
      assert.isTrue(anchors.get(to)?.has(id!), `${to}#${id}`)
    }
  })
})

describe("docs/decisions.md", () => {
  const entries = sections(read("docs/decisions.md"), 3)
  const decisions = [...entries].map(([decision, text]) => ({ decision, text }))

  it("lists the rates that the code has", () => {
    const shown = (perSecond: number, burst: number) => `${perSecond.toFixed(3)} a second, ${burst} at once`
    const listed = rows(entries.get("Rate limits (8)")!).map((row) => {
      const [, count, unit, seconds] = /^(\d+)(?: (a minute|in (\d+) s))?/.exec(row["A second"]!)!
      const period = unit === undefined ? 1 : Number(seconds ?? 60)
      return shown(Number(count) / period, Number(row["At once"]!.replace(",", "")))
    })
    const found = sourceFiles
      .flatMap(({ source }) => [...source.matchAll(/\{ perSecond: (\d+)(?: \/ (\d+))?, burst: (\d+) \}/g)])
      .map(([, count, period = 1, burst]) => shown(Number(count) / Number(period), Number(burst)))
    assert.deepStrictEqual([...new Set(found)].toSorted(), [...new Set(listed)].toSorted())
  })

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
