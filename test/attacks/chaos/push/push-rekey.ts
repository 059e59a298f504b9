/**
 * 2,000 tasks become blocked and three phones are notified of each. Meanwhile the key of their push tokens is replaced in
 * three steps: the servers learn the new key, every token is sealed again, the old key is removed.
 *
 * Each notification arrives once, a rolled-back change sends none, and no token stays under the old key.
 */
import { Context, Effect, Schedule } from "effect"
import { randomBytes } from "node:crypto"
import { Tasks } from "../../../../src/agents/tasks/Tasks.ts"
import type { Actor } from "../../../../src/wire/Actor.ts"
import { apnsSimulator, settingsFor } from "../../../support/phones/ApnsSimulator.ts"
import { fleet, servicesOf } from "../../../support/phones/Fleet.ts"
import { admin, awaiting, chaos, environment, scratch, type Server, server, size, until } from "../harness.ts"

const changes = size(2000, 100)
const devices = 3

let blocked = 0
const key = (id: string) => `${id}:${randomBytes(32).toString("base64")}`
const use = (...keys: ReadonlyArray<string>) => (process.env["SERVICE_PUSH_TOKEN_KEYS"] = keys.join(","))

/** Starts with the current environment. */
const restart = ({ start, stop }: Server) => Effect.andThen(stop, start)

chaos(
  "push-rekey",
  () => ({ blocked }),
  Effect.gen(function* () {
    const folder = yield* scratch
    const simulator = yield* apnsSimulator()
    Object.assign(process.env, settingsFor(simulator, folder))
    const [k1, k2] = [key("k1"), key("k2")]
    use(k1)
    const first = yield* server(folder)
    const second = yield* server(folder)
    const services = yield* servicesOf(environment(folder, first.port))
    const on = yield* fleet({ url: first.url, services }, simulator, devices)
    const tasks = Context.get(services, Tasks)
    const { project_id, subject } = on.person
    const actor: Actor = {
      project_id,
      project_name: "",
      role: "contributor",
      scopes: new Set(),
      credential_id: subject,
      subject,
      client_id: null,
      grant_id: null,
      instance_id: "",
      limits: {}
    }

    const ids = yield* on.sql<{ readonly id: string }>`
      insert into task (
        project_id, id, title, body, status, priority, tags, version, created_by, created_at, updated_at)
      select ${project_id}::uuid, gen_random_uuid(), 'Task', '', 'open', 2, '{}', 1, 'chaos', clock_timestamp(),
             clock_timestamp()
        from generate_series(1, ${changes}::int)
      returning id`
    // A phone keeps the newest 300 that wait.
    const inTime = on.sql`
      select
        from push_outbox
       where state in ('pending', 'leased')
       group by device_id
      having count(*) > 200`.pipe(
      Effect.repeat({ until: ({ length }) => length === 0, schedule: Schedule.spaced("50 millis") })
    )
    const block = Effect.fnUntraced(function* ({ id }: { readonly id: string }, n: number) {
      if (n % 10 === 0) yield* awaiting("phones that have caught up", inTime)
      const change = { id, expected_version: 1, status: "blocked", blocked_kind: "decision" } as const
      const update = tasks.update(actor, change)
      // Every tenth change is rolled back once.
      if (n % 10 === 0) {
        yield* Effect.ignore(on.sql.withTransaction(Effect.andThen(update, Effect.fail("undone"))))
      }
      yield* update
      blocked++
    })
    const changing = Effect.forEach(ids, block, { concurrency: 6 })

    const past = (share: number) => until(`${changes * share} changes`, () => blocked >= changes * share)
    const replacing = Effect.gen(function* () {
      yield* past(0.2)
      use(k2, k1)
      yield* restart(first)
      // Sealed under the new key, which the second server does not know yet: it pauses, and continues after its restart.
      yield* on.phones[0]!.register()
      yield* restart(second)
      const { unreadable } = yield* admin(folder, "rekey-push-tokens")
      yield* past(0.8)
      use(k2)
      yield* restart(first)
      yield* restart(second)
      return unreadable as number
    })
    const [unreadable] = yield* Effect.all([replacing, changing], { concurrency: 2 })
    yield* awaiting("an empty outbox", on.settled)

    const { came, twice, violations } = yield* on.judge(changes * devices)
    if (twice > 0) violations.push(`${twice} came twice`)
    if (unreadable > 0) violations.push(`${unreadable} tokens could not be read`)
    const keys = yield* on.sql<{ readonly token_key_id: string }>`
      select distinct token_key_id from mobile_device`
    if (keys.some(({ token_key_id }) => token_key_id !== "k2")) violations.push("a token is still under the old key")
    return { figures: { changes: blocked, notifications: came }, violations }
  }).pipe(Effect.orDie)
)
