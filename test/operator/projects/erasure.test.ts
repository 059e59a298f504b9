/** Commands that destroy, and a restore that does not bring back what they destroyed (decisions.md, Erasure). */
import { randomUUID } from "node:crypto"
import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest"
import { refusal, result, startService, type TestService } from "../../support/service/ServiceAdmin.ts"

// A test runs several commands; under load each of them takes seconds.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

let service: TestService
let file: string
let project: string

const on = (database: string) => service.on(database)
const run = (...args: ReadonlyArray<string>) => on("service").run(...args, "--json")
const query = (text: string, database = "service") => service.query(database, text)

/** An entry and a task, as agents write them. */
const written = async (text: string) => {
  const [entry, task] = [randomUUID(), randomUUID()]
  await query(`insert into memory_entry (project_id, id, kind, title, body, tags, actor, role, created_at)
               values ('${project}', '${entry}', 'note', '${text}', '${text}', '{}', 'x', 'contributor', now())`)
  await query(`insert into task (project_id, id, title, body, status, priority, tags, version, created_by, created_at, updated_at)
               values ('${project}', '${task}', '${text}', '', 'open', 2, '{}', 1, 'x', now(), now())`)
  return { entry, task }
}
const texts = async (database: string) =>
  (await query("select title from memory_entry union select title from task order by 1", database)).map(
    (row) => (row as { title: string }).title
  )
const created = async (name: string) => {
  await service.create(name)
  return name
}
const disabledLongAgo = () =>
  query(`update project set disabled_at = now() - interval '1 minute' where project_id = '${project}'`)

beforeAll(async () => {
  service = await startService()
  file = join(service.folder, "erasures.jsonl")
  project = result(await run("create-project", "--name", "Shop")).project_id
})
afterAll(() => service.stop())

describe("an erasure", () => {
  it("wants to be confirmed, and a file for its record", async () => {
    const { entry } = await written("unconfirmed")
    const purge = ["purge-memory", "--project", project, "--entry", entry]
    expect(refusal(await run(...purge))).toEqual([64, "usage"])
    const without = await service.on("service", { SERVICE_ERASURE_FILE: "" }).run(...purge, "--yes", "--json")
    expect(refusal(without)).toEqual([78, "configuration_error"])
    expect(without.stderr).toContain("SERVICE_ERASURE_FILE")
    expect(refusal(await run("delete-project", "--project", project))).toEqual([64, "usage"])
    expect(refusal(await run("delete-project", "--project", project, "--name", "Ship"))).toEqual([1, "other_name"])
    expect(refusal(await run("delete-project", "--project", project, "--name", "Shop"))).toEqual([
      1,
      "project_not_disabled"
    ])
    expect(await texts("service")).toContain("unconfirmed")
  })

  it("may be repeated", async () => {
    const { entry, task } = await written("twice")
    for (const args of [
      ["purge-memory", "--project", project, "--entry", entry, "--yes"],
      ["purge-task", "--project", project, "--task", task, "--yes"]
    ]) {
      const first = result(await run(...args))
      expect(first.replayed).toBe(false)
      expect(result(await run(...args))).toEqual({ ...first, replayed: true })
    }
    expect(await texts("service")).not.toContain("twice")
    const absent = ["purge-document", "--project", project, "--document", randomUUID(), "--yes"]
    expect(refusal(await run(...absent))).toEqual([1, "document_not_found"])
  })
})

describe("a line that a crash left open", () => {
  it("of another service with the same file is left to that one", async () => {
    const { entry } = await written("shared file")
    const foreign = join(service.folder, "shared.jsonl")
    const [open] = readFileSync(file, "utf8")
      .split("\n")
      .filter((line) => line.includes('"prepared"'))
    const theirs = { ...JSON.parse(open!), erasure_id: randomUUID(), instance_id: randomUUID() }
    writeFileSync(foreign, `${JSON.stringify(theirs)}\n`, { mode: 0o600 })
    const purge = ["purge-memory", "--project", project, "--entry", entry, "--yes", "--json"]
    result(await service.on("service", { SERVICE_ERASURE_FILE: foreign }).run(...purge))
    const about = readFileSync(foreign, "utf8")
      .split("\n")
      .filter((line) => line.includes(theirs.erasure_id))
    expect(about).toHaveLength(1)
  })
})

