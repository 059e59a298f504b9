/** Commands that nothing undoes ask at a terminal, and only there. */
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest"
import { refusal, result, startService, type TestService } from "../../support/service/ServiceAdmin.ts"
import { hasTerminals, typed } from "../../support/service/Terminal.ts"

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

let service: TestService
let project: string

const run = (...args: ReadonlyArray<string>) => service.on("service").run(...args, "--json")
const token = async (name: string): Promise<string> => {
  const out = join(service.folder, name)
  return result(await run("create-project-token", "--role", "reader", "--label", name, "--out", out)).token_id
}
const isRevoked = async (token_id: string) =>
  (
    await service.query("service", "select from project_token where token_id = $1 and revoked_at is not null", [
      token_id
    ])
  ).length === 1

const onTerminal = (answer: string, ...args: ReadonlyArray<string>) =>
  typed(answer, service.on("service").shell(...args))

beforeAll(async () => {
  service = await startService()
  project = result(await run("create-project", "--name", "Shop")).project_id
})
afterAll(() => service.stop())

describe.skipIf(!hasTerminals)("on a terminal (needs script of util-linux)", () => {
  it.each([["yes, but\n"], ["\u0004"]])("the answer %j changes nothing", async (answer) => {
    const token_id = await token(`no ${answer.charCodeAt(0)} ${answer.length}`)
    const { code, shown } = await onTerminal(answer, "revoke-project-token", "--token", token_id)
    expect(shown).toContain("revoke-project-token is about to end:")
    expect(shown).toMatch(/sign_ins +0/)
    expect(shown).toContain("Not confirmed: nothing was changed.")
    expect([code, await isRevoked(token_id)]).toEqual([1, false])
  })
  it("the answer y does it, and --yes asks nothing", async () => {
    const [one, other] = [await token("asked"), await token("not asked")]
    const asked = await onTerminal("y\n", "revoke-project-token", "--token", one)
    expect([asked.code, await isRevoked(one)]).toEqual([0, true])
    expect(asked.shown.match(/Database: /g)).toHaveLength(1)
    const unasked = await onTerminal("", "revoke-project-token", "--token", other, "--yes")
    expect(unasked.shown).not.toContain("[y/N]")
    expect([unasked.code, await isRevoked(other)]).toEqual([0, true])
  })
  it("what destroys content asks instead of wanting --yes, and --json never asks", async () => {
    const deletion = ["delete-project", "--project", project]
    const { code, shown } = await onTerminal("n\n", ...deletion)
    expect(code).toBe(1)
    expect(shown).toMatch(/name +Shop/)
    const json = await onTerminal("", ...deletion, "--json")
    expect([json.code, json.shown.includes("[y/N]")]).toEqual([64, false])
  })
})

describe("--dry-run", () => {
  it("says what the command would end, and changes nothing", async () => {
    const token_id = await token("dry")
    const of = ["--token", token_id.slice(0, 23), "--dry-run"]
    expect(result(await run("revoke-project-token", ...of))).toMatchObject({ dry_run: true, token_id, sign_ins: 0 })
    const { stderr, stdout } = await service.on("service").run("revoke-project-token", ...of)
    expect(stderr).toBe("")
    expect(stdout).toMatch(/^Nothing was changed\.\nNext: .*revoke-project-token --token=[0-9a-f-]{23}$/m)
    expect(await isRevoked(token_id)).toBe(false)
    await service.query(
      "service",
      `insert into memory_entry (project_id, id, kind, title, body, tags, actor, role, created_at)
       select $1::uuid, gen_random_uuid(), 'note', 'T', 'B', '{}', 'agent', 'contributor', now() - make_interval(days => age)
         from unnest(array[8, 31]) age`,
      [project]
    )
    const retention = [
      "set-project-limits",
      "--project",
      "Shop",
      "--memory-days",
      "30",
      "--receipt-days",
      "7",
      "--dry-run"
    ]
    expect(result(await run(...retention))).toMatchObject({
      dry_run: true,
      project_id: project,
      entries: 1,
      receipts: 0
    })
    expect(result(await run("erase-subject", "--project", "Shop", "--label", "dry", "--dry-run"))).toMatchObject({
      tokens: 1
    })
    expect(result(await run("show-project-limits", "--project", "Shop")).items).toContainEqual(
      expect.objectContaining({ limit: "memory_days", value: null })
    )
  })
  it("fails if there is nothing to end", async () => {
    const nobody = ["revoke-bridge", "--project", "Shop", "--bridge", "nobody", "--dry-run"]
    expect(refusal(await run(...nobody))).toEqual([1, "nothing_found"])
  })
})
