/** `status` shows counts, what expires soon, what waits to be sent, and recent refusals. */
import { spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { createInterface } from "node:readline"
import type { Readable } from "node:stream"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { migrated, result, startService, type TestService } from "../support/service/ServiceAdmin.ts"

let service: TestService
beforeAll(async () => {
  service = await startService()
})
afterAll(() => service.stop())

const status = async () => result(await service.on("service").run("status", "--json"))

it("an empty service shows zeros and suggests creating a project", async () => {
  const { at, numbers, pauses, refused } = await status()
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
    grants_replayed_elsewhere: 0,
    active_devices: 0,
    notifications_waiting: 0,
    notification_due_since: null,
    dead_letters: 0,
    database_bytes: expect.any(Number)
  })
  expect([pauses, refused]).toEqual([[], []])
  const { stdout } = await service.on("service").run("status")
  expect(stdout).toMatch(/^Next: npx service-admin create-project/m)
})

it("Bridges are counted by state, with tokens that expire soon or are expired but not swept", async () => {
  const { project_id } = result(await service.on("service").run("create-project", "--name", "Shop", "--json"))
  const bridge = (name: string, state: string, life?: string) =>
    service.query(
      "service",
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
  await bridge("fine", "active", "3 hours")
  await bridge("late", "active", "1 hour")
  await bridge("over", "active", "-1 hour")
  await bridge("gone", "revoked")
  await service.query(
    "service",
    `with event as (
       insert into audit_event (event_id, at, project_id, actor, action, outcome, code, subject, address, user_agent)
       values (gen_random_uuid(), now() - interval '1 hour', $1::uuid, 'bridge:late', 'bridge.challenge', 'refused', 'earlier', '{}', '', ''),
              (gen_random_uuid(), now(), $1::uuid, 'bridge:late', 'bridge.proof', 'refused', 'bridge_proof_invalid', '{}', '', ''),
              (gen_random_uuid(), now() - interval '2 days', $1::uuid, 'bridge:late', 'mcp.write', 'refused', 'old', '{}', '', '')
       returning event_id, at, code
     )
     insert into audit_refusal_count (refusal_key, event_id, at, count)
     select code, event_id, at, 3 from event`,
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
    { action: "bridge.proof", code: "bridge_proof_invalid", times: 3, last_at: expect.any(String) },
    { action: "bridge.challenge", code: "earlier", times: 3, last_at: expect.any(String) }
  ])
})

it("notifications are counted by state, and paused environments are listed", async () => {
  await service.query(
    "service",
    `with person as (
       insert into project_token (token_id, token_hash, project_id, role, scopes, created_at)
       select gen_random_uuid(), sha256('t'), project_id, 'reader', '{tasks:read}', now() from project limit 1
       returning token_id, project_id
     ), app as (
       insert into oauth_client (client_id, kind, name, redirect_uris, grant_types, scopes, created_at)
       values ('app', 'operator', 'App', '{}', '{}', '{}', now()) returning client_id
     ), device as (
       insert into mobile_device (device_id, project_id, subject, client_id, grant_id, provider, environment, topic, state,
              token_key_id, token_sealed, token_lookup, token_updated_at, preferences, created_at, last_seen_at)
       select gen_random_uuid(), project_id, token_id, client_id, gen_random_uuid(), 'apns', 'production', 'a.b', 'active',
              'k', sha256('s') || sha256('s'), sha256('l'), now(), '{}', now(), now()
         from person, app
       returning device_id, project_id)
     insert into push_outbox (delivery_id, event_id, device_id, project_id, kind, priority, collapse_key, state,
            not_before, expires_at, created_at, settled_at)
     select gen_random_uuid(), gen_random_uuid(), device_id, project_id, 'task.blocked', 1, 'c', state,
            now() + wait, now() + life, now(), case when state <> 'pending' then now() end
       from device, (values ('pending', interval '-5 minutes', interval '1 hour'), ('pending', '5 minutes', '1 hour'),
                            ('pending', '-2 hours', '-1 hour'), ('dead', '0', '1 hour'), ('delivered', '0', '1 hour'))
                   as rows (state, wait, life)`
  )
  await service.query(
    "service",
    "insert into push_provider_state values ('apns', 'production', now() + interval '1 hour', 'InvalidProviderToken', 3)"
  )
  const { numbers, pauses } = await status()
  expect(numbers).toMatchObject({ active_devices: 1, notifications_waiting: 2, dead_letters: 1 })
  expect(Date.now() - Date.parse(numbers.notification_due_since)).toBeGreaterThan(299_000)
  expect(Date.now() - Date.parse(numbers.notification_due_since)).toBeLessThan(360_000)
  expect(pauses).toEqual([
    { environment: "production", paused_until: expect.any(String), reason: "InvalidProviderToken", failures: 3 }
  ])
  const { stdout } = await service.on("service").run("status")
  expect(stdout).toMatch(/^production +\d{4}-.*Z +InvalidProviderToken +3$/m)
  expect(stdout).toMatch(/^Next: npx service-admin push-status$/m)
})

/** An iterator over the lines of a stream. */
const linesOf = (stream: Readable) => createInterface(stream)[Symbol.asyncIterator]()

// Each waits for seconds, and all of them wait together.
describe.concurrent("--watch", () => {
  it("--json prints a line every two seconds until Ctrl-C, and survives a database outage", async () => {
    await service.create("watched", migrated)
    const { child, ended } = service.on("watched").start("status", "--watch", "--json")
    const [lines, errors] = [linesOf(child.stdout), linesOf(child.stderr)]
    const parsed = async (of: typeof lines) => JSON.parse((await of.next()).value!)
    const [first, second] = [await parsed(lines), await parsed(lines)]
    expect(first.numbers.projects).toBe(0)
    expect(Date.parse(second.at) - Date.parse(first.at)).toBeGreaterThan(1500)
    const name = service.nameOf("watched")
    await service.query("service", `alter database ${name} allow_connections false`)
    await service.query("service", `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`)
    expect((await parsed(errors)).error.code).toBe("bridge_persistence_error")
    await service.query("service", `alter database ${name} allow_connections true`)
    expect((await parsed(lines)).numbers.projects).toBe(0)
    child.kill("SIGINT")
    expect((await ended).code).toBe(130)
  })

  it("--json ends when its reader closes the pipe", async () => {
    const { child, ended } = service.on("service").start("status", "--watch", "--json")
    await linesOf(child.stdout).next()
    child.stdout.destroy()
    expect((await ended).code).toBe(130)
  })

  it("without a terminal prints once", async () => {
    const { code, stderr, stdout } = await service.on("service").run("status", "--watch")
    expect([code, stderr]).toEqual([0, ""])
    expect(stdout).toMatch(/^Next: /m)
  })

  it("on a terminal redraws every two seconds", async (context) => {
    if (!spawnSync("script", ["--version"]).stdout?.includes("util-linux"))
      return context.skip("needs script of util-linux")
    const { args, env, program } = service.on("service").shell("status", "--watch")
    const child = spawn("script", ["-qec", [program, ...args].join(" "), "/dev/null"], {
      env,
      stdio: ["pipe", "pipe", "inherit"]
    })
    const over = once(child, "exit")
    let drawn = ""
    child.stdout.on("data", (text: Buffer) => {
      drawn += text.toString()
      if (drawn.split("\u001B[H\u001B[2J").length === 3 && child.stdin.writable) child.stdin.end("\u0003")
    })
    expect((await over)[0]).toBe(130)
    expect(drawn).toMatch(/^active_bridges +\d/m)
    expect(drawn).not.toContain("Next:")
  })
})