describe("a restored backup", () => {
  it("lacks what was erased after it, before the first command or request", async () => {
    const kept = await written("kept")
    const { entry, task } = await written("erased")
    const backup = join(service.folder, "before.backup")
    result(await run("backup-database", "--out", backup))
    result(await run("purge-memory", "--project", project, "--entry", entry, "--yes"))
    result(await run("purge-task", "--project", project, "--task", task, "--yes"))

    const database = await created("restored")
    const restore = (...flags: ReadonlyArray<string>) =>
      on(database).run("restore-database", "--in", backup, ...flags, "--json")
    expect(refusal(await restore())).toEqual([64, "usage"])
    expect(refusal(await restore("--erasures", file, "--without-erasures"))).toEqual([64, "usage"])
    expect(refusal(await restore("--erasures", join(service.folder, "absent")))).toEqual([1, "erasure_file_error"])
    const restored = result(await restore("--erasures", file))
    expect(restored.erasures).toBeGreaterThanOrEqual(2)
    expect(await texts(database)).toContain("kept")
    expect(await texts(database)).not.toContain("erased")
    // The tombstones came, too: the command that is repeated here says the same.
    const again = result(
      await on(database).run("purge-memory", "--project", project, "--entry", entry, "--yes", "--json")
    )
    expect(again.replayed).toBe(true)
    expect(kept.entry).not.toBe(entry)

    const everything = await created("everything")
    result(await on(everything).run("restore-database", "--in", backup, "--without-erasures", "--json"))
    expect(await texts(everything)).toContain("erased")
  })

  it("is refused with a line that a crash left open, until it is said what to do", async () => {
    const { entry } = await written("open")
    const there = (database: string) => query(`select 1 from memory_entry where id = '${entry}'`, database)
    const backup = join(service.folder, "open.backup")
    result(await run("backup-database", "--out", backup))
    result(await run("purge-memory", "--project", project, "--entry", entry, "--yes"))
    const lines = readFileSync(file, "utf8").trim().split("\n")
    const crashed = join(service.folder, "crashed.jsonl")
    writeFileSync(crashed, `${lines.slice(0, -1).join("\n")}\n`)
    const restore = async (name: string, ...flags: ReadonlyArray<string>) =>
      on(await created(name)).run("restore-database", "--in", backup, "--erasures", crashed, ...flags, "--json")
    const refused = await restore("undecided")
    expect(refusal(refused)).toEqual([1, "erasure_file_error"])
    expect(refused.stderr).toContain("--open")
    expect(await query("select to_regclass('project') as there", "undecided")).toEqual([{ there: null }])
    result(await restore("erased", "--open", "erase"))
    expect(await there("erased")).toHaveLength(0)
    result(await restore("kept", "--open", "keep"))
    expect(await there("kept")).toHaveLength(1)
  })

  it("is not used until its erasures are applied: neither by a command nor by the service", async () => {
    const backup = join(service.folder, "foreign.backup")
    result(await run("backup-database", "--out", backup))
    const foreign = join(service.folder, "foreign.jsonl")
    writeFileSync(
      foreign,
      readFileSync(file, "utf8").replaceAll(/"instance_id":"[^"]+"/g, `"instance_id":"${randomUUID()}"`)
    )
    const database = await created("unfinished")
    const failed = await on(database).run("restore-database", "--in", backup, "--erasures", foreign, "--json")
    expect(refusal(failed)).toEqual([1, "erasure_file_error"])
    const after = await on(database).run("list-projects", "--json")
    expect(refusal(after)).toEqual([78, "database_unsuitable"])
    expect(after.stderr).toContain("restore")
    const doctor = await on(database).run("doctor")
    expect(doctor.code).not.toBe(0)
    expect(doctor.stdout).toContain("restore into this database did not finish")
  })

  it("a damaged erasure file is refused with its line", async () => {
    const backup = join(service.folder, "damaged.backup")
    result(await run("backup-database", "--out", backup))
    const damaged = join(service.folder, "damaged.jsonl")
    writeFileSync(damaged, readFileSync(file))
    appendFileSync(damaged, `{"erasure_id":7}\n`)
    const ended = await on(await created("damaged")).run(
      "restore-database",
      "--in",
      backup,
      "--erasures",
      damaged,
      "--json"
    )
    expect(refusal(ended)).toEqual([1, "erasure_file_error"])
    expect(ended.stderr).toContain("line ")
  })
})

describe("delete-project", () => {
  it("deletes at once with --now, and a backup of yesterday does not bring it back", async () => {
    await written("project")
    const backup = join(service.folder, "yesterday.backup")
    result(await run("backup-database", "--out", backup))
    result(await run("disable-project", "--project", project))
    await disabledLongAgo()
    const later = result(await run("delete-project", "--project", project, "--name", "Shop"))
    expect(later.deleted_at).toBeNull()
    expect(new Date(later.delete_after).getTime() - Date.now()).toBeGreaterThan(6.9 * 86_400_000)
    const deleted = result(await run("delete-project", "--project", project, "--yes", "--now"))
    expect(deleted.deleted_at).not.toBeNull()
    expect(await texts("service")).toEqual([])
    expect(result(await run("list-projects"))).toEqual({ items: [] })
    expect(
      refusal(
        await run("create-project-token", "--project", project, "--role", "reader", "--out", join(service.folder, "t"))
      )
    ).toEqual([1, "project_not_found"])
    expect(existsSync(join(service.folder, "t"))).toBe(false)
    const events = result(await run("list-audit-events", "--project", project))
    expect(JSON.stringify(events)).toContain("project.deleted")

    const database = await created("yesterday")
    result(await on(database).run("restore-database", "--in", backup, "--erasures", file, "--json"))
    expect(await texts(database)).toEqual([])
    expect(result(await on(database).run("list-projects", "--json"))).toEqual({ items: [] })
  })
})
