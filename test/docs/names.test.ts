/**
 * What the pages name exists: identifiers in backticks, settings, and the commands with their flags, whichever program they
 * are typed to. And git ignores the files with secrets that the pages have somebody write into a clone.
 */
import { assert, describe, it } from "@effect/vitest"
import { spawnSync } from "node:child_process"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { dirname, extname, join } from "node:path"
import { packageRoot } from "../support/run/Root.ts"
import { blocks, read, rows, sections } from "../support/run/Markdown.ts"
import { commandSources } from "../support/run/Sources.ts"

const pages = ["README.md", "SECURITY.md", "CONTRIBUTING.md"]
  .concat(readdirSync(join(packageRoot, "docs")).map((name) => `docs/${name}`))
  .filter((name) => name.endsWith(".md"))
  .map((page) => ({ page, text: read(page) }))

const isText = (name: string) => !["", ".md", ".webp", ".png"].includes(extname(name)) || name.startsWith("deploy/")
const filesOf = (folder: string) =>
  readdirSync(join(packageRoot, folder), { recursive: folder !== ".", withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(packageRoot.length + 1))
const code = [".", "src", "cli", "migrations", "deploy", "scripts", "test", "bench", "examples", "plugins", ".github"]
  .flatMap(filesOf)
  .filter((name) => isText(name) && name !== "package-lock.json" && name !== "test/docs/names.test.ts")
  .map((name) => readFileSync(join(packageRoot, name), "utf8"))
  .join("\n")
const words = new Set(code.match(/[A-Za-z0-9_-]+/g))

/** Of other programs and standards, or parts of a name. */
const ofOthers = [
  "KillUserProcesses",
  "ReadWritePaths",
  "etcd-client",
  "idle_transaction_timeout",
  "ignore_startup_parameters",
  "in_hot_standby",
  "limit_req",
  "max_prepared_statements",
  "pg_blocking_pids"
]

const inline = (text: string) =>
  [...text.replaceAll(/^ *```[^]*?^ *```/gm, "").matchAll(/`([^`\n]+)`/g)].map(([, inside]) => inside!)
/** Words of several parts, which are names and not English: `task_claim`, `revoke-bridge`, `BridgePushPaused`. */
const compound = /(?<![\w./$-])(?:[a-z][a-z0-9]*(?:[_-][a-z0-9]+)+|[A-Za-z][a-z0-9]+(?:[A-Z][a-z0-9]+)+)(?![\w./$-])/g

describe("every name in backticks", () => {
  it.each(pages)("of $page is in the code", ({ text }) => {
    const named = inline(text).flatMap((inside) => inside.match(compound) ?? [])
    assert.deepStrictEqual(
      [...new Set(named)].filter((name) => !words.has(name) && !ofOthers.includes(name)),
      []
    )
  })
})

describe("every file and section", () => {
  const folders = ["src", "cli"].flatMap(filesOf).filter((name) => name.endsWith("/README.md"))

  it.each(folders)("that %s names is below its folder", (readme) => {
    const below = filesOf(dirname(readme)).map((name) => `/${name}`)
    const named = inline(read(readme)).filter((inside) => /^[\w/]+\.(?:ts|mjs)$/.test(inside))
    assert.deepStrictEqual(
      named.filter(
        (name) =>
          !below.some((file) => file.endsWith(`/${name}`)) &&
          !["", "src"].some((folder) => existsSync(join(packageRoot, folder, name)))
      ),
      []
    )
  })

  it("of a page that a comment in the code or in deploy/ names is there", () => {
    const named = [...code.matchAll(/"([^"\n]+)" in (docs\/\w+\.md)/g)]
    assert.isNotEmpty(named)
    for (const [, title, page] of named) assert.match(read(page!), new RegExp(`^#+ ${title}$`, "m"))
  })
})

const reference = sections(read("docs/reference.md"), 2)

