/** For each promise, docs/security.md names files and tests that exist. */
import { assert, describe, it } from "@effect/vitest"
import { existsSync } from "node:fs"
import { join } from "node:path"
import { packageRoot } from "../support/run/Root.ts"
import { read, rows, sections } from "../support/run/Markdown.ts"

const invariants = [...sections(sections(read("docs/security.md"), 2).get("What holds")!, 3)].map(
  ([sentence, text]) => ({ sentence, text })
)

describe("docs/security.md", () => {
  it.each(invariants)("$sentence", ({ text }) => {
    const [, enforced = "", checked = ""] = /^Enforced by ([^]*); checked by ([^]*)\.$/m.exec(text) ?? []
    assert.match(enforced, /`.+`/)
    const paths = [...`${enforced} ${checked}`.matchAll(/`(\w+\/.+?)`/g)].map(([, path]) => path!)
    for (const path of paths) assert.isTrue(existsSync(join(packageRoot, path)), path)

    const tests = [...checked.matchAll(/`(test\/.+?)`/g)].map(([, path]) => read(path!))
    assert.isNotEmpty(tests)
    for (const [, name] of checked.matchAll(/"(.+?)"/g))
      assert.isTrue(
        tests.some((test) => test.includes(name!)),
        name
      )
  })

  const requirements = rows(sections(read("docs/security.md"), 2).get("ASVS 5.0")!).map((row) => ({
    requirement: row["Requirement"]!,
    checked: row["Checked by"]!
  }))

  it.each(requirements)("ASVS $requirement is checked by tests that exist", ({ checked }) => {
    const named = [...checked.matchAll(/`(test\/.+?)`: ((?:"[^"]+"(?:, )?)+)/g)]
    assert.isNotEmpty(named)
    for (const [, path, names] of named)
      for (const [, name] of names!.matchAll(/"(.+?)"/g)) assert.include(read(path!), name!)
  })

  it("has more than ten promises", () => assert.isAbove(invariants.length, 10))
})
