/** service-admin as scripts see it: exit codes, stdout, stderr. */
import { spawnSync, type StdioOptions } from "node:child_process"
import { existsSync, openSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { packageRoot } from "../../support/run/Root.ts"
import {
  refusal,
  result,
  secrets,
  serviceAdmin,
  startService,
  type TestService
} from "../../support/service/ServiceAdmin.ts"

const nobody = "00000000-0000-4000-8000-000000000000"
let service: TestService
let project_id: string
let first: unknown
let unreachable: ReturnType<typeof serviceAdmin>["ended"]

const run = (...args: ReadonlyArray<string>) => service.on("service").run(...args)
const json = (...args: ReadonlyArray<string>) => run(...args, "--json")

beforeAll(async () => {
  // Takes ten seconds; runs beside the other tests.
  unreachable = serviceAdmin(["list-projects", "--json"], {
    ...secrets,
    DATABASE_URL: "postgres://nobody@127.0.0.1:1/x"
  }).ended
  service = await startService()
  first = result(await json("create-project", "--name", "First"))
  project_id = (first as { project_id: string }).project_id
})
afterAll(() => service.stop())

describe("a first command", () => {
  it("migrates an empty database and creates a project", async () => {
    expect(first).toEqual({ project_id: expect.stringMatching(/^[0-9a-f-]{36}$/), name: "First" })
    expect(await service.query("service", "select name from project")).toEqual([{ name: "First" }])
  })
  it("leaves nothing for migrate to run", async () => {
    expect(result(await json("migrate"))).toEqual({ migrated: [] })
  })
})

describe("for people", () => {
  it("times are absolute and the next command is suggested", async () => {
    const { code, stderr, stdout } = await run("list-projects")
    expect([code, stderr]).toEqual([0, ""])
    expect(stdout).toMatch(/\d{4}-\d\d-\d\dT[\d:.]+Z/)
    expect(stdout).toMatch(/^Next: npx service-admin show-project --project [0-9a-f-]{36}$/m)
  })
  it("a refusal is one sentence on stderr", async () => {
    expect(await run("disable-project", "--project", nobody)).toEqual({
      code: 1,
      stdout: "",
      stderr: "There is no such project; see list-projects.\n"
    })
  })
  it.skipIf(!existsSync("/dev/full"))("a result that cannot be written exits with 1", () => {
    const stdio: StdioOptions = ["ignore", openSync("/dev/full", "w"), "pipe"]
    const { status, stderr } = spawnSync(process.execPath, [join(packageRoot, "cli/service-admin.mjs"), "--version"], {
      stdio,
      encoding: "utf8"
    })
    expect([status, stderr]).toEqual([1, expect.stringMatching(/^The result could not be written: ENOSPC/)])
  })
  it("help and completions are on stdout", async () => {
    const [help, ofCommand, ...scripts] = await Promise.all([
      run("--help"),
      run("create-oauth-client", "--help"),
      ...["bash", "zsh", "fish"].map((shell) => run("--completions", shell))
    ])
    expect(help).toMatchObject({ code: 0, stderr: "", stdout: expect.stringContaining("service-admin COMMAND") })
    expect(ofCommand!.stdout).toContain("create-oauth-client --name NAME --redirect-uri REDIRECT-URI [flags]\n")
    expect(ofCommand!.stdout).toMatch(/^ {2}--name NAME .* \(required\)$/m)
    expect(help!.stdout).toMatch(/^PROJECTS\n {2}create-project +Create a project$/m)
    for (const script of scripts) {
      expect(script).toMatchObject({ code: 0, stderr: "", stdout: expect.stringContaining("revoke-bridge") })
    }
  })
})

describe("usage errors leave stdout empty and exit with 64", () => {
  const credential = ["create-bridge-enrollment-credential", "--project", nobody, "--account-reference", "a"]
  const wrong: Record<string, ReadonlyArray<string>> = {
    "no command": [],
    "an unknown command": ["destroy-project"],
    "an unknown flag": ["list-projects", "--force"],
    "a missing flag": ["create-project"],
    "an unexpected argument": ["list-projects", "all"],
    "an empty name": ["create-project", "--name", ""],
    "a name with a control character": ["create-project", "--name", "a\u0007b"],
    "a name that is too long": ["create-project", "--name", "x".repeat(121)],
    "a reference that is too long": ["approve-account-reference", "--project", nobody, "--reference", "x".repeat(201)],
    "a label that is too long": [
      "approve-account-reference",
      "--project",
      nobody,
      "--reference",
      "a",
      "--label",
      "x".repeat(121)
    ],
    "an id that is not a UUID": ["revoke-device", "--device", "first"],
    "a bridge_id with a space": ["revoke-bridge", "--project", nobody, "--bridge", "a b"],
    "a limit of zero": ["list-audit-events", "--limit", "0"],
    "a lifetime without a unit": [...credential, "--ttl", "60", "--out", "f"],
    "a lifetime of zero": [...credential, "--ttl", "0s", "--out", "f"],
    "a lifetime beyond ten years": [...credential, "--ttl", "3651d", "--out", "f"],
    "a credential without an output": credential,
    "a count without a folder": [...credential, "--count", "2"],
    "a count and a file": [...credential, "--count", "2", "--out-dir", "d", "--out", "f"],
    "several credentials to re-enroll one Bridge": [...credential, "--count", "2", "--out-dir", "d", "--reenroll", "b"]
  }
  it("for every kind of mistake", { timeout: 60_000 }, async () => {
    const outcomes: Record<string, unknown> = {}
    for (const some of chunks(Object.entries(wrong), 4)) {
      await Promise.all(some.map(async ([what, args]) => (outcomes[what] = refusal(await json(...args)))))
    }
    expect(outcomes).toEqual(Object.fromEntries(Object.keys(wrong).map((what) => [what, [64, "usage"]])))
  })
  it("and say what a flag wants", async () => {
    const { stderr } = await run("list-tasks", "--limit")
    expect(stderr).toBe("--limit: a value is missing.\nSee: service-admin list-tasks --help\n")
  })
  it("and never echo a value, which could be a secret", async () => {
    const secret = "sbe_ThisIsPastedIntoTheWrongPlace"
    const { stderr } = await run("list-bridges", "--project", secret)
    expect(stderr).toBe("There is no such project; see list-projects.\n")
  })
  it("nor a private key, which begins with dashes like a flag", async () => {
    const { stderr } = await run("create-project", "--name", "-----BEGIN PRIVATE KEY-----\nMC4CAQAw")
    expect(stderr).toContain("Unrecognized flag; write a value that begins with a dash as --flag=VALUE.")
    expect(stderr).not.toContain("BEGIN")
  })
})

describe("an invalid configuration exits with 78", () => {
  it("for a missing, short or reused secret, and a malformed DATABASE_URL", async () => {
    const same = { SERVICE_BRIDGE_TOKEN_SECRET: secrets.SERVICE_BRIDGE_ENROLLMENT_SECRET }
    const oauth = { SERVICE_OAUTH_SECRET: secrets.SERVICE_BRIDGE_TOKEN_SECRET }
    const short = { SERVICE_BRIDGE_TOKEN_SECRET: "short" }
    const slash = { DATABASE_URL: "postgres://bridge:hunter/2@localhost/x" }
    const ends = await Promise.all([
      ...[short, same, { DATABASE_URL: "localhost" }, slash, oauth, { SERVICE_PORT: "abc" }].map((env) =>
        service.on("service", env).run("list-projects", "--json")
      ),
      serviceAdmin(["list-projects", "--json"], { DATABASE_URL: "postgres://localhost/x" }).ended
    ])
    for (const ended of ends) expect(refusal(ended)).toEqual([78, "configuration_error"])
    expect(ends.at(-2)!.stderr).toContain("SERVICE_PORT is a port from 0 to 65535.")
    expect(ends[0]!.stderr).not.toContain('"short"')
    expect(ends[3]!.stderr).not.toContain("hunter")
    expect(ends[4]!.stderr).toContain("SERVICE_BRIDGE_TOKEN_SECRET and SERVICE_OAUTH_SECRET must differ")
    expect(ends.at(-1)!.stderr).toContain("SERVICE_BRIDGE_ENROLLMENT_SECRET is not set")
  })
  it("for a non-loopback SERVICE_HOST without SERVICE_BASE_URL", async () => {
    const ends = await Promise.all(
      ["0.0.0.0", "::", "192.0.2.1", "two words"].map((SERVICE_HOST) =>
        service.on("service", { SERVICE_HOST }).run("list-projects", "--json")
      )
    )
    for (const ended of ends) {
      expect(refusal(ended)).toEqual([78, "configuration_error"])
      expect(ended.stderr).toContain("SERVICE_BASE_URL is required when SERVICE_HOST is not a loopback address.")
    }
  })
  it("for a relative data folder in a deleted working directory", async () => {
    const ended = await serviceAdmin(["list-projects", "--json"], {}, `cd "$(mktemp -d)" && rmdir "$PWD"`).ended
    expect(refusal(ended)).toEqual([78, "configuration_error"])
  })
})

describe("projects and account references", () => {
  const withReference = (command: string, ...more: ReadonlyArray<string>) =>
    json(command, "--project", project_id, "--reference", "github:acme", ...more)

  it("a project is disabled and enabled", async () => {
    const of = ["--project", project_id]
    expect(result(await json("disable-project", ...of)).disabled_at).toMatch(/Z$/)
    expect(result(await json("enable-project", ...of)).disabled_at).toBeNull()
    expect(result(await json("list-projects"))).toEqual({
      items: [{ project_id, name: "First", created_at: expect.stringMatching(/Z$/), disabled_at: null }]
    })
  })
  it("a reference is approved, listed and withdrawn", async () => {
    const reference = "github:acme"
    expect(result(await withReference("approve-account-reference", "--label", "Acme"))).toEqual({
      project_id,
      reference,
      label: "Acme"
    })
    expect(result(await withReference("approve-account-reference")).label).toBe("Acme")
    const withdrawn = { project_id, reference, revoked_credentials: [] }
    expect(result(await withReference("withdraw-account-reference"))).toEqual(withdrawn)
    expect(result(await json("list-account-references", "--project", project_id)).items).toEqual([
      { reference, label: "Acme", approved_at: expect.any(String), withdrawn_at: expect.any(String) }
    ])
  })
  it("unknown ids are refused with their codes", async () => {
    const [project, audit, credential, bridge] = await Promise.all([
      json("list-account-references", "--project", nobody),
      json("list-audit-events", "--project", nobody),
      json("revoke-bridge-enrollment-credential", "--credential", nobody),
      json("show-bridge", "--project", project_id, "--bridge", "absent")
    ])
    for (const ended of [project!, audit!]) expect(refusal(ended)).toEqual([1, "project_not_found"])
    expect(refusal(credential!)).toEqual([1, "credential_not_found"])
    expect(refusal(bridge!)).toEqual([1, "bridge_not_found"])
  })
})

describe("Bridges and the audit log", () => {
  it("a Bridge is listed, shown and revoked permanently", async () => {
    await service.query(
      "service",
      `insert into bridge_identity (identity_id, project_id, bridge_id, status, device_id, display_name,
         public_key_fingerprint, account_references, created_at, enrolled_at)
       values ('${nobody}', '${project_id}', 'b1', 'active', 'd', 'Mac', 'sha256:${"0".repeat(64)}', '{a}', now(), now())`
    )
    const of = ["--project", project_id, "--bridge", "b1"]
    expect(result(await json("revoke-bridge", ...of))).toMatchObject({ project_id, bridge_id: "b1" })
    const [list, shown] = await Promise.all([json("list-bridges", "--project", project_id), json("show-bridge", ...of)])
    expect(result(list!).items).toMatchObject([{ bridge_id: "b1", status: "revoked" }])
    expect(result(shown!)).toMatchObject({ bridge_id: "b1", status: "revoked", tokens: [] })
  })
  it("audit events are listed newest first, up to the limit", async () => {
    const { items } = result(await json("list-audit-events", "--project", project_id, "--limit", "1"))
    const action = expect.stringMatching(/^bridge\.(listed|shown)$/)
    expect(items).toMatchObject([{ action, outcome: "done", code: null, at: expect.any(String) }])
  })
})

describe("text of strangers", () => {
  const hidden = ["\u001b", "\u009b", "\u061c", "\u200b", "\u200e", "\u202e", "\u2028", "\u2066", "\ufeff", "\u{e0041}"]
  const name = `Ana${hidden.join("x")} 中é`
  const shown = `Ana${hidden.map((text) => text.split("").map(escape).join("")).join("x")} 中é`
  const bare =
    // oxlint-disable-next-line no-control-regex
    /[\0-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\u{e0000}-\u{e007f}]/u

  beforeAll(async () => {
    await service.query("service", "update bridge_identity set display_name = $1", [name])
    await service.query("service", "alter table audit_event disable trigger user")
    await service.query("service", "update audit_event set user_agent = $1", [name])
  })

  it("is printed without a character that a terminal obeys or hides", async () => {
    const of = ["--project", project_id]
    const [list, show] = await Promise.all([run("list-bridges", ...of), run("show-bridge", ...of, "--bridge", "b1")])
    for (const { stdout } of [list!, show!]) {
      expect(stdout).toContain(shown)
      expect(stdout).not.toMatch(bare)
    }
  })
  it("is escaped in JSON, with the same value", async () => {
    const [bridges, events] = await Promise.all([
      json("list-bridges", "--project", project_id),
      json("list-audit-events")
    ])
    for (const ended of [bridges!, events!]) expect(ended.stdout).not.toMatch(bare)
    expect(result(bridges!).items).toMatchObject([{ display_name: name }])
    expect(result(events!).items.at(-1)).toMatchObject({ user_agent: name })
  })
})

describe("a database that cannot be reached", () => {
  it("is given up after ten seconds, with exit code 75", async () => {
    expect(refusal(await unreachable)).toEqual([75, "database_unreachable"])
  })
})

const escape = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`

const chunks = <A>(all: ReadonlyArray<A>, size: number) =>
  Array.from({ length: Math.ceil(all.length / size) }, (_, index) => all.slice(index * size, (index + 1) * size))
