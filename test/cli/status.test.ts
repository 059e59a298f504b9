/** `status` counts what there is, says what is about to end, and what was refused of late. */
import { afterAll, beforeAll, expect, it } from "vitest"
import { refusal, result, startService, type TestService } from "../support/ServiceAdmin.ts"

let service: TestService
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

const status = async () => result(await service.on("postgres").run("status", "--json"))

it("an empty service has nothing, and says how to begin", async () => {
  const { at, numbers, refused } = await status()
  expect(Math.abs(Date.parse(at) - Date.now())).toBeLessThan(60_000)
  expect(numbers).toEqual({
    projects: 0,
    disabled_projects: 0,
    pending_bridges: 0,
    active_bridges: 0,
    revoked_bridges: 0,
    tokens_near_expiry: 0,
    bridges_without_token: 0,
    pending_rotations: 0,
    oldest_rotation_at: null,
    unswept_since: null,
    agent_grants: 0,
    database_bytes: expect.any(Number)
  })
  expect(refused).toEqual([])
  const { stdout } = await service.on("postgres").run("status")
  expect(stdout).toMatch(/^Next: service-admin create-project/m)
})

it("Bridges are counted by state, with the tokens that end soon and those that no sweep has written down", async () => {
  const { project_id } = result(await service.on("postgres").run("create-project", "--name", "Shop", "--json"))
  const bridge = (name: string, state: string, life?: string) =>
    service.query(
      "postgres",
      `with bridge as (
         insert into bridge_identity (identity_id, project_id, bridge_id, status, device_id, display_name,
                                      public_key_fingerprint, account_references, created_at, enrolled_at, revoked_at)
         values (gen_random_uuid(), $1::uuid, $2::text, $3::text, 'd', 'B', 'sha256:' || repeat('0', 64), '{}', now(), now(),
                 case when $3::text = 'revoked' then now() end)
         returning identity_id)
       insert into bridge_token (token_id, identity_id, token_hash, state, derivation_salt, key_id, created_at, expires_at)
       select gen_random_uuid(), identity_id, sha256($2::text::bytea), 'active', sha256('salt'), 'k', now(), now() + $4::text::interval
         from bridge where $4::text is not null`,
      [project_id, name, state, life ?? null]
    )
  await bridge("fine", "active", "1 day")
  await bridge("late", "active", "1 hour")
  await bridge("over", "active", "-1 hour")
  await bridge("gone", "revoked")
  await service.query(
    "postgres",
    `insert into audit_event (event_id, at, project_id, actor, action, outcome, code, subject, address, user_agent, count, refusal_key)
     values (gen_random_uuid(), now(), $1::uuid, 'bridge:late', 'bridge.proof', 'refused', 'bridge_proof_invalid', '{}', '', '', 3, 'k'),
            (gen_random_uuid(), now() - interval '2 days', $1::uuid, 'bridge:late', 'mcp.write', 'refused', 'old', '{}', '', '', 1, 'l')`,
    [project_id]
  )
  const { numbers, refused } = await status()
  expect(numbers).toMatchObject({
    projects: 1,
    active_bridges: 3,
    revoked_bridges: 1,
    tokens_near_expiry: 1,
    bridges_without_token: 1,
    unswept_since: expect.stringMatching(/^\d{4}-/)
  })
  expect(refused).toEqual([
    { action: "bridge.proof", code: "bridge_proof_invalid", times: 3, last_at: expect.any(String) }
  ])
})

it("to watch needs a terminal", async () => {
  expect(refusal(await service.on("postgres").run("status", "--watch", "--json"))).toEqual([64, "usage"])
})
