/**
 * Delivers notifications from the outbox to the provider (claim, open the token, send, settle), in turns with a
 * node:http2 client that only sends, to the same APNs simulator. Then measures what delivery costs other requests: the
 * bearer lookup of a Bridge without notifications, with a hundred a second, and with a hundred a second while APNs never
 * answers.
 *
 * The simulator runs in this process.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect, Redacted } from "effect"
import { createPrivateKey, randomBytes, randomUUID } from "node:crypto"
import * as http2 from "node:http2"
import { providerToken } from "../src/push/channels/apns/ProviderToken.ts"
import { type ApnsSimulator, apnsSimulator, settingsFor } from "../test/support/phones/ApnsSimulator.ts"
import { fleet } from "../test/support/phones/Fleet.ts"
import { temporaryFolder } from "../test/support/database/PostgresUser.ts"
import * as harness from "./support/harness.ts"
import { figure, ratio, report } from "./support/report.ts"

const count = 5000
const devices = 10

/** One session, one provider token, and as many concurrent streams as the service uses. */
const sendOnly = ({ ca, key, keyId, origin, teamId, topic }: ApnsSimulator, at: Date) =>
  Effect.promise(async () => {
    const session = http2.connect(origin, { ca })
    const { jwt } = providerToken({ teamId, keyId, key: createPrivateKey(key) }, at)
    const send = () =>
      new Promise<void>((resolve, reject) => {
        const stream = session.request({
          ":method": "POST",
          ":path": `/3/device/${randomBytes(32).toString("hex")}`,
          authorization: `bearer ${Redacted.value(jwt)}`,
          "apns-id": randomUUID(),
          "apns-topic": topic,
          "apns-push-type": "alert"
        })
        stream.on("response", ({ ":status": status }) => status === 200 || reject(new Error(String(status))))
        stream.on("close", resolve).on("error", reject).resume()
        stream.end(`{"aps":{"alert":{"title-loc-key":"N_TASK_BLOCKED_TITLE","loc-key":"N_TASK_BLOCKED_BODY"}}}`)
      })
    // APNs allows a single stream until it has seen a provider token.
    await send()
    let left = count - 1
    const client = async () => {
      while (left-- > 0) await send()
    }
    await Promise.all(Array.from({ length: 50 }, client))
    session.close()
  })

const timed = Effect.fnUntraced(function* <E>(work: Effect.Effect<unknown, E>) {
  const from = performance.now()
  yield* work
  const seconds = (performance.now() - from) / 1000
  return { count, seconds, per_second: count / seconds }
})

const main = Effect.gen(function* () {
  const simulator = yield* apnsSimulator()
  const on = yield* harness.startWith({
    ...settingsFor(simulator, yield* temporaryFolder),
    SERVICE_LOG_LEVEL: "Fatal",
    // Sign-ins made in this process are valid at the server because both have the same base URL.
    SERVICE_BASE_URL: "http://127.0.0.1:8787"
  })
  const { clean, notify, phones, settled } = yield* fleet({ url: on.url, services: on.context }, simulator, devices)

  const delivering = timed(Effect.andThen(notify(count / devices), settled))
  yield* delivering
  yield* clean
  const { delivered, sent } = yield* harness.inTurns({
    delivered: () => delivering,
    sent: () => timed(sendOnly(simulator, new Date()))
  })
  yield* clean

  const seconds = Math.max(1, Math.floor((harness.seconds - 30) / (harness.rounds * 3)))
  const lookups = Effect.gen(function* () {
    const first = yield* on.issue(harness.connections * 4)
    const { project_id, url: service } = on
    const load = { operation: "self" as const, service, seconds, count: 1_000_000, project_id, first }
    return yield* harness.measure(on, on, load)
  })
  const notifying = Effect.forever(Effect.andThen(notify(1), Effect.sleep("100 millis")))
  const lookupsWhileNotifying = Effect.raceFirst(lookups, notifying)
  yield* lookups
  const { down, idle, up } = yield* harness.inTurns({
    idle: () => lookups,
    up: () => lookupsWhileNotifying,
    down: () =>
      Effect.gen(function* () {
        for (const { token } of phones) simulator.faults.set(token, "hang")
        const measured = yield* lookupsWhileNotifying
        simulator.faults.clear()
        simulator.drop()
        yield* on.sql`delete from push_outbox`
        yield* on.sql`delete from push_provider_state`
        return measured
      })
  })

  report("push", [
    figure("notifications, outbox to provider", delivered, { note: "aim: 500 a second" }),
    figure("node:http2 that only sends", sent, { ratio: ratio("rate", delivered, sent, { least: 0.25 }) }),
    figure("tokens/self, no notifications", idle),
    figure("tokens/self, 100 notifications a second", up, { ratio: ratio("p99", up, idle, { most: 1.1 }) }),
    figure("tokens/self, 100 notifications a second that APNs never answers", down, {
      ratio: ratio("p99", down, up, { most: 1.1 })
    })
  ])
})

NodeRuntime.runMain(Effect.scoped(main))
