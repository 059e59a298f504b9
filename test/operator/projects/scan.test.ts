/** scan-project finds secrets that were stored before they were refused, and shows none of them. */
import { createHash } from "node:crypto"
import { afterAll, beforeAll, expect, it } from "vitest"
import { operator } from "../../../src/platform/settings/Operator.ts"
import { innocent } from "../../support/secrets/Innocent.ts"
import { planted } from "../../support/secrets/Planted.ts"
import { refusal, result, startService, type TestService } from "../../support/service/ServiceAdmin.ts"

let service: TestService
let project: string
let other: string

const scan = (...args: ReadonlyArray<string>) => service.on("service").run("scan-project", "--json", ...args)
const query = (text: string, values: ReadonlyArray<unknown>) => service.query("service", text, values)

const note = (project_id: string, bodies: ReadonlyArray<string>) =>
  query(
    `insert into memory_entry (project_id, id, kind, title, body, tags, actor, role, created_at)
     select $1::uuid, gen_random_uuid(), 'note', 'Note', body, '{}', 'x', 'contributor', now()
       from unnest($2::text[]) body`,
    [project_id, bodies]
  )

beforeAll(async () => {
  service = await startService()
  for (const name of ["P", "Q"]) {
    const { project_id } = result(await service.on("service").run("create-project", "--name", name, "--json"))
    if (name === "P") project = project_id
    else other = project_id
  }
  await note(project, Object.values(innocent).flat())
})
afterAll(() => service.stop())

it("scan-project finds nothing in innocent text and what the service stores itself, and leaves a row", async () => {
  const client = ["--name", "Agent", "--redirect-uri", "http://127.0.0.1/callback"]
  result(await service.on("service").run("create-oauth-client", ...client, "--json"))
  expect(result(await scan())).toMatchObject({ ok: true, found: [], more: false })
  expect(result(await scan("--project", project))).toMatchObject({ ok: true, found: [], more: false })
  expect(
    await query(
      "select actor, project_id, subject -> 'found' as found from audit_event where action = $1 order by at",
      ["project.scanned"]
    )
  ).toEqual([null, project].map((project_id) => ({ actor: operator, project_id, found: "0" })))
})

it("scan-project names the row, the field and the kind of every secret, whatever its table, and shows none", async () => {
  const secrets = planted(new Date())
  const github = secrets.find(({ kind }) => kind === "github_token")!.secret
  await note(
    project,
    secrets.map(({ text }) => text)
  )
  await query(
    `insert into idempotency_record (project_id, tool, idempotency_key, request_hash, result, created_at)
     select $1::uuid, 'memory_add', $2, sha256('x'), $3, now()`,
    [other, github, JSON.stringify({ text: `-\n${github}` })]
  )
  await query("update project set name = $2 where project_id = $1::uuid", [other, `Old ${github}`])
  const content = Buffer.from(`# Keys\n\n${github}\n`)
  await query(
    `with blob as (
       insert into document_blob (blob_oid, sha256, size_bytes, line_count, bytes) values ($2, $3, length($4), 3, $4)
       returning blob_oid
     )
     insert into pinned_document (project_id, document_id, repository, commit, path, mode, blob_oid, title, bootstrap, pinned_at)
     select $1::uuid, gen_random_uuid(), 'r', repeat('a', 40), 'KEYS.md', '100644', blob_oid, 'Keys', false, now() from blob`,
    [other, "b".repeat(40), createHash("sha256").update(content).digest(), content]
  )

  const all = await scan()
  expect(all.code).toBe(1)
  const { found, ok } = JSON.parse(all.stdout)
  expect(ok).toBe(false)
  const inNotes = found.filter(({ table }: { table: string }) => table === "memory_entry")
  expect(inNotes.map(({ kind }: { kind: string }) => kind).toSorted()).toEqual(
    secrets.map(({ kind }) => kind).toSorted()
  )
  for (const { field, id, project_id } of inNotes) expect([project_id, field, id.length]).toEqual([project, "body", 36])
  const elsewhere = found.filter(({ table }: { table: string }) => table !== "memory_entry")
  expect(elsewhere).toEqual([
    expect.objectContaining({ table: "idempotency_record", id: null, field: "result", kind: "github_token" }),
    expect.objectContaining({ table: "idempotency_record", id: null, field: "idempotency_key", kind: "github_token" }),
    expect.objectContaining({ table: "pinned_document", field: "content", kind: "github_token" }),
    { project_id: other, table: "project", id: "", field: "name", kind: "github_token" }
  ])
  for (const { secret } of secrets) expect(all.stdout + all.stderr).not.toContain(JSON.stringify(secret).slice(1, -1))

  const ofOther = await scan("--project", other)
  expect(JSON.parse(ofOther.stdout).found).toEqual(elsewhere)
  const plain = await service.on("service").run("scan-project", "--project", other)
  expect(plain.code).toBe(1)
  expect(plain.stdout).toContain("pinned_document")
  expect(plain.stdout).toMatch(/^Next: .*replace each secret/m)
  expect(plain.stdout).not.toContain(github)
})

it("scan-project ends at 1,000 secrets, and says that there may be more", async () => {
  const { secret } = planted(new Date()).find(({ kind }) => kind === "npm_token")!
  await note(other, Array<string>(1001).fill(secret))
  const { found, more } = JSON.parse((await scan("--project", other)).stdout)
  expect([found.length, more]).toEqual([1000, true])
})

it("scan-project refuses a project that does not exist", async () => {
  expect(refusal(await scan("--project", "00000000-0000-7000-8000-000000000000"))).toEqual([1, "project_not_found"])
})
