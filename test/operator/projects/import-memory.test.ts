/** `import-memory` and `export-project --format markdown` as an operator runs them, on files as other programs write them. */
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js"
import { Effect } from "effect"
import fs, {
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync
} from "node:fs"
import { syncBuiltinESMExports } from "node:module"
import { dirname, join } from "node:path"
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest"
import { sourceFiles } from "../../../cli/support/files/SourceFiles.ts"
import { packageRoot } from "../../support/run/Root.ts"
import { refusal, result, startService, type TestService } from "../../support/service/ServiceAdmin.ts"

let service: TestService
let project = ""

const run = (...args: ReadonlyArray<string>) => service.on("service").run(...args)
const json = (...args: ReadonlyArray<string>) => run(...args, "--json")
const query = (text: string, values: ReadonlyArray<unknown> = []) => service.query("service", text, values)
const bring = (from: string, path: string, ...more: ReadonlyArray<string>) =>
  json("import-memory", "--project", project, "--from", from, ...more, path)

let folders = 0
const folder = (files: Readonly<Record<string, string>> = {}) => {
  const root = join(service.folder, `source-${folders++}`)
  mkdirSync(root)
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, name)), { recursive: true })
    writeFileSync(join(root, name), text)
  }
  return root
}

beforeAll(async () => {
  service = await startService()
  const created = result(await json("create-project", "--name", "Shop"))
  project = (created as { project_id: string }).project_id
})
afterAll(() => service.stop())

/** What an import reports when every item of the source was imported before. */
const nothingNew = {
  entries_added: 0,
  entries_superseded: 0,
  entries_archived: 0,
  tasks_added: 0,
  tasks_updated: 0,
  notes_added: 0,
  kept: 0
}

describe("import-memory", () => {
  it("imports what server-memory has written, and a second time nothing", async () => {
    const root = folder()
    const file = join(root, "memory.jsonl")
    const transport = new StdioClientTransport({
      command: process.execPath,
      args: [join(packageRoot, "node_modules/@modelcontextprotocol/server-memory/dist/index.js")],
      env: { MEMORY_FILE_PATH: file },
      stderr: "ignore"
    })
    const client = new Client({ name: "test", version: "1" })
    await client.connect(transport)
    try {
      const entities = [
        { name: "Ann", entityType: "Person", observations: ["Prefers “tabs”", "Line one\nline two"] },
        { name: "Shop", entityType: "Project", observations: [] }
      ]
      await client.callTool({ name: "create_entities", arguments: { entities } })
      const relations = [{ from: "Ann", to: "Shop", relationType: "works on" }]
      await client.callTool({ name: "create_relations", arguments: { relations } })
    } finally {
      await client.close()
    }
    expect(result(await bring("server-memory", root))).toMatchObject({ entries_added: 2, dry_run: false, items: [] })
    const [ann] = await query("select title, tags, body from memory_entry where project_id = $1 and title = 'Ann'", [
      project
    ])
    expect(ann).toEqual({
      title: "Ann",
      tags: ["person"],
      body: "- Prefers “tabs”\n- Line one\n  line two\n- works on: Shop"
    })
    expect(result(await bring("server-memory", file))).toMatchObject({ ...nothingNew, unchanged: 2, items: [] })
  })

  it("imports the notes of a repository, leaves out links within it, and says before what becomes of what", async () => {
    const root = folder({
      "AGENTS.md": "# Agents\n\nUse tabs.\n",
      "docs/setup.md": "# Setup\n\nRun it.\n",
      "node_modules/x/README.md": "# X\n",
      ".git/x.md": "# X\n",
      "src/main.ts": "main()\n"
    })
    symlinkSync("AGENTS.md", join(root, "CLAUDE.md"))
    const tried = await run("import-memory", "--project", project, "--from", "markdown", "--dry-run", root)
    expect(tried).toMatchObject({ code: 0, stderr: "" })
    expect(tried.stdout).toMatch(/^added +entry +\S+ +AGENTS\.md:1 +Agents/m)
    expect(tried.stdout).toMatch(/^entries_added +2$/m)
    const imported = result(await bring("markdown", root))
    expect(imported).toMatchObject({ entries_added: 2, label: `source-${folders - 1}` })
    const [row] = await query(
      "select subject from audit_event where action = 'memory.imported' order by event_id desc limit 1"
    )
    expect(row).toMatchObject({ subject: { from: "markdown", entries_added: 2 } })
  })

  it("finds the issues of beads in a repository, and says where a line is wrong", async () => {
    const issue = (id: string) => `{"id":"${id}","title":"${id}","status":"open","priority":2}\n`
    const root = folder({ ".beads/issues.jsonl": issue("bd-1") + issue("bd-2") })
    expect(result(await bring("beads", root))).toMatchObject({ tasks_added: 2, label: `source-${folders - 1}` })
    writeFileSync(join(root, ".beads/issues.jsonl"), `${issue("bd-3")}{"id":"bd-4"}\n`)
    const ended = await bring("beads", root)
    expect(refusal(ended)).toEqual([1, "import_invalid"])
    expect(JSON.parse(ended.stderr).error.message).toBe(
      ".beads/issues.jsonl, line 2: title: Is required. Nothing was imported."
    )
    expect(await query("select 1 from task where project_id = $1 and title = 'bd-3'", [project])).toEqual([])
  })

  it.each([
    ["a link that leads out", (root: string) => symlinkSync("/etc/hostname", join(root, "b.md")), "leads out of"],
    ["a folder that leads out", (root: string) => symlinkSync("/etc", join(root, "b")), "leads out of"],
    ["a link that leads nowhere", (root: string) => symlinkSync("b.md", join(root, "b.md")), "leads nowhere"],
    ["a note of 100 MB", (root: string) => sparse(join(root, "b.md"), 100e6), "more than 1 MiB"],
    [
      "too much altogether",
      (root: string) => Array.from({ length: 65 }, (_, n) => sparse(join(root, `${n}.md`), 2 ** 20)),
      "64 MiB"
    ],
    ["folders without end", (root: string) => mkdirSync(join(root, "x/".repeat(40)), { recursive: true }), "32 folders"]
  ])("refuses a folder with %s, and imports nothing of it", async (_, plant, message) => {
    const root = folder({ "a.md": "# Hostile\n" })
    plant(root)
    const ended = await bring("markdown", root)
    expect(refusal(ended)).toEqual([1, "file_error"])
    expect(JSON.parse(ended.stderr).error.message).toContain(message)
    expect(await query("select 1 from memory_entry where title = 'Hostile'")).toEqual([])
  })

  it("refuses a folder of more than 50,000 notes", async () => {
    const root = folder({ "a.md": "# A\n" })
    // It takes seconds to write so many.
    const notes = Array(50_001).fill(readdirSync(root, { withFileTypes: true })[0])
    const listing = vi.spyOn(fs, "readdirSync").mockReturnValue(notes as never)
    syncBuiltinESMExports()
    const refused = await Effect.runPromise(Effect.flip(sourceFiles(root, "markdown"))).finally(() => {
      listing.mockRestore()
      syncBuiltinESMExports()
    })
    expect(refused.message).toBe(`${root} has more than 50000 notes.`)
  })

  it("refuses issues behind a link that leads out, and reads them behind one that does not", async () => {
    const root = folder({ "issues/issues.jsonl": `{"id":"bd-8","title":"Behind a link"}\n` })
    // Its name begins like the folder's.
    const elsewhere = `${root}-elsewhere`
    mkdirSync(elsewhere)
    writeFileSync(join(elsewhere, "issues.jsonl"), `{"id":"bd-9","title":"Hostile"}\n`)
    symlinkSync(elsewhere, join(root, ".beads"))
    const ended = await bring("beads", root)
    expect(refusal(ended)).toEqual([1, "file_error"])
    expect(JSON.parse(ended.stderr).error.message).toBe(
      `.beads/issues.jsonl is a link that leads out of ${realpathSync(root)}; remove it. Nothing was imported.`
    )
    rmSync(join(root, ".beads"))
    symlinkSync("issues", join(root, ".beads"))
    expect(result(await bring("beads", root, "--dry-run"))).toMatchObject({ tasks_added: 1 })
  })

  it("refuses a folder without the file, and one that is not there", async () => {
    expect(refusal(await bring("beads", folder()))).toEqual([1, "file_error"])
    expect(refusal(await bring("markdown", join(service.folder, "nowhere")))).toEqual([1, "file_error"])
  })
})

