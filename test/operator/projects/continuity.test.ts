/** The operator's commands for documents, memory, and export and import of projects. */
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { hasGit, repositoryIn } from "../../support/agents/Repository.ts"
import { refusal, result, startService, type TestService } from "../../support/service/ServiceAdmin.ts"

const nobody = "00000000-0000-4000-8000-000000000000"

let service: TestService
let [from, to] = ["", ""]

const json = (...args: ReadonlyArray<string>) => service.on("service").run(...args, "--json")
const query = (text: string, values: ReadonlyArray<unknown> = []) => service.query("service", text, values)
const createProject = async (name: string) =>
  (result(await json("create-project", "--name", name)) as { project_id: string }).project_id

const ids = {
  old: "01900000-0000-7000-8000-000000000001",
  new: "01900000-0000-7000-8000-000000000002",
  first: "01900000-0000-7000-8000-000000000003",
  second: "01900000-0000-7000-8000-000000000004",
  receipt: "01900000-0000-7000-8000-000000000005"
}
const at = "2026-11-21T12:00:00.123+00:00"

const rows = [
  {
    memory: {
      id: ids.old,
      kind: "note",
      title: "Old",
      body: "old port",
      tags: [],
      active: false,
      supersedes: null,
      superseded_by: ids.new,
      superseded_at: at,
      actor: "project_token:x",
      role: "contributor",
      session_ref: null,
      task_id: null,
      source: "import",
      created_at: at
    }
  },
  {
    memory: {
      id: ids.new,
      kind: "decision",
      title: "New",
      body: "new ports\n猫",
      tags: ["net"],
      active: true,
      supersedes: ids.old,
      superseded_by: null,
      superseded_at: null,
      actor: "project_token:x",
      role: "contributor",
      session_ref: "s",
      task_id: ids.first,
      source: "import",
      created_at: at
    }
  },
  ...[ids.first, ids.second].map((id) => ({
    task: {
      id,
      title: "T",
      body: "",
      status: "open",
      priority: 2,
      tags: ["a"],
      assignee: null,
      claimed_at: null,
      version: 3,
      blocked_reason: null,
      blocked_kind: null,
      created_by: "x",
      created_at: at,
      updated_at: at,
      closed_at: null
    }
  })),
  { dependency: { task_id: ids.second, depends_on: ids.first } },
  {
    receipt: {
      id: ids.receipt,
      task_id: ids.first,
      session_ref: "s",
      worker: "w",
      thread: null,
      outcome: "handoff",
      summary: "x",
      next_steps: ["y"],
      pitfalls: [],
      task_version_after: 2,
      task_status_after: "open",
      git_checkpoint: { repository: "r", branch: "b", commit_sha: "0".repeat(40), dirty: false },
      actor: "project_token:x",
      created_at: at
    }
  }
]
const end = { counts: { memory: 2, task: 2, dependency: 1, receipt: 1, note: 0 } }
const header = { export: "bridge-service project", project: { id: nobody, name: "Elsewhere" }, created_at: at }
const file = (name: string, lines: ReadonlyArray<unknown>) => {
  const path = join(service.folder, name)
  writeFileSync(path, lines.map((line) => `${typeof line === "string" ? line : JSON.stringify(line)}\n`).join(""))
  return path
}

beforeAll(async () => {
  service = await startService()
  from = await createProject("From")
  to = await createProject("To")
})
afterAll(() => service.stop())

const counts = (memory: number, task: number, dependency: number, receipt: number) => ({
  memory,
  task,
  dependency,
  receipt,
  note: 0
})

/** What tasks of the file's release do not have. */
const since = {
  parent: null,
  updated_by: null,
  claimed_by: null,
  choices: null,
  asked_by: null,
  answer: null,
  answered_by: null,
  answer_entry_id: null
}

