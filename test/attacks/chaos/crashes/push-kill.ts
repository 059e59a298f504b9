/**
 * Two servers deliver notifications; ten times one of them is killed.
 *
 * No notification is lost. One that was being sent at a kill may be sent twice, with the same id and the same collapse
 * id, so that the phone shows it once.
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
    // So that every kill interrupts deliveries: accepted, and not yet answered.
    simulator.answersAfter = 50
    // The harness starts servers with the environment of this process.
    Object.assign(process.env, settingsFor(simulator, folder))
    const first = yield* server(folder)
    const second = yield* server(folder)
    const services = yield* servicesOf(environment(folder, first.port))
    const { judge, notify, settled, sql } = yield* fleet({ url: first.url, services }, simulator, devices)

    for (let kill = 0; kill < kills; kill++) {
      const half = simulator.received.length + notifications / kills / 2
      yield* notify(notifications / kills / devices)
      // By now both servers are delivering.
      yield* until(`${half} notifications`, () => simulator.received.length >= half)
      // Of several processes the first one delivers.
      starts.push(yield* (draw() < 0.5 ? first : second).killSome(1))
    }
    // Deliveries leased by a killed server return when the lease expires; the slice lets it expire at once.
    if (sliced) yield* sql`update push_outbox set lease_until = clock_timestamp() where state = 'leased'`
    yield* awaiting("an empty outbox", settled)
    const { came, twice, violations } = yield* judge(notifications)
    // The one kill of a slice may come between two deliveries.
    if (twice === 0 && !sliced) violations.push("no kill interrupted a delivery")
    if (twice > kills * 100) violations.push(`${twice} notifications came twice, more than were in flight`)

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
