/** The operator's commands for phones, dead letters and the keys of push tokens (spec 2.9, 4.12). */
import { Effect, Redacted } from "effect"
import { randomBytes, randomUUID } from "node:crypto"
import { afterAll, beforeAll, expect, it } from "vitest"
import { uuidAt } from "../../src/platform/crypto/Random.ts"
import { SealingRing } from "../../src/platform/crypto/Sealed.ts"
import { refusal, result, startService, type TestService } from "../support/service/ServiceAdmin.ts"

const nobody = "00000000-0000-4000-8000-000000000000"
const key = (id: string) => ({ id, key: Redacted.make<Uint8Array>(randomBytes(32)) })
const setting = (...keys: ReadonlyArray<ReturnType<typeof key>>) => ({
  SERVICE_PUSH_TOKEN_KEYS: keys
    .map(({ id, key }) => `${id}:${Buffer.from(Redacted.value(key)).toString("base64")}`)
    .join(",")
})
const [k1, k2] = [key("k1"), key("k2")]

let service: TestService
let project_id: string
/** Oldest first: one revoked device, three active ones. */
let devices: ReadonlyArray<{ readonly device_id: string; readonly push_token: string }>

const run = (...args: ReadonlyArray<string>) => service.on("service", setting(k2, k1)).run(...args)
const json = (...args: ReadonlyArray<string>) => run(...args, "--json")
const query = (text: string, ...values: ReadonlyArray<unknown>) => service.query("service", text, values)

/** Inserts a phone whose push token is sealed with k1. */
const insertDevice = async (minutes: number, ended = false) => {
  const device_id = await Effect.runPromise(uuidAt(new Date(Date.now() + minutes * 60_000)))
  const push_token = randomBytes(32).toString("hex")
  const ring = SealingRing.make({ purpose: "push-token", keys: [k1] })
  const sealed = await Effect.runPromise(ring.seal(Redacted.make(push_token), device_id))
  await query(
    `insert into mobile_device (
       device_id, project_id, subject, client_id, grant_id, provider, environment, topic, token_key_id, token_sealed,
       token_lookup, token_updated_at, state, state_reason, ended_at, created_at, last_seen_at, preferences)
     values ($1, $2, gen_random_uuid(), 'sci_test', gen_random_uuid(), 'apns', 'production', 'com.example.app', $3, $4,
             $5, now(), $6, $7, $8, now() + make_interval(mins => $9), now(),
             '{"kinds":{},"minimum_priority":"low","quiet_hours":null,"paused_until":null}')`,
    device_id,
    project_id,
    ended ? null : sealed.key_id,
    ended ? null : Buffer.concat([sealed.nonce, sealed.ciphertext]),
    ended ? null : randomBytes(32),
    ended ? "revoked" : "active",
    ended ? "signed_out" : null,
    ended ? new Date() : null,
    minutes
  )
  return { device_id, push_token }
}

const insertNotification = async (
  device_id: string,
  state: string,
  { about = randomUUID(), minutes = 0, lasts = 60 } = {}
) => {
  const settled = ["dead", "delivered", "suppressed"].includes(state)
  const [row] = await query(
    `insert into push_outbox (
       delivery_id, event_id, device_id, project_id, kind, reference, priority, collapse_key, state, attempts, not_before,
       expires_at, last_status, last_reason, created_at, settled_at)
     values (gen_random_uuid(), gen_random_uuid(), $1, $2, 'task.blocked', $3::uuid, 2, 't:' || $3::uuid, $4, 8,
             now() + make_interval(mins => $5::int), now() + make_interval(mins => $5::int + $6::int), 429, 'TooManyRequests',
             now() + make_interval(mins => $5::int), case when $7::boolean then now() + make_interval(mins => $5::int) end)
     returning delivery_id`,
    device_id,
    project_id,
    about,
    state,
    minutes,
    lasts,
    settled
  )
  return row!["delivery_id"] as string
}

beforeAll(async () => {
  service = await startService()
  project_id = result(await json("create-project", "--name", "Phones")).project_id
  devices = [await insertDevice(0, true), await insertDevice(1), await insertDevice(2), await insertDevice(3)]
})
afterAll(() => service.stop())

it("devices are listed up to the limit, newest first, without their push tokens", async () => {
  const [all, two, people] = await Promise.all([
    json("list-devices", "--project", project_id),
    json("list-devices", "--project", project_id, "--limit", "2"),
    run("list-devices", "--project", project_id)
  ])
  const [ended, first, second, third] = devices.map(({ device_id }) => device_id)
  const ids = ({ items }: { items: ReadonlyArray<{ device_id: string }> }) => items.map(({ device_id }) => device_id)
  expect(ids(result(all!))).toEqual([third, second, first, ended])
  expect(ids(result(two!))).toEqual([third, second])
  expect(result(all!).items[3]).toMatchObject({ state: "revoked", state_reason: "signed_out", token_key_id: null })
  expect(people).toMatchObject({ code: 0, stderr: "" })
  expect(people!.stdout).toMatch(/^device_id +state +/)
  expect(people!.stdout).toMatch(/^Next: npx service-admin revoke-device --device ID$/m)
  for (const { push_token } of devices) expect(all!.stdout + people!.stdout).not.toContain(push_token)
})