describe("every setting", () => {
  const settings = new Set([
    ...rows(reference.get("Settings")!).map(({ Name }) => Name!),
    // Of the commands: a default project, and where they run.
    ...[...commandSources.matchAll(/"(SERVICE_[A-Z_]+)"/g)].map(([, name]) => name!)
  ])
  const unknownIn = (text: string) =>
    (text.match(/\bSERVICE_[A-Z0-9_]*[A-Z0-9](?!\w|_?[*…])/g) ?? []).filter((name) => !settings.has(name))

  it.each(pages)("of $page exists", ({ text }) => assert.deepStrictEqual(unknownIn(text), []))
  it.each(filesOf("deploy"))("of %s exists", (name) => assert.deepStrictEqual(unknownIn(read(name)), []))
})

describe("every command line", () => {
  const flagsOf = new Map<string, ReadonlyArray<string>>(
    (
      [
        ["service-admin", "Commands"],
        ["bridge", "The reference Bridge"],
        ["bridge-service", "bridge-service"]
      ] as const
    ).flatMap(([program, part]) =>
      rows(reference.get(part)!).map(
        ({ Command, Flags }) => [`${program} ${Command}`, Flags!.match(/--[a-z-]+/g) ?? []] as const
      )
    )
  )
  const everywhere = ["--help", "--json", "--version", "--service", "--operator-token-file", "--profile"]
  /** These begin another program, and show its help. */
  const programs = new Map([
    ["bridge-service admin", "service-admin"],
    ["bridge-service bridge", "bridge"]
  ])

  /** Program and command, and what follows it; undefined if the line is not one of ours. */
  const parsed = (line: string): readonly [command: string, rest: ReadonlyArray<string>] | undefined => {
    const typed = line.replace("npm run -s bridge --", "bridge-service bridge").trim().split(/\s+/)
    const at = typed.findLastIndex((word) => /^(?:.*\/)?(?:service-admin|bridge-service)(?:\.mjs)?$/.test(word))
    if (at < 0)
      return flagsOf.has(`service-admin ${typed[0]}`) && typed[0]!.includes("-")
        ? begin("service-admin", typed)
        : undefined
    const program = typed[at]!.replace(/^.*\//, "").replace(".mjs", "")
    const rest = typed.slice(at + 1)
    const other = programs.get(`${program} ${rest[0]}`)
    return other === undefined ? begin(program, rest) : begin(other, rest.slice(1))
  }
  const begin = (program: string, [command = "", ...rest]: ReadonlyArray<string>) =>
    /^[a-z][a-z-]+$/.test(command) ? ([`${program} ${command}`, rest] as const) : undefined

  it.each(pages)("of $page has a command and flags that exist", ({ text }) => {
    const typed = blocks(text, "sh").flatMap((block) =>
      block.replaceAll(/\\\n/g, " ").replaceAll(/#.*$/gm, "").split("\n")
    )
    const lines = [...typed, ...inline(text)].flatMap((line) => line.split(/\||;|&&|\$\(|\)|<\(/))
    for (const [command, rest] of lines.flatMap((line) => [parsed(line)]).filter((one) => one !== undefined)) {
      const known = flagsOf.get(command)
      if (known === undefined) {
        assert.match(command, /^bridge-service (?:start|hook)$/, command)
        continue
      }
      const own = rest.includes("--") ? rest.slice(0, rest.indexOf("--")) : rest
      for (const flag of own.filter((word) => word.startsWith("--")))
        assert.include([...known, ...everywhere], flag.replace(/=.*/, ""), command)
    }
  })
})

describe("git", () => {
  const written = pages.flatMap(({ text }) =>
    [...text.matchAll(/ --out (?![A-Z$/])([\w./-]+)/g)].map(([, file]) => file!)
  )

  it("ignores each file with a secret that a page has somebody write into a clone", (context) => {
    const { status, stdout } = spawnSync("git", ["check-ignore", "--no-index", "--stdin"], {
      cwd: packageRoot,
      input: [...written, "deploy/.env", "bridge-service.env"].join("\n"),
      encoding: "utf8"
    })
    if (status !== 0 && status !== 1) return context.skip("needs git and a clone")
    const ignored = stdout.split("\n")
    assert.deepStrictEqual(
      written.filter((file) => !ignored.includes(file)),
      []
    )
  })
})
