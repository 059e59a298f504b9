/** Bootstrap credentials reach the operator in a file that nobody else can read, and in no other way (spec 2.2). */
import { Effect } from "effect"
import { createHash } from "node:crypto"
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { setTimeout } from "node:timers/promises"
import { afterAll, beforeAll, expect, it } from "vitest"
import { relay } from "../support/network/Relay.ts"
import { refusal, result, startService, type TestService } from "../support/service/ServiceAdmin.ts"

let service: TestService
let project_id: string

const json = (...args: ReadonlyArray<string>) => service.on("service").run(...args, "--json")
const create = (...args: ReadonlyArray<string>) => [
  "create-bridge-enrollment-credential",
  "--project",
  project_id,
  "--account-reference",
  "github:acme",
  ...args
]
const path = (name: string) => join(service.folder, name)
const stored = async () =>
  (
    await service.query("service", "select encode(credential_hash, 'hex') as hash from bridge_enrollment_credential")
  ).map((row) => row["hash"])
const unchanged = async (work: () => Promise<void>) => {
  const before = [await stored(), readdirSync(service.folder, { recursive: true })]
  await work()
  expect([await stored(), readdirSync(service.folder, { recursive: true })]).toEqual(before)
}

/** The number of sessions that wait for a lock. */
const waiting = async () => {
  const locks =
    "select count(*)::int as waiting from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
  return (await service.query("service", locks))[0]!["waiting"]
}
const until = async (ask: () => Promise<unknown>, answer: unknown) => {
  while ((await ask()) !== answer) await setTimeout(10)
}

beforeAll(async () => {
  service = await startService()
  project_id = result(await json("create-project", "--name", "Fleet")).project_id
  result(await json("approve-account-reference", "--project", project_id, "--reference", "github:acme"))
})
afterAll(() => service.stop())

it("the file has mode 0600 and holds the credential and a newline; the row holds its hash; the output has neither", async () => {
  const file = path("one")
  const ended = await json(...create("--out", file, "--ttl", "30m"))
  expect(result(ended)).toEqual({
    credential_id: expect.any(String),
    project_id,
    file,
    expires_at: expect.stringMatching(/^\d{4}-.*Z$/)
  })
  expect(statSync(file).mode & 0o777).toBe(0o600)
  const content = readFileSync(file, "utf8")
  expect(content).toMatch(/^sbe_[0-9A-Za-z]{49}\n$/)
  expect(await stored()).toContain(createHash("sha256").update(content.trim()).digest("hex"))
  expect(ended.stdout + ended.stderr).not.toContain("sbe_")
})

it("a fleet gets one file each, named by its credential_id", async () => {
  const { items } = result(await json(...create("--count", "3", "--out-dir", path("fleet"))))
  expect(items.map(({ file }: { file: string }) => file).toSorted()).toEqual(
    readdirSync(path("fleet"))
      .map((name) => path(`fleet/${name}`))
      .toSorted()
  )
  expect(
    items.every((item: Record<string, string>) => item["file"]!.endsWith(`${item["credential_id"]}.credential`))
  ).toBe(true)
})

it("an unusual lifetime only causes a warning", async () => {
  const { code, stderr, stdout } = await service.on("service").run(...create("--out", path("short"), "--ttl", "5s"))
  expect([code, JSON.parse(stderr).level]).toEqual([0, "WARN"])
  expect(stdout).toContain(path("short"))
})

it("an existing file, a missing folder, a refused reference or Bridge, and a full disk leave neither row nor file", async () => {
  writeFileSync(path("mine"), "mine")
  mkdirSync(path("taken"))
  await unchanged(async () => {
    const full = service.on("service").runOnFullDisk(...create("--out", path("full"), "--json"))
    const ends = [
      ...(await Promise.all([
        json(...create("--out", path("mine"))),
        json(...create("--out", path("nowhere/file"))),
        json(...create("--count", "2", "--out-dir", path("mine")))
      ])),
      ...(await Promise.all([
        json(...create("--out", path("refused"), "--account-reference", "github:other")),
        json(...create("--out", path("absent"), "--reenroll", "b1")),
        full
      ]))
    ]
    expect(ends.map(refusal)).toEqual([
      ...Array.from({ length: 3 }, () => [1, "file_error"]),

      [1, "account_reference_not_approved"],
      [1, "bridge_not_found"],
      [1, "file_error"]
    ])
  })
  expect(readFileSync(path("mine"), "utf8")).toBe("mine")
})

it("an interruption, or a database that does not answer, removes the new file", async () => {
  await unchanged(() =>
    service.within("service", (session) =>
      Effect.gen(function* () {
        const { env } = service.on("service").shell()
        const url = new URL(env["DATABASE_URL"]!)
        const line = yield* relay({ path: `${url.searchParams.get("host")}/.s.PGSQL.${url.port}` })
        const DATABASE_URL = `postgres://${url.username}@127.0.0.1:${line.port}${url.pathname}`
        yield* session.query("begin")
        yield* session.query("lock table bridge_enrollment_credential")
        const interrupted = service.on("service").start(...create("--out", path("a"), "--json"))
        const cut = service.on("service", { DATABASE_URL }).start(...create("--out", path("b"), "--json"))
        yield* Effect.promise(() => until(waiting, 2))
        expect([existsSync(path("a")), existsSync(path("b"))]).toEqual([true, true])
        interrupted.child.kill("SIGINT")
        yield* line.cut
        expect(yield* Effect.promise(() => interrupted.ended)).toMatchObject({ code: 130, stdout: "" })
        const failed = yield* Effect.promise(() => cut.ended)
        expect(JSON.parse(failed.stderr.trim().split("\n").at(-1)!).error.code).toBe("bridge_persistence_error")
        expect(failed).toMatchObject({ code: 75, stdout: "" })
        yield* session.query("rollback")
      }).pipe(Effect.scoped)
    )
  )
})

it("if the database answers late, the command retries with the same credential", () =>
  service.within("service", (session) =>
    Effect.gen(function* () {
      yield* session.query("begin")
      yield* session.query("lock table bridge_enrollment_credential")
      const { ended } = service.on("service").start(...create("--out", path("late"), "--json"))
      yield* Effect.promise(() => until(waiting, 1).then(() => until(waiting, 0)))
      yield* session.query("rollback")
      const credential = result(yield* Effect.promise(() => ended))
      const hash = createHash("sha256").update(readFileSync(credential.file, "utf8").trim()).digest("hex")
      expect(yield* Effect.promise(stored)).toContain(hash)
    })
  ))

it("withdrawing a reference revokes its unused credentials, except those already revoked", async () => {
  const { items } = result(await json("list-bridge-enrollment-credentials", "--project", project_id))
  const credential = items.find(({ status }: { status: string }) => status === "unused").credential_id
  expect(result(await json("revoke-bridge-enrollment-credential", "--credential", credential))).toEqual({
    credential_id: credential,
    revoked_at: expect.any(String)
  })
  const withdrawn = await json("withdraw-account-reference", "--project", project_id, "--reference", "github:acme")
  expect(result(withdrawn).revoked_credentials).toHaveLength(items.length - 1)
})
