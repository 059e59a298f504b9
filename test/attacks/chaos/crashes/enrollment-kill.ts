/**
 * Kills the server ten times while Bridges enroll.
 *
 * No acknowledged enrollment is lost, no credential yields a second token, and each start takes less than 2 s.
 */
import { Effect } from "effect"
import { join } from "node:path"
import {
  bridge,
  chaos,
  draw,
  ledger,
  operator,
  percentile,
  rowsOf,
  scratch,
  server,
  size,
  until,
  wire
} from "../harness.ts"

const bridges = size(200, 20)
const kills = size(10, 1)
/** Milliseconds from start to ready; in the test command the machine is shared with other tests. */
const bound = size(2000 * Number(process.env["SERVICE_PROCESSES"] ?? 1), 30_000)

const starts: Array<number> = []

chaos(
  "enrollment-kill",
  () => ({ kills: starts.length, requests_without_answer: wire.lost }),
  Effect.gen(function* () {
    const folder = yield* scratch
    const { killSome, url } = yield* server(folder)
    const { credentials, project_id } = yield* operator(folder, bridges)
    const { note, noted } = yield* ledger(folder)
    const violations: Array<string> = []

    const enrolling = Effect.forEach(
      credentials,
      (credential, index) =>
        Effect.gen(function* () {
          const name = `bridge-${index}`
          const identity = { project_id, bridge_id: name, device_id: "chaos", display_name: name }
          yield* note("intent", name)
          const one = yield* bridge(join(folder, "states", name))
          yield* one.enroll({ base_url: url, identity, credential })
          yield* note("ack", name)
        }).pipe(
          Effect.scoped,
          Effect.catch(({ _tag }) => Effect.sync(() => violations.push(`bridge-${index}: ${_tag}`)))
        ),
      { concurrency: 12 }
    )

    const killing = Effect.gen(function* () {
      while (starts.length < kills) {
        const due = ((starts.length + 0.5) / kills) * bridges
        yield* until(`${due} enrollments`, () => noted("ack").length + violations.length >= due)
        yield* Effect.sleep(draw() * 50)
        starts.push(yield* killSome())
      }
    })
    yield* Effect.all([enrolling, killing], { concurrency: 2 })

    const acknowledged = noted("ack")
    yield* Effect.forEach(
      acknowledged,
      (name) =>
        bridge(join(folder, "states", name)).pipe(
          Effect.flatMap((one) => one.status),
          Effect.scoped,
          Effect.catch(({ _tag }) =>
            Effect.sync(() => violations.push(`${name} was acknowledged but is lost: ${_tag}`))
          )
        ),
      { concurrency: 8, discard: true }
    )
    const tokens = (yield* rowsOf(folder, "bridge_token")).map(({ identity_id }) => identity_id)
    if (tokens.length !== new Set(tokens).size) violations.push("an identity has a second token")
    if (tokens.length < acknowledged.length) violations.push("fewer tokens than acknowledged enrollments")
    const slow = starts.filter((millis) => millis >= bound).length
    if (slow > 0) violations.push(`${slow} starts took ${bound} ms or more`)

    return {
      figures: {
        intended: noted("intent").length,
        acknowledged: acknowledged.length,
        tokens: tokens.length,
        kills: starts.length,
        requests_without_answer: wire.lost,
        median_restart_ms: percentile(starts, 0.5),
        slowest_restart_ms: Math.max(...starts)
      },
      violations
    }
  })
)