it("unknown ids and malformed values are refused", async () => {
  const [project, device, word, limit] = await Promise.all([
    json("list-devices", "--project", nobody),
    json("revoke-device", "--device", nobody),
    json("revoke-device", "--device", "mine"),
    json("list-push-dead-letters", "--limit", "1001")
  ])
  expect([refusal(project!), refusal(device!), refusal(word!), refusal(limit!)]).toEqual([
    [1, "project_not_found"],
    [1, "device_not_found"],
    [64, "usage"],
    [64, "usage"]
  ])
})

it("without notifications the commands say so", async () => {
  const [status, letters, retried] = await Promise.all([
    json("push-status"),
    run("list-push-dead-letters"),
    json("retry-push-dead-letters")
  ])
  expect(result(status!)).toEqual({
    deliveries: {},
    due_since: null,
    pauses: [],
    token_keys: { k1: 3 },
    current_key: "k2",
    web_push_keys: []
  })
  expect(letters).toMatchObject({ code: 0, stdout: expect.stringMatching(/^There are no dead letters\.$/m) })
  expect(result(retried!)).toEqual({ retried: 0 })
})

it("push-status counts waiting notifications and shows the pause with its reason", { timeout: 60_000 }, async () => {
  const { device_id } = devices[3]!
  for (const minutes of [-2, -1, 1]) await insertNotification(device_id, "pending", { minutes })
  await query(
    `insert into push_provider_state (provider, environment, paused_until, reason, failures)
     values ('apns', 'production', '2099-01-01T00:00:00Z', 'TopicDisallowed', 3)`
  )
  const [status, people] = await Promise.all([json("push-status"), run("push-status")])
  const { deliveries, due_since, pauses } = result(status!)
  expect(deliveries).toEqual({ pending: 3 })
  expect(Date.now() - Date.parse(due_since)).toBeGreaterThanOrEqual(120_000)
  const pause = { environment: "production", paused_until: "2099-01-01T00:00:00.000Z", reason: "TopicDisallowed" }
  expect(pauses).toEqual([{ ...pause, failures: 3 }])
  expect(people!.stdout).toMatch(/^production +paused until 2099-01-01T00:00:00.000Z: TopicDisallowed, 3 in a row$/m)
  expect(people!.stdout).toMatch(/^token_keys +k1: 3$/m)
  await query("delete from push_outbox")
})

it(
  "dead letters are listed newest first, and retried unless expired, outdated or for a revoked device",
  { timeout: 60_000 },
  async () => {
    const { device_id } = devices[3]!
    const about = randomUUID()
    const old = await insertNotification(device_id, "dead", { minutes: -10 })
    const young = await insertNotification(device_id, "dead", { minutes: -5 })
    const outdated = await insertNotification(device_id, "dead", { about, minutes: -4 })
    await insertNotification(device_id, "delivered", { about, minutes: -3 })
    const expired = await insertNotification(device_id, "dead", { minutes: -20, lasts: 10 })
    const nobodys = await insertNotification(devices[0]!.device_id, "dead", { minutes: -1 })
    const listed = result(await json("list-push-dead-letters")).items
    expect(listed.map((letter: { delivery_id: string }) => letter.delivery_id)).toEqual([
      nobodys,
      outdated,
      young,
      old,
      expired
    ])
    expect(listed[0]).toMatchObject({ kind: "task.blocked", attempts: 8, last_status: 429 })
    expect(result(await json("list-push-dead-letters", "--limit", "1")).items).toHaveLength(1)
    expect(result(await json("retry-push-dead-letters"))).toEqual({ retried: 2 })
    const waiting = await query(
      "select delivery_id, attempts from push_outbox where state = 'pending' order by created_at"
    )
    expect(waiting).toEqual([old, young].map((delivery_id) => ({ delivery_id, attempts: 0 })))
    const again = await run("retry-push-dead-letters")
    expect(again).toMatchObject({ code: 0, stdout: expect.stringMatching(/^retried +0$/m) })
    const audited = "select 1 from audit_event where action = 'push.dead_letters_retried'"
    expect(await query(audited)).toHaveLength(1)
  }
)

it(
  "revoking a device suppresses its notifications and deletes its push token; repeating it gives the same result",
  { timeout: 60_000 },
  async () => {
    const { device_id } = devices[3]!
    const ended = result(await json("revoke-device", "--device", device_id))
    expect(ended).toEqual({ device_id, revoked_at: expect.stringMatching(/^\d{4}-.*Z$/) })
    expect(result(await json("revoke-device", "--device", device_id))).toEqual(ended)
    const [row] = await query(
      "select num_nonnulls(token_key_id, token_sealed, token_lookup) as kept from mobile_device where device_id = $1",
      device_id
    )
    expect(row).toEqual({ kept: 0 })
    expect(result(await json("push-status")).deliveries).toMatchObject({ suppressed: 2 })
  }
)

it(
  "push tokens are sealed with the first key, repeating it changes nothing, and unreadable tokens exit with 1",
  { timeout: 60_000 },
  async () => {
    expect(result(await json("rekey-push-tokens"))).toEqual({ resealed: 2, unreadable: 0, token_keys: { k2: 2 } })
    const again = await run("rekey-push-tokens")
    expect(again).toMatchObject({ code: 0, stderr: "", stdout: expect.stringMatching(/^resealed +0$/m) })
    const without = await service.on("service", setting(key("k3"))).run("rekey-push-tokens", "--json")
    expect([without.code, JSON.parse(without.stdout)]).toEqual([
      1,
      { resealed: 0, unreadable: 2, token_keys: { k2: 2 } }
    ])
    for (const { push_token } of devices) expect(without.stdout + without.stderr).not.toContain(push_token)
  }
)
