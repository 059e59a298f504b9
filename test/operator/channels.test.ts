/** The commands for channels of a project. Their deliveries are in test/push/channels.test.ts. */
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, expect, it } from "vitest"
import { operator } from "../../src/platform/settings/Operator.ts"
import { refusal, result, startService, type TestService } from "../support/service/ServiceAdmin.ts"

let service: TestService
let project: string
const run = (...args: ReadonlyArray<string>) => service.on("service").run(...args, "--json")
const create = (...args: ReadonlyArray<string>) => run("create-channel", "--project", project, ...args)
const url = "https://hooks.example.com/services/secret-path"

beforeAll(async () => {
  service = await startService()
  project = result(await run("create-project", "--name", "P")).project_id
})
afterAll(() => service.stop())

it(
  "a webhook is made with a new secret in a file of its own, listed without its address, rotated and revoked",
  { timeout: 120_000 },
  async () => {
    const out = join(service.folder, "hook.secret")
    const made = await create("--kind", "webhook", "--url", url, "--out", out)
    const { channel_id, ...channel } = result(made)
    expect(channel).toEqual({
      project_id: project,
      kind: "webhook",
      host: "hooks.example.com",
      titles: false,
      file: out
    })
    expect(readFileSync(out, "utf8")).toMatch(/^whsec_[A-Za-z0-9+/]{43}=\n$/)
    expect(statSync(out).mode & 0o777).toBe(0o600)
    const listed = await run("list-channels", "--project", project)
    expect(result(listed).items).toMatchObject([
      { channel_id, kind: "webhook", host: "hooks.example.com", state: "active" }
    ])
    expect(made.stdout + listed.stdout).not.toContain("secret-path")
    expect(result(await run("list-devices", "--project", project)).items).toEqual([])

    const next = join(service.folder, "hook.next")
    expect(result(await run("rotate-channel-secret", "--channel", channel_id, "--out", next))).toEqual({
      channel_id,
      signs: 2
    })
    expect(readFileSync(next, "utf8")).not.toBe(readFileSync(out, "utf8"))
    // The receiver may know only the older of the two.
    const third = join(service.folder, "hook.third")
    const more = await run("rotate-channel-secret", "--channel", channel_id, "--out", third)
    expect(refusal(more)).toEqual([1, "channel_rotation_pending"])
    expect(existsSync(third)).toBe(false)
    expect(result(await run("rotate-channel-secret", "--channel", channel_id))).toEqual({ channel_id, signs: 1 })
    const alone = await service.on("service").run("rotate-channel-secret", "--channel", channel_id)
    expect(alone.stdout).toContain("Next: npx service-admin test-channel")

    expect(refusal(await run("revoke-device", "--device", channel_id))).toEqual([1, "device_not_found"])
    const revoked = result(await run("revoke-channel", "--channel", channel_id))
    expect(result(await run("revoke-channel", "--channel", channel_id))).toEqual(revoked)
    expect(refusal(await run("test-channel", "--channel", channel_id))).toEqual([1, "channel_revoked"])
    const events = result(await run("list-audit-events", "--project", project))
      .items.filter(({ action }: { action: string }) => action.startsWith("channel."))
      .map(({ action, actor, subject }: Record<string, unknown>) => [action, actor, subject])
    expect(events).toEqual([
      ["channel.revoked", operator, { channel_id }],
      ["channel.secret_rotated", operator, { channel_id }],
      ["channel.secret_rotated", operator, { channel_id }],
      ["channel.secret_rotated", operator, { channel_id }],
      ["channel.listed", operator, {}],
      ["channel.created", operator, { channel_id }]
    ])
  }
)

it("a topic of ntfy takes its access token from a file, and a webhook its secret", { timeout: 120_000 }, async () => {
  const file = join(service.folder, "given")
  writeFileSync(file, "tk_0123456789\n")
  const ntfy = result(
    await create("--kind", "ntfy", "--url", "https://ntfy.sh/topic", "--secret-file", file, "--titles")
  )
  expect(ntfy).toMatchObject({ kind: "ntfy", host: "ntfy.sh", titles: true })
  expect(refusal(await run("rotate-channel-secret", "--channel", ntfy.channel_id))).toEqual([
    1,
    "channel_has_no_secret"
  ])
  expect((await create("--kind", "webhook", "--url", url, "--secret-file", file)).code).not.toBe(0)
  writeFileSync(file, `whsec_${Buffer.alloc(32, 1).toString("base64")}\n`)
  expect(result(await create("--kind", "webhook", "--url", url, "--secret-file", file))).toMatchObject({
    kind: "webhook"
  })
})

it("what cannot work is refused, and leaves no file", { timeout: 120_000 }, async () => {
  const out = join(service.folder, "none.secret")
  for (const [flags, code] of [
    [["--kind", "webhook", "--url", url], 64],
    [["--kind", "ntfy", "--url", "https://ntfy.sh/x", "--out", out], 64],
    [["--kind", "webhook", "--url", "not an address", "--out", out], 64]
  ] as const) {
    expect(refusal(await create(...flags))[0]).toBe(code)
  }
  expect(refusal(await create("--kind", "webhook", "--url", "http://10.0.0.1/x", "--out", out))).toEqual([
    1,
    "channel_target_not_allowed"
  ])
  const nobody = "00000000-0000-7000-8000-000000000000"
  expect(refusal(await run("revoke-channel", "--channel", nobody))).toEqual([1, "channel_not_found"])
  expect(existsSync(out)).toBe(false)
})

it("doctor fails while a key is missing on which a channel depends", { timeout: 120_000 }, async () => {
  const key = (id: string) => `${id}:${Buffer.alloc(32, id).toString("base64")}`
  const doctor = async (keys: string) => {
    const { stdout } = await service
      .on("service", { SERVICE_PUSH_TOKEN_KEYS: keys, SERVICE_PUSH_LOOKUP_KEY: "b7Tn2KdXw9Qe4RzLm6Hs1VyGp8JcAf3U" })
      .run("doctor", "--json")
    return JSON.parse(stdout).checks.filter(({ name }: { name: string }) => name === "push_keys_used")
  }
  const made = await service
    .on("service", { SERVICE_PUSH_TOKEN_KEYS: key("one"), SERVICE_PUSH_LOOKUP_KEY: "b7Tn2KdXw9Qe4RzLm6Hs1VyGp8JcAf3U" })
    .run("create-channel", "--project", project, "--kind", "ntfy", "--url", "https://ntfy.example.com/t", "--json")
  const { channel_id } = result(made)
  expect(await doctor(`${key("two")},${key("one")}`)).toEqual([])
  expect(await doctor(key("two"))).toMatchObject([{ status: "fail", message: expect.stringContaining("The key one ") }])
  result(await run("revoke-channel", "--channel", channel_id))
  // A browser that was revoked, too, still names the key with which it subscribed.
  await service.query(
    "service",
    `with subscribed as (
       insert into web_push_key (web_push_key_id, public_key, salt, token_key_id, created_at, replaced_at)
       values (gen_random_uuid(), sha256('x') || sha256('y') || '\\x04', sha256('salt'), 'one', now(), now())
       returning web_push_key_id
     ), browser as (
       select jsonb_build_object('device_id', gen_random_uuid(), 'provider', 'webpush', 'environment', 'web',
                                 'subject', gen_random_uuid(), 'web_push_key_id', web_push_key_id) as changes
         from subscribed
     )
     insert into mobile_device
     select (jsonb_populate_record(d, changes)).* from mobile_device d, browser where device_id = $1`,
    [channel_id]
  )
  expect(await doctor(key("two"))).toEqual([])
})
