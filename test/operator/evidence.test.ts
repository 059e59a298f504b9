/** Commands that change nothing, but read whole projects or who holds secrets, leave audit rows as well. */
import { existsSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { operator } from "../../src/platform/settings/Operator.ts"
import { migrated, refusal, result, startService, type TestService } from "../support/service/ServiceAdmin.ts"

const unavailable = [75, "bridge_persistence_error"]

let service: TestService
let project: string

const json = (...args: ReadonlyArray<string>) => service.on("source").run(...args, "--json")
const events = async (action: string, database = "source") =>
  (await service.query(
    database,
    "select outcome, actor, project_id, subject from audit_event where action = $1 order by at, event_id",
    [action]
  )) as ReadonlyArray<Record<string, unknown>>

beforeAll(async () => {
  service = await startService()
  for (const database of ["source", "target"]) {
    await service.create(database, migrated)
  }
  project = result(await json("create-project", "--name", "P")).project_id
  await service.query(
    "source",
    `insert into bridge_identity (identity_id, project_id, bridge_id, status, device_id, display_name,
            public_key_fingerprint, account_references, created_at, challenge_expires_at)
     select gen_random_uuid(), $1::uuid, 'b' || i, 'pending', 'd', 'B', 'sha256:' || lpad(i::text, 64, '0'), '{}', now(), now()
       from generate_series(1, 1500) i`,
    [project]
  )
})
afterAll(() => service.stop())

/** Which list shows whose holders, and whether it is of one project. */
const lists = [
  ["list-bridge-enrollment-credentials", "bridge_credential.listed", true],
  ["list-bridges", "bridge.listed", true],
  ["list-project-tokens", "project_token.listed", true],
  ["list-operator-tokens", "operator_token.listed", false],
  ["list-oauth-clients", "oauth_client.listed", false],
  ["list-oauth-grants", "oauth_grant.listed", true],
  ["list-person-keys", "person_key.listed", true],
  ["list-console-sessions", "console_session.listed", true],
  ["list-devices", "mobile_device.listed", true]
] as const

describe("a list of those who hold secrets", () => {
  for (const [command, action, ofProject] of lists) {
    it(`${command} leaves one row, however many pages it has`, async () => {
      result(await json(command, ...(ofProject ? ["--project", project] : [])))
      expect(await events(action)).toEqual([
        { outcome: "done", actor: operator, project_id: ofProject ? project : null, subject: {} }
      ])
    })
  }

  it("shows nothing if its row cannot be written", async () => {
    await service.query("source", "alter table audit_event rename to gone")
    try {
      expect(refusal(await json("list-bridges", "--project", project))).toEqual(unavailable)
      expect(refusal(await json("show-bridge", "--project", project, "--bridge", "b1"))).toEqual(unavailable)
    } finally {
      await service.query("source", "alter table gone rename to audit_event")
    }
  })
})

it("a Bridge that is shown leaves a row that names it", async () => {
  result(await json("show-bridge", "--project", project, "--bridge", "b1"))
  expect(await events("bridge.shown")).toEqual([
    { outcome: "done", actor: operator, project_id: project, subject: { bridge_id: "b1" } }
  ])
})

it("export-project leaves a row, and no file without one", async () => {
  const file = join(service.folder, "project")
  await service.query("source", "alter table audit_event rename to gone")
  const failed = await json("export-project", "--project", project, "--out", file)
  await service.query("source", "alter table gone rename to audit_event")
  expect(refusal(failed)).toEqual(unavailable)
  expect(existsSync(file)).toBe(false)
  result(await json("export-project", "--project", project, "--out", file))
  expect(await events("project.exported")).toEqual([
    { outcome: "done", actor: operator, project_id: project, subject: {} }
  ])
})

it("export-subject leaves a row", async () => {
  const [out, file] = [join(service.folder, "token"), join(service.folder, "subject")]
  result(await json("create-project-token", "--project", project, "--role", "reader", "--label", "Ada", "--out", out))
  result(await json("export-subject", "--project", project, "--label", "Ada", "--out", file))
  expect(await events("subject.exported")).toEqual([
    { outcome: "done", actor: operator, project_id: project, subject: {} }
  ])
})

it("backup-database leaves a row here, restore-database one in the restored database", async () => {
  const file = join(service.folder, "backup")
  const { created_at } = result(await json("backup-database", "--out", file))
  expect(await events("database.backed_up")).toEqual([
    { outcome: "done", actor: operator, project_id: null, subject: {} }
  ])
  result(await service.on("target").run("restore-database", "--in", file, "--without-erasures", "--json"))
  expect(await events("database.restored", "target")).toEqual([
    { outcome: "done", actor: operator, project_id: null, subject: { created_at, erasures: "0" } }
  ])
})