const sparse = (path: string, bytes: number) => {
  writeFileSync(path, "")
  truncateSync(path, bytes)
}

describe("export-project --format markdown", () => {
  it("writes a folder that import-memory reads again, into a repository, too", async () => {
    const out = folder({ ".git/HEAD": "ref: refs/heads/main\n" })
    const exported = result(await json("export-project", "--project", project, "--format", "markdown", "--out", out))
    expect(exported).toMatchObject({ file: out, memory: 4, task: 2 })
    expect(readdirSync(out).toSorted()).toEqual([".git", "README.md", "memory", "tasks"])
    expect(result(await bring("markdown", out))).toMatchObject({ ...nothingNew, unchanged: 6, skipped: 1 })
    const notes = join(out, "memory/notes")
    const setup = join(
      notes,
      readdirSync(notes).find((name) => name.startsWith("setup-"))!
    )
    expect(statSync(setup).mode & 0o777).toBe(0o600)
    writeFileSync(setup, readFileSync(setup, "utf8").replace("Run it.", "Run it twice."))
    expect(result(await bring("markdown", out))).toMatchObject({ entries_superseded: 1, unchanged: 5 })
  })

  it("refuses a folder with files in it, and leaves nothing behind without its audit row", async () => {
    const full = folder({ "mine.txt": "x" })
    const args = ["export-project", "--project", project, "--format", "markdown", "--out"]
    expect(refusal(await json(...args, full))).toEqual([1, "file_error"])
    expect(readdirSync(full)).toEqual(["mine.txt"])
    const out = join(service.folder, "new")
    await query("alter table audit_event rename to hidden")
    try {
      expect(refusal(await json(...args, out))).toEqual([75, "bridge_persistence_error"])
    } finally {
      await query("alter table hidden rename to audit_event")
    }
    expect(() => readdirSync(out)).toThrow("ENOENT")
  })
})
