/** Scenes with a phone: the companion app receives the notifications that its owner wants (spec 2.9, 4.12, 4.13). */
import { Clock, Effect, Fiber, Redacted } from "effect"
import { FetchHttpClient } from "effect/http"
import { randomBytes } from "node:crypto"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { generateKeyPair } from "../../src/client/Crypto.ts"
import * as Companion from "../../src/client/Companion.ts"
import type { ApnsSimulator } from "../../test/support/phones/ApnsSimulator.ts"
import { agent } from "./Agent.ts"
import { answers, callback, consents } from "./Person.ts"
import { DemoError, expected, print, type Scene } from "./Stage.ts"

/** Set by one scene and used by the next ones. */
let project_id: string
let companion: Effect.Success<ReturnType<typeof app>>
let agentTools: ReturnType<typeof agent>
let write_context: object
let token: Redacted.Redacted<string>
let asked: { readonly id: string; readonly version: number }

export const phones = (apns: ApnsSimulator): ReadonlyArray<Scene> => [
  {
    title: "A person signs in on a phone: the companion app uses the browser, as an agent does",
    play: Effect.fnUntraced(function* ({ admin, base_url, scratch, via }) {
      project_id = (yield* admin("create-project", "--name", "Demo of phones")).project_id
      const out = join(scratch, "person-token")
      yield* admin("create-project-token", "--project", project_id, "--role", "contributor", "--out", out)
      const allowed = ["--application-type", "native", "--redirect-uri", callback, "--scope", "mobile:devices"]
      const { client_id } = yield* admin("create-oauth-client", "--name", "Demo companion", ...allowed)
      token = Redacted.make(readFileSync(out, "utf8").trim())
      companion = yield* app(base_url, client_id, token, via)
      const forAgents = join(scratch, "agent-token")
      const agents = ["--role", "contributor", "--no-console", "--out", forAgents]
      yield* admin("create-project-token", "--project", project_id, ...agents)
      agentTools = agent(base_url, Redacted.make(readFileSync(forAgents, "utf8").trim()), via)
      yield* companion.signIn
    })
  },
  {
    title: "The app registers its push token, which no answer contains",
    play: () => companion.register(Redacted.make(randomBytes(32).toString("hex")))
  },
  {
    title: "Its owner sets quiet hours for now, except for urgent notifications",
    play: Effect.fnUntraced(function* () {
      const now = yield* Clock.currentTimeMillis
      const clock = (hours: number) => new Date(now + hours * 3_600_000).toISOString().slice(11, 16)
      yield* companion.setPreferences({
        kinds: {},
        minimum_priority: "low",
        quiet_hours: {
          enabled: true,
          start: clock(-1),
          end: clock(2),
          time_zone: "Etc/UTC",
          days: ["mon", "tue", "wed", "thu", "fri", "sat", "sun"],
          allow_urgent: true
        },
        paused_until: null
      })
    })
  },
  {
    title: "An agent needs a decision: the phone is notified, and Apple sees no text of the task",
    play: Effect.fnUntraced(function* () {
      write_context = (yield* agentTools.done("server_identity")).write_context
      asked = yield* blocked("Choose the colour of the ferry", "decision", { choices: ["blue", "white"] })
      const payload = yield* arrival(apns)
      yield* expected("task.needs_decision", JSON.parse(payload).k)
      yield* expected("false", String(/ferry/i.test(payload)))
    })
  },
  {
    title: "The person opens the link, signs in to the console and answers; the agent that waits goes on",
    play: Effect.fnUntraced(function* ({ base_url, via }) {
      const { id, version } = asked
      const waiting = yield* Effect.forkChild(agentTools.done("task_wait", { id, version }))
      yield* answers(new URL(`/console/open/${id}`, base_url), token, "blue", via)
      const { changed, task } = yield* Fiber.join(waiting)
      yield* expected("true", String(changed))
      yield* expected("blue", task.answer.text)
      yield* expected("false", String(task.answer.same_credential))
    })
  },
  {
    title: "Another task waits for paint: its notification is held until the quiet hours end",
    play: Effect.fnUntraced(function* ({ admin }) {
      yield* blocked("Paint the ferry", "external")
      const { deliveries } = yield* admin("push-status")
      yield* expected("1", String(deliveries.pending))
    })
  },
  {
    title: "The person signs out: the device is revoked first, and it gets no more notifications",
    play: Effect.fnUntraced(function* ({ admin }) {
      yield* companion.signOut
      yield* blocked("Choose the name of the ferry", "decision")
      const { items } = yield* admin("list-devices", "--project", project_id)
      yield* expected("revoked", items[0]?.state)
      const { deliveries } = yield* admin("push-status")
      yield* expected(`{"delivered":1,"suppressed":1}`, JSON.stringify(deliveries))
      yield* expected("1", String(apns.received.length))
    })
  }
]

const app = (base_url: string, client_id: string, project_token: Redacted.Redacted<string>, via: typeof fetch) => {
  let kept = Companion.nothing
  return Effect.flatMap(generateKeyPair, (keys) =>
    Companion.make<DemoError>({
      base_url,
      client_id,
      redirect_uri: callback,
      environment: "development",
      app_version: "1.0.0",
      keys: Effect.succeed(keys),
      browser: (authorize) => consents(authorize, project_token, via),
      store: { load: Effect.sync(() => kept), save: (next) => Effect.sync(() => void (kept = next)) }
    })
  ).pipe(Effect.provide(FetchHttpClient.layer), Effect.provideService(FetchHttpClient.Fetch, via))
}

const blocked = Effect.fnUntraced(function* (title: string, blocked_kind: string, more: object = {}) {
  const { task } = yield* agentTools.done("task_create", { title, write_context })
  const change = { status: "blocked", blocked_kind, ...more, expected_version: task.version, write_context }
  const changed = yield* agentTools.done("task_update", { id: task.id, ...change })
  return changed.task as { readonly id: string; readonly version: number }
})

/** Waits for the first notification at the APNs simulator, prints it and returns its payload. */
const arrival = Effect.fnUntraced(function* ({ received }: ApnsSimulator) {
  yield* Effect.repeat(Effect.sleep("20 millis"), { until: () => received.length > 0 }).pipe(
    Effect.timeout("10 seconds"),
    Effect.mapError(() => new DemoError({ message: "No notification arrived within ten seconds." }))
  )
  const [{ collapse_id, delivery_id, payload, priority }] = received as [(typeof received)[number]]
  print(`  APNs   apns-id: ${delivery_id}   apns-priority: ${priority}   apns-collapse-id: ${collapse_id}`)
  print(`    ${payload}`)
  return payload
})
