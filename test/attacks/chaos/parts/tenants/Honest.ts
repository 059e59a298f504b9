/**
 * The ordinary load of one project: agents search, read and write, Bridges ask about their tokens and rotate them, a
 * client refreshes its sign-in.
 *
 * Requests start at fixed times, whether earlier ones were answered or not. Their time counts from then, so a service
 * that stands still is slow for every request that it should have answered meanwhile.
 */
import { Effect, Fiber } from "effect"
import { body, question } from "../../../../../bench/support/corpus.ts"
import { makeClient, refresh, signIn } from "../../../../support/agents/Agent.ts"
import { Agent, type Called } from "../../../../support/agents/McpAgent.ts"
import { Bridge } from "../../../../support/bridges/Bridge.ts"
import { tokens } from "../../../../support/bridges/Tokens.ts"
import { type Answer, send } from "../../../../support/network/Http.ts"
import type { On } from "../Load.ts"
import { type beside, size } from "../../harness.ts"

type Instance = Effect.Success<ReturnType<typeof beside>> & On

export interface Timed {
  readonly group: string
  readonly millis: number
  /** `200`, or status and code. */
  readonly outcome: string
}

/** Requests per second. */
const rate = 30

/** Things of which one request at a time uses one, in rotation. A request waits until one is free. */
const pool = <A>(items: Array<A>) => {
  const waiting: Array<(item: A) => void> = []
  const take = Effect.callback<A>((resume) => {
    const free = items.shift()
    if (free !== undefined) resume(Effect.succeed(free))
    else waiting.push((item) => resume(Effect.succeed(item)))
  })
  const give = (item: A) =>
    Effect.sync(() => {
      const next = waiting.shift()
      if (next === undefined) items.push(item)
      else next(item)
    })
  return <B>(use: (item: A) => Effect.Effect<B>) => Effect.acquireUseRelease(take, use, give)
}

const outcomeOfAnswer = ({ code, status }: Answer) => (code === undefined ? `${status}` : `${status} ${code}`)
const outcomeOfCall = ({ answer, code }: Called) =>
  code === undefined ? `${answer.status}` : `${answer.status} ${code}`

/** `entries` exist in the project. */
export const makeHonest = Effect.fnUntraced(function* (
  on: Instance,
  project_id: string,
  entries: ReadonlyArray<string>
) {
  const agents = yield* Effect.forEach([1, 2, 3], () => Agent.make(on, { project_id }))
  const withTask = pool<{ task: { readonly id: string; readonly version: number } }>(
    yield* Effect.forEach(["a", "b", "c", "d"], (title) => Effect.map(agents[0]!.task(title), (task) => ({ task })))
  )
  const withBridge = pool(
    // Enough that none rotates more often than a Bridge may.
    yield* Effect.forEach(Array.from({ length: size(8, 2) }), () =>
      Effect.flatMap(Bridge.make(on, { project_id }), (bridge) =>
        Effect.map(bridge.enroll(on), (token) => ({ token, rotations: 0 }))
      )
    )
  )
  const client_id = yield* makeClient(on)
  const withSignIn = pool(
    // Enough that none refreshes more often than a grant may.
    yield* Effect.forEach(Array.from({ length: size(20, 4) }), () =>
      Effect.map(signIn(on, { client_id, token: agents[0]!.token }), ({ refresh_token }) => ({ refresh_token }))
    )
  )
  const { confirm, prepare, self } = tokens(on)
  let serial = 0
  const agent = () => agents[serial % agents.length]!
  const call = (name: string, given: object) => Effect.map(agent().call(name, { ...given }), outcomeOfCall)
  const read = Effect.suspend(() => call("memory_get", { id: entries[serial % entries.length]! }))
  const list = Effect.suspend(() => call("task_list", { ready: true }))
  const search = Effect.suspend(() => call("memory_search", { query: question(serial) }))
  const context = Effect.suspend(() => call("continuity_context", {}))
  const add = Effect.suspend(() =>
    Effect.map(agent().write("memory_add", { kind: "note", body: body(1_000_000 + serial) }), outcomeOfCall)
  )
  const update = withTask((held) =>
    Effect.map(agent().update(held.task, { priority: held.task.version % 5 }), (called) => {
      held.task = called.output?.task ?? held.task
      return outcomeOfCall(called)
    })
  )
  const asked = withBridge(({ token }) => Effect.map(self(token), outcomeOfAnswer))
  const rotation = withBridge((held) =>
    Effect.gen(function* () {
      // A rotation whose answer was lost is repeated with the same key.
      const key = `bridge-rotate-${held.rotations}`
      const prepared = yield* prepare(held.token, key)
      if (prepared.status !== 201) return outcomeOfAnswer(prepared)
      const { rotation_id, successor_token } = prepared.body
      const confirmed = yield* confirm(successor_token, rotation_id, key)
      if (confirmed.status === 200) {
        held.token = successor_token
        held.rotations++
      }
      return outcomeOfAnswer(confirmed)
    })
  )
  const refreshing = withSignIn((held) =>
    Effect.map(refresh(on, { client_id, refresh_token: held.refresh_token }), (answer) => {
      held.refresh_token = answer.body?.refresh_token ?? held.refresh_token
      return outcomeOfAnswer(answer)
    })
  )
  const health = Effect.map(send(`${on.url}/healthz`, { method: "GET" }), outcomeOfAnswer)

  const mix: ReadonlyArray<readonly [group: string, Effect.Effect<string>]> = [
    ["search", search],
    ["read", read],
    ["bridge", asked],
    ["write", add],
    ["search", search],
    ["read", list],
    ["other", health],
    ["write", update],
    ["search", search],
    ["read", read],
    ["bridge", rotation],
    ["read", context],
    ["search", search],
    ["read", read],
    ["bridge", asked],
    ["write", add],
    ["other", refreshing],
    ["read", list],
    ["other", health],
    ["write", update]
  ]

  /** Sends for so many milliseconds and waits for all answers, at most 30 s for each. */
  const during = Effect.fnUntraced(function* (millis: number) {
    const timed: Array<Timed> = []
    const from = performance.now()
    const running: Array<Fiber.Fiber<unknown>> = []
    for (let n = 0; (n * 1000) / rate < millis; n++) {
      const at = from + (n * 1000) / rate
      yield* Effect.sleep(Math.max(0, at - performance.now()))
      serial++
      const [group, request] = mix[n % mix.length]!
      const answered = request.pipe(
        Effect.timeout("30 seconds"),
        Effect.catchCause(() => Effect.succeed("no answer")),
        Effect.map((outcome) => timed.push({ group, millis: performance.now() - at, outcome }))
      )
      running.push(yield* Effect.forkChild(answered))
    }
    yield* Effect.forEach(running, Fiber.join, { concurrency: "unbounded" })
    return timed
  })
  return { during }
})
