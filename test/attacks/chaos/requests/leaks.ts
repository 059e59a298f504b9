/**
 * Bridges rotate, agents call tools and refresh their sign-ins at a moderate rate for half a minute.
 *
 * Live memory and the number of open files do not grow, and nothing is logged. When everything has ended and expired, the
 * sweeps delete all of its rows.
 */
import { Effect } from "effect"
import { makeClient, refresh, signIn } from "../../../support/agents/Agent.ts"
import { Bridge } from "../../../support/bridges/Bridge.ts"
import { heapOf, slope } from "../../../support/run/Heap.ts"
import { Agent } from "../../../support/agents/McpAgent.ts"
import { openFiles, rssMib } from "../../../support/run/Proc.ts"
import { tokens } from "../../../support/bridges/Tokens.ts"
import { agedAndSwept } from "../parts/Aged.ts"
import { beside, chaos, freePort, percentile, scratch, server, size, sliced } from "../harness.ts"

/** Milliseconds: the load, the part of it that warms up, and the interval between two measurements. */
const [whole, warming, pause] = [size(32_000, 2500), size(10_000, 500), size(2000, 500)]
/** How many of each kind; each sends a request every 100 ms at most. */
const clients = 4
const rest = "100 millis"
const millis: Array<number> = []

chaos(
  "leaks",
  () => ({ requests: millis.length }),
  Effect.gen(function* () {
    const folder = yield* scratch
    const inspector = yield* freePort
    const settings = { SERVICE_LOG_LEVEL: "Warn", NODE_OPTIONS: `--inspect=127.0.0.1:${inspector}` }
    const { output, pid, url } = yield* server(folder, settings)
    const on = yield* beside(folder, { url })
    const heap = yield* heapOf(inspector)
    const violations: Array<string> = []
    // The debugger prints one line at the start.
    yield* heap
    const linesBefore = output.length

    const timed = <A extends { readonly status: number; readonly text: string }>(call: Effect.Effect<A>) =>
      Effect.suspend(() => {
        const from = performance.now()
        return Effect.tap(call, ({ status, text }) =>
          Effect.sync(() => {
            millis.push(performance.now() - from)
            if (status >= 300) violations.push(`${status} ${text.slice(0, 200)}`)
          })
        )
      })
    const { confirm, prepare, self } = tokens(on)
    const rotating = Effect.gen(function* () {
      let token: string = yield* (yield* Bridge.make(on)).enroll(on)
      let turn = 0
      return Effect.gen(function* () {
        turn++
        const { body } = yield* timed(prepare(token, `rotate-${turn}`))
        yield* timed(confirm(body.successor_token, body.rotation_id, `confirm-${turn}`))
        token = body.successor_token
        yield* timed(self(token))
      })
    })
    const working = Effect.gen(function* () {
      const agent = yield* Agent.make(on)
      const call = (name: string, given: object) =>
        Effect.map(agent.write(name, given as never), ({ answer, output }) => ({ ...answer, output }))
      let turn = 0
      return Effect.gen(function* () {
        const key = { idempotency_key: `turn-${turn++}` }
        const { output } = yield* timed(call("task_create", { title: "A task of the soak", ...key }))
        yield* timed(call("task_update", { id: output.task.id, expected_version: 1, status: "done" }))
        yield* timed(Effect.map(agent.call("memory_search", { query: "a task" }), ({ answer }) => answer))
        yield* timed(Effect.map(agent.call("continuity_context"), ({ answer }) => answer))
      })
    })
    const refreshing = Effect.gen(function* () {
      const client_id = yield* makeClient(on)
      let { refresh_token } = yield* signIn(on, { client_id })
      return Effect.gen(function* () {
        const { body } = yield* timed(refresh(on, { client_id, refresh_token }))
        refresh_token = body.refresh_token
      })
    })
    const lives = yield* Effect.orDie(
      Effect.all([rotating, working, refreshing].flatMap((life) => Array.from({ length: clients }, () => life)))
    )

    const from = performance.now()
    const looks: Array<{
      readonly minute: number
      readonly live: number
      readonly rss: number
      readonly files: number
    }> = []
    const watching = Effect.gen(function* () {
      while (performance.now() - from < whole) {
        yield* Effect.sleep(pause)
        if (performance.now() - from < warming) continue
        const live = yield* heap
        looks.push({
          minute: (performance.now() - from) / 60_000,
          live,
          rss: rssMib(pid()),
          files: openFiles(pid())
        })
      }
    })
    const living = Effect.all(
      lives.map((life) =>
        Effect.repeat(Effect.andThen(life, Effect.sleep(rest)), { until: () => performance.now() - from >= whole })
      ),
      { concurrency: "unbounded" }
    )
    yield* Effect.all([watching, living], { concurrency: 2 })

    const growth = (of: "live" | "rss") => Math.round(slope(looks.map((look) => [look.minute, look[of]])) * 100) / 100
    const [live, rss] = [growth("live"), growth("rss")]
    const files = looks.at(-1)!.files - looks[0]!.files
    // Resident memory also depends on what the collector keeps for later, so it is reported; live memory is bounded. V8
    // frees unused code, some MiB a minute: a request that is kept shows up, 1 KB of each does not.
    if (!sliced && live >= 1) violations.push(`live memory grows by ${live} MiB a minute`)
    if (files > 10) violations.push(`${files} more files are open`)
    for (const line of output.slice(linesBefore, linesBefore + 3)) violations.push(`logged: ${line}`)

    const aged = yield* agedAndSwept(on)
    violations.push(...aged.violations)

    return {
      figures: {
        requests: millis.length,
        per_second: Math.round(millis.length / ((performance.now() - from) / 1000)),
        p99_ms: Math.round(percentile(millis, 0.99)),
        live_mib: looks.map((look) => Math.round(look.live * 10) / 10),
        live_mib_per_minute: live,
        rss_mib_per_minute: rss,
        files_more: files,
        rows: aged.before
      },
      violations
    }
  })
)
