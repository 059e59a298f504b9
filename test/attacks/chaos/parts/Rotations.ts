/**
 * 50 Bridges rotate 2,000 times at one address while `kill` kills what serves there, ten times.
 *
 * At the end each Bridge has exactly one active token and it works, nothing is pending, and no Bridge needed a new
 * credential. The invariants held whenever they were checked in between. The answers to each Bridge and to its observer
 * are linearizable: one sequential service could have given them.
 */
import { Effect, Redacted } from "effect"
import { FetchHttpClient, HttpClient, HttpClientRequest } from "effect/http"
import type { SqlClient } from "effect/sql"
import { join } from "node:path"
import { violatedInvariants } from "../../../support/attacks/Invariants.ts"
import { admin, bridge, draw, operator, percentile, rowsOf, size, until, wire } from "../harness.ts"
import { keysIn } from "../../../support/bridges/signatures/DpopProofs.ts"
import { dpopProof } from "../../../../src/client/Dpop.ts"
import { makeHistory } from "./History.ts"

const bridges = size(50, 10)
const rotations = size(2000, 100)
const kills = size(10, 1)

const millis: Array<number> = []
const starts: Array<number> = []

export const progress = () => ({ rotations: millis.length, kills: starts.length, requests_without_answer: wire.lost })

/** `kill` returns the milliseconds until what it killed serves again. */
export const rotateUnderKills = Effect.fnUntraced(function* <E>(on: {
  readonly folder: string
  readonly base_url: string
  readonly sql: SqlClient.SqlClient
  readonly kill: Effect.Effect<number, E>
}) {
  const { base_url, folder, kill, sql } = on
  const { credentials, project_id } = yield* operator(folder, bridges)
  const violations: Array<string> = []

  const histories = credentials.map(() => makeHistory())
  const names = credentials.map((_, index) => `bridge-${index}`)
  const fleet = yield* Effect.forEach(
    credentials,
    Effect.fnUntraced(function* (credential, index) {
      const name = names[index]!
      const identity = { project_id, bridge_id: name, device_id: "chaos", display_name: name }
      const history = histories[index]!
      const one = yield* bridge(join(folder, "states", name), history.watch)
      yield* one.enroll({ base_url, identity, credential })
      history.begin(yield* one.token)
      return one
    }),
    { concurrency: 8 }
  )

  const stranded = new Map<string, number>()
  const from = performance.now()
  const rotating = (one: (typeof fleet)[number], name: string) =>
    Effect.gen(function* () {
      while (millis.length < rotations) {
        const start = performance.now()
        yield* one.rotate
        millis.push(performance.now() - start)
      }
    }).pipe(
      Effect.catch(({ _tag }) =>
        Effect.sync(() => {
          stranded.set(_tag, (stranded.get(_tag) ?? 0) + 1)
          violations.push(`${name} is stranded: ${_tag}`)
        })
      )
    )

  /** Now and then an observer, who has the Bridge's key, presents one of its tokens. */
  const observing = Effect.forEach(
    histories,
    ({ secret, watch }, index) =>
      Effect.gen(function* () {
        const keys = keysIn(join(folder, "states", names[index]!))
        yield* Effect.sleep(size(500, 200) + draw() * 500)
        const self = HttpClientRequest.get(`${base_url}/bridge/v1/tokens/self`)
        const token = secret(draw())
        const proof = yield* dpopProof(keys, self, Redacted.make(token), Date.now())
        const request = self.pipe(HttpClientRequest.bearerToken(token), HttpClientRequest.setHeader("dpop", proof))
        yield* Effect.ignore(watch(HttpClient.execute(request).pipe(Effect.provide(FetchHttpClient.layer)), request))
      }).pipe(Effect.forever),
    { concurrency: "unbounded" }
  )
  const brokenInvariants = new Set<string>()
  let samples = 0
  const sampling = Effect.gen(function* () {
    for (const { broken } of yield* violatedInvariants(sql)) brokenInvariants.add(`invariant broken: ${broken}`)
    samples++
    yield* Effect.sleep("100 millis")
  }).pipe(Effect.forever)

  const killing = Effect.gen(function* () {
    while (starts.length < kills) {
      const due = ((starts.length + 0.5) / kills) * rotations
      yield* until(`${due} rotations`, () => millis.length >= due || violations.length >= bridges)
      yield* Effect.sleep(draw() * 50)
      starts.push(yield* kill)
    }
  })
  yield* Effect.raceFirst(
    Effect.all(
      [Effect.forEach(fleet, (one, index) => rotating(one, names[index]!), { concurrency: bridges }), killing],
      {
        concurrency: 2
      }
    ),
    Effect.all([observing, sampling], { concurrency: 2 })
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
  if (states.includes("pending")) violations.push("a successor is still pending")
  const { items } = yield* admin(folder, "list-bridge-enrollment-credentials", "--project", project_id)
  if (items.length !== bridges) violations.push(`${items.length} credentials for ${bridges} Bridges`)

  const judgingSince = performance.now()
  for (const [index, history] of histories.entries()) {
    violations.push(...history.violations)
    if (!history.isLinearizable()) violations.push(`the history of ${names[index]} is not linearizable`)
  }
  const calls = histories.flatMap(({ calls }) => calls)

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
      stranded: stranded.size,
      calls_judged: calls.length,
      of_them_unanswered: calls.filter(({ outcome }) => outcome === undefined).length,
      judged_ms: Math.round(performance.now() - judgingSince),
      invariant_checks: samples
    },
    violations: [...brokenInvariants, ...violations]
  }
})
