/**
 * Two servers deliver notifications, and one or the other is killed ten times meanwhile.
 *
 * None is lost. One that was on its way at a kill may come twice, with the same id and the same collapse id, so that the
 * phone shows it once.
 */
import { Effect } from "effect"
import { apnsSimulator, settingsFor } from "../../../support/phones/ApnsSimulator.ts"
import { fleet, servicesOf } from "../../../support/phones/Fleet.ts"
import { awaiting, chaos, draw, environment, percentile, scratch, server, size, sliced, until } from "../harness.ts"

const notifications = size(6000, 600)
const kills = size(10, 1)
const devices = 3

const starts: Array<number> = []

chaos(
  "push-kill",
  () => ({ kills: starts.length }),
  Effect.gen(function* () {
    const folder = yield* scratch
    const simulator = yield* apnsSimulator()
    // The servers of the harness start in the environment of this process.
    Object.assign(process.env, settingsFor(simulator, folder))
    const first = yield* server(folder)
    const second = yield* server(folder)
    const services = yield* servicesOf(environment(folder, first.port))
    const { judge, notify, settled, sql } = yield* fleet({ url: first.url, services }, simulator, devices)

    for (let kill = 0; kill < kills; kill++) {
      const half = simulator.received.length + notifications / kills / 2
      yield* notify(notifications / kills / devices)
      // Both are at work on them then.
      yield* until(`${half} notifications`, () => simulator.received.length >= half)
      starts.push(yield* (draw() < 0.5 ? first : second).killAndRestart)
    }
    // What a killed server had claimed comes back when its lease is over: in the slice at once.
    if (sliced) yield* sql`update push_outbox set lease_until = clock_timestamp() where state = 'leased'`
    yield* awaiting("an empty outbox", settled)
    const { came, twice, violations } = yield* judge(notifications)
    if (twice === 0) violations.push("no kill met a notification on its way")
    if (twice > kills * 100) violations.push(`${twice} came twice, more than were on their way`)

    return {
      figures: {
        notifications: came,
        came_twice: twice,
        kills: starts.length,
        median_restart_ms: percentile(starts, 0.5)
      },
      violations
    }
  }).pipe(Effect.orDie)
)
