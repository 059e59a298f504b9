/** The operator's commands for the limits of a project, and where their use shows. */
import { afterAll, beforeAll, expect, it } from "vitest"
import { operator } from "../../../src/platform/settings/Operator.ts"
import { refusal, result, startService, type TestService } from "../../support/service/ServiceAdmin.ts"

let service: TestService
let project = ""

const run = (...args: ReadonlyArray<string>) => service.on("service").run(...args)
const set = (...flags: ReadonlyArray<string>) => run("set-project-limits", "--project", project, ...flags)
const maxima = (items: ReadonlyArray<{ limit: string; maximum: number }>) =>
  Object.fromEntries(items.map(({ limit, maximum }) => [limit, maximum]))

const defaults = {
  stored_bytes: 1_073_741_824,
  index_bytes: 4_294_967_296,
  entries: 200_000,
  tasks: 50_000,
  concurrent_calls: 8,
  concurrent_searches: 2,
  searches_per_minute: 600,
  writes_per_minute: 600,
  sessions: 200,
  channels: 10,
  embeddings: 1,
  memory_days: 0,
  receipt_days: 0
}

beforeAll(async () => {
  service = await startService()
  project = result(await run("create-project", "--name", "Shop", "--json")).project_id
})
afterAll(() => service.stop())

it("a new project has the defaults", async () => {
  const { items } = result(await run("show-project-limits", "--project", project, "--json"))
  expect(maxima(items)).toEqual(defaults)
  expect(items[0]).toEqual({ limit: "stored_bytes", value: 0, maximum: 1_073_741_824, default: 1_073_741_824 })
  expect(items[4]).toEqual({ limit: "concurrent_calls", value: null, maximum: 8, default: 8 })
})

it("a limit is set without touching the others, and default restores it", async () => {
  const entries = result(await set("--entries", "7", "--concurrent-calls", "3", "--json")).items
  expect(maxima(entries)).toEqual({ ...defaults, entries: 7, concurrent_calls: 3 })
  const restored = result(await set("--entries", "default", "--tasks", "9", "--json")).items
  expect(maxima(restored)).toEqual({ ...defaults, concurrent_calls: 3, tasks: 9 })
})

it("a retention period is confirmed, a week at least, and ended without that", async () => {
  expect(refusal(await set("--memory-days", "30", "--json"))).toEqual([64, "usage"])
  expect(refusal(await set("--memory-days", "6", "--yes", "--json"))).toEqual([64, "usage"])
  const given = result(await set("--memory-days", "30", "--receipt-days", "7", "--yes", "--json")).items
  expect(maxima(given)).toMatchObject({ memory_days: 30, receipt_days: 7 })
  const ended = result(await set("--memory-days", "default", "--receipt-days", "default", "--json")).items
  expect(maxima(ended)).toMatchObject({ memory_days: 0, receipt_days: 0 })
})

it("embeddings are switched off and on by name", async () => {
  expect(maxima(result(await set("--embeddings", "off", "--json")).items)).toMatchObject({ embeddings: 0 })
  expect(maxima(result(await set("--embeddings", "on", "--json")).items)).toMatchObject({ embeddings: 1 })
  expect(refusal(await set("--embeddings", "0", "--json"))[0]).toBe(64)
})

it("setting a limit is audited once, with its values", async () => {
  const limits = async () =>
    result(await run("list-audit-events", "--project", project, "--json")).items.filter(
      ({ action }: { action: string }) => action === "project.limits_set"
    )
  const before = await limits()
  await set("--searches-per-minute", "60")
  await set("--searches-per-minute", "60")
  const events = await limits()
  expect(events).toHaveLength(before.length + 1)
  expect(events[0]).toMatchObject({ actor: operator, subject: { searches_per_minute: "60" } })
})

it("a value that is no limit, no flag, and an unknown project are refused, and change nothing", async () => {
  const before = result(await run("show-project-limits", "--project", project, "--json"))
  for (const flags of [["--entries", "0"], ["--entries", "-1"], ["--tasks", "1e9"], ["--tasks", "many"], []]) {
    expect((await set(...flags)).code).toBe(64)
  }
  const unknown = await run("set-project-limits", "--project", crypto.randomUUID(), "--tasks", "1", "--json")
  expect(refusal(unknown)).toContain("project_not_found")
  expect(result(await run("show-project-limits", "--project", project, "--json"))).toEqual(before)
})

it("status names the projects that have used half of a limit, the fullest first", async () => {
  expect(result(await run("status", "--json")).limits).toEqual([])
  await service.query(
    "service",
    `insert into project_usage (project_id, stored_bytes, index_bytes, entries, tasks)
     values ($1::uuid, 500, 4000, 50, 9)`,
    [project]
  )
  await set("--stored-bytes", "1001", "--entries", "100")
  expect(result(await run("status", "--json")).limits).toEqual([
    { project_id: project, limit: "tasks", value: 9, maximum: 9 },
    { project_id: project, limit: "index_bytes", value: 4000, maximum: 4004 },
    { project_id: project, limit: "entries", value: 50, maximum: 100 }
  ])
  const { items } = result(await run("show-project-limits", "--project", project, "--json"))
  expect(items.slice(0, 4).map(({ value }: { value: number }) => value)).toEqual([500, 4000, 50, 9])
  const { stdout } = await run("status")
  expect(stdout).toMatch(new RegExp(`^${project}  tasks +9 +9$`, "m"))
  expect(stdout).toMatch(new RegExp(`^Next: npx service-admin show-project-limits --project ${project}$`, "m"))
})
