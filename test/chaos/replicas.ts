/**
 * One of two replicas is killed ten times while 50 Bridges rotate 2,000 times (issue: tokens live and die).
 *
 * At the end each Bridge works with the one active token it has, nothing is pending, and nobody needed a new credential.
 */
import { Effect } from "effect"
import { join } from "node:path"
import {
  admin,
  balancer,
  bridge,
  chaos,
  draw,
  operator,
  percentile,
  rowsOf,
  scratch,
  server,
  size,
  wire
} from "./harness.ts"

const bridges = size(50, 10)
const rotations = size(2000, 100)
const kills = size(10, 2)

const millis: Array<number> = []
const starts: Array<number> = []

chaos(
  "replicas",
  () => ({ rotations: millis.length, kills: starts.length, requests_without_answer: wire.lost }),
  Effect.gen(function* () {
    const folder = yield* scratch
    const replicas = [yield* server(folder), yield* server(folder)]
    const base_url = yield* balancer(replicas.map(({ port }) => port))
    const { credentials, project_id } = yield* operator(folder, bridges)
    const violations: Array<string> = []

    const names = credentials.map((_, index) => `bridge-${index}`)
    const fleet = yield* Effect.forEach(
      credentials,
      Effect.fnUntraced(function* (credential, index) {
        const name = names[index]!
        const identity = { project_id, bridge_id: name, device_id: "chaos", display_name: name }
        const one = yield* bridge(join(folder, "states", name))
        yield* one.enroll({ base_url, identity, credential })
        return one
      }),
      { concurrency: 8 }
    )

    const asked = new Map<string, number>()
    const from = performance.now()
    const life = (one: (typeof fleet)[number], name: string) =>
      Effect.gen(function* () {
        while (millis.length < rotations) {
          const start = performance.now()
          yield* one.rotate
          millis.push(performance.now() - start)
        }
      }).pipe(
        Effect.catch(({ _tag }) =>
          Effect.sync(() => {
            asked.set(_tag, (asked.get(_tag) ?? 0) + 1)
            violations.push(`${name} is stranded: ${_tag}`)
          })
        )
      )

    const killing = Effect.gen(function* () {
      while (starts.length < kills) {
        const due = ((starts.length + 0.5) / kills) * rotations
        yield* Effect.repeat(Effect.sleep("10 millis"), {
          until: () => millis.length >= due || violations.length >= bridges
        })
        yield* Effect.sleep(draw() * 50)
        starts.push(yield* replicas[draw() < 0.5 ? 0 : 1]!.killAndRestart)
      }
    })
    yield* Effect.all(
      [Effect.forEach(fleet, (one, index) => life(one, names[index]!), { concurrency: bridges }), killing],
      {
        concurrency: 2
      }
    )
    const seconds = (performance.now() - from) / 1000

    const cannotWork = (index: number) => (failure: { readonly _tag: string }) =>
      Effect.sync(() => void violations.push(`${names[index]} cannot work: ${failure._tag}`))
    yield* Effect.forEach(fleet, ({ status }, index) => status.pipe(Effect.asVoid, Effect.catch(cannotWork(index))), {
      concurrency: 8
    })
    const states = (yield* rowsOf(folder, "bridge_token")).map(({ state }) => state)
    const active = states.filter((state) => state === "active").length
    if (active !== bridges) violations.push(`${active} active tokens for ${bridges} Bridges`)
    if (states.includes("pending")) violations.push("a successor is pending still")
    const { items } = yield* admin(folder, "list-bridge-enrollment-credentials", "--project", project_id)
    if (items.length !== bridges) violations.push(`${items.length} credentials for ${bridges} Bridges`)

    return {
      figures: {
        bridges,
        rotations: millis.length,
        kills: starts.length,
        requests_without_answer: wire.lost,
        rotations_per_second: Math.round(millis.length / seconds),
        p50_ms: Math.round(percentile(millis, 0.5)),
        p99_ms: Math.round(percentile(millis, 0.99)),
        slowest_restart_ms: Math.max(...starts),
        active_tokens: active,
        stranded: asked.size
      },
      violations
    }
  })
)