describe("export and import", () => {
  it("an import adds what the project lacks, and repeating it adds nothing", async () => {
    const path = file("in.jsonl", [header, ...rows, end])
    const first = result(await json("import-project", "--project", from, "--in", path))
    expect(first).toEqual({ project_id: from, ...counts(2, 2, 1, 1) })
    const again = result(await json("import-project", "--project", from, "--in", path))
    expect(again).toEqual({ project_id: from, ...counts(0, 0, 0, 0) })
  })
  it("an export equals what was imported, and can be imported into another project", async () => {
    const out = join(service.folder, "out.jsonl")
    expect(result(await json("export-project", "--project", from, "--out", out))).toMatchObject(counts(2, 2, 1, 1))
    const [first, ...exported] = readFileSync(out, "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line))
    expect(first).toMatchObject({ export: "bridge-service project", project: { id: from, name: "From" } })
    const written = rows.map((row) => ("task" in row ? { task: { ...row.task, ...since } } : row))
    expect(exported).toEqual([...written, end])
    expect(result(await json("import-project", "--project", to, "--in", out))).toMatchObject(counts(2, 2, 1, 1))
  })
  it("imported entries are indexed for search, superseded ones are not", async () => {
    const found = await query(
      "select distinct entry_id from memory_posting where project_id = $1 and lexeme = 'port'",
      [to]
    )
    expect(found).toEqual([{ entry_id: ids.new }])
  })
  it.each([
    ["without a header", [rows[0]], 1],
    ["with a row that lacks a field", [header, rows[0], { task: { id: ids.first } }], 3],
    ["that is truncated", [header, ...rows.slice(0, 2)], 4],
    ["that is empty", [], 1]
  ])("a file %s is refused, and nothing is imported", async (name, lines, line) => {
    const project = await createProject("Empty")
    const ended = await json("import-project", "--project", project, "--in", file(`bad ${name}`, lines))
    expect(refusal(ended)).toEqual([1, "import_invalid"])
    expect(ended.stderr).toContain(`Line ${line} `)
    expect(await query("select 1 from memory_entry where project_id = $1", [project])).toEqual([])
  })
  it("archive-memory removes an entry from the search index", async () => {
    expect(result(await json("archive-memory", "--project", to, "--entry", ids.new))).toMatchObject({ active: false })
    expect(await query("select 1 from memory_posting where project_id = $1", [to])).toEqual([])
  })
  it("an unknown project or entry is refused with its code", async () => {
    const path = file("in.jsonl", [header])
    expect(refusal(await json("import-project", "--project", nobody, "--in", path))).toEqual([1, "project_not_found"])
    const out = join(service.folder, "none.jsonl")
    expect(refusal(await json("export-project", "--project", nobody, "--out", out))).toEqual([1, "project_not_found"])
    expect(refusal(await json("archive-memory", "--project", to, "--entry", nobody))).toEqual([1, "memory_not_found"])
  })
})

describe("documents", () => {
  it("are pinned, listed and unpinned", async ({ skip }) => {
    if (!hasGit) skip("needs git")
    const repository = join(service.folder, "repository")
    const { commit, git } = repositoryIn(repository)
    const place = ["--repository", repository, "--label", "acme/shop", "--commit", commit({ "guide.md": "# Guide\n" })]
    const pinned = result(await json("pin-document", "--project", from, ...place, "--path", "guide.md", "--bootstrap"))
    expect(pinned).toMatchObject({ size_bytes: 8, blob_oid: git("rev-parse", "HEAD:guide.md") })
    const { document_id } = pinned as { document_id: string }
    expect(result(await json("list-documents", "--project", from))).toMatchObject({
      items: [{ document_id, repository: "acme/shop", path: "guide.md", title: "guide.md", bootstrap: true }]
    })
    expect(refusal(await json("pin-document", "--project", from, ...place, "--path", "../x"))).toEqual([
      1,
      "document_path_invalid"
    ])
    result(await json("unpin-document", "--document", document_id))
    expect(result(await json("list-documents", "--project", from))).toEqual({ items: [] })
    expect(refusal(await json("unpin-document", "--document", document_id))).toEqual([1, "document_not_found"])
  })
})
