/** `doctor` finds what is wrong, says what to do, and changes nothing. */
import { chmodSync, existsSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, expect, it } from "vitest"
import { refusal, result, secrets, serviceAdmin, startService, type TestService } from "../support/ServiceAdmin.ts"

let service: TestService
const folder = mkdtempSync(join(tmpdir(), "service-admin-test-"))
const data = join(folder, "data")
chmodSync(folder, 0o711)

const examined = ({ code, stderr, stdout }: { code: number; stderr: string; stdout: string }) => {
  const { checks, ok } = JSON.parse(stdout)
  const of = (status: string) => checks.filter((check: any) => check.status === status).map((check: any) => check.name)
  return { code, stderr, ok, warn: of("warn"), fail: of("fail") }
}
const embedded = (...args: ReadonlyArray<string>) => serviceAdmin(args, { SERVICE_DATA_DIR: data }).ended
const fine = { code: 0, stderr: "", ok: true, warn: [], fail: [] }

beforeAll(async () => {
  service = await startService()
})
afterAll(async () => {
  await service.stop()
  rmSync(folder, { recursive: true, force: true })
})

it("before the first start there is nothing to examine, and afterwards still nothing", async () => {
  expect(examined(await embedded("doctor", "--json"))).toEqual({ ...fine, warn: ["data_folder"] })
  expect(existsSync(data)).toBe(false)
})

it("the embedded database is in order once a command has made it, and its secrets are kept from others", async () => {
  expect((await embedded("create-project", "--name", "Embedded")).stderr).toMatch(/secrets\.env; keep a copy/)
  expect(examined(await embedded("doctor", "--json"))).toEqual(fine)
  chmodSync(join(data, "secrets.env"), 0o644)
  expect(examined(await embedded("doctor", "--json"))).toEqual({ ...fine, code: 1, ok: false, fail: ["data_folder"] })
})

it("a database without migrations is left without, and one that loses commits fails", async () => {
  const ended = await service.on("postgres").run("doctor", "--json")
  expect(examined(ended)).toEqual({ ...fine, code: 1, ok: false, warn: ["migrations"], fail: ["durability"] })
  const [{ present } = {}] = await service.query("postgres", "select to_regclass('project') is not null as present")
  expect(present).toBe(false)
})

it("weak secrets, unusual lifetimes and edited migrations are found; the latter stop every other command", async () => {
  result(await service.on("postgres").run("migrate", "--json"))
  await service.query("postgres", "update schema_migration set checksum = 'edited' where migration_id = 1")
  const weak = {
    SERVICE_BRIDGE_TOKEN_SECRET: "x".repeat(40),
    SERVICE_BRIDGE_CHALLENGE_TTL_SECONDS: "5"
  }
  const [doctor, other] = await Promise.all([
    service.on("postgres", weak).run("doctor", "--json"),
    service.on("postgres").run("list-projects", "--json")
  ])
  expect(examined(doctor!)).toEqual({
    code: 1,
    stderr: "",
    ok: false,
    warn: ["lifetimes"],
    fail: ["secrets", "durability", "migrations"]
  })
  expect(doctor!.stdout).not.toContain("xxx")
  expect(refusal(other!)).toEqual([78, "migration_error"])
})

it("a configuration that is incomplete is what it says first", async () => {
  const incomplete = { DATABASE_URL: "postgres://localhost/x", ...secrets, SERVICE_BRIDGE_TOKEN_SECRET: "" }
  const ended = await serviceAdmin(["doctor", "--json"], incomplete).ended
  expect(examined(ended)).toEqual({ ...fine, code: 1, ok: false, fail: ["configuration"] })
})

it("an address that does not lead here, and a proxy that is not named or whoever it is, are found", async () => {
  const elsewhere = { SERVICE_BASE_URL: "https://bridge.invalid" }
  const [unnamed, everybody] = await Promise.all([
    service.on("postgres", elsewhere).run("doctor", "--json"),
    service.on("postgres", { ...elsewhere, SERVICE_TRUSTED_PROXIES: "0.0.0.0/0" }).run("doctor", "--json")
  ])
  expect(examined(unnamed!).warn).toEqual(["proxy", "base_url"])
  expect(examined(everybody!)).toMatchObject({ warn: ["base_url"], fail: expect.arrayContaining(["proxy"]) })
})
