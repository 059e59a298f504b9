/**
 * What searches by meaning cost: memory_search at 100,000 entries with the vectors of an endpoint, compared with the same
 * search by words alone, and how long the vectors take.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Context, Effect, Schedule, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { Memory } from "../src/agents/memory/Memory.ts"
import { Transfer } from "../src/agents/transfer/Transfer.ts"
import { uuidAt } from "../src/platform/crypto/Random.ts"
import { Database } from "../src/platform/database/Database.ts"
import { Limits } from "../src/operator/limits/Limits.ts"
import { Projects } from "../src/operator/projects/Projects.ts"
import { rssMib } from "../test/support/run/Proc.ts"
import { body, question } from "./support/corpus.ts"
import * as harness from "./support/harness.ts"

const dimensions = 768
const entries = 100_000
const searches = 300

const at = (n: number) => new Date(1_790_000_000_000 + n * 1000)

/** A file of an export with as many entries. */
const file = Effect.fnUntraced(function* (project_id: string) {
  const state = { active: true, supersedes: null, superseded_by: null, superseded_at: null, tags: [], kind: "note" }
  const by = { actor: "bench", role: "contributor", session_ref: null, task_id: null, source: null }
  const rows = yield* Effect.forEach(
    Array.from({ length: entries }, (_, n) => n),
    (n) =>
      Effect.map(uuidAt(at(n)), (id) => ({
        memory: { id, title: `Entry ${n}`, body: body(n), created_at: at(n), ...state, ...by }
      }))
  )
  const lines = [
    { export: "bridge-service project", project: { id: project_id, name: "Bench" }, created_at: at(0) },
    ...rows,
    { counts: { memory: entries, task: 0, dependency: 0, receipt: 0 } }
  ]
  return Stream.fromIterable(lines).pipe(Stream.map((line) => Buffer.from(`${JSON.stringify(line)}\n`)))
})

const main = Effect.gen(function* () {
  const port = String(yield* harness.freePort)
  const endpoint = `http://127.0.0.1:${port}/v1/embeddings`
  yield* harness.started(["bench/support/embedder.ts", port, String(dimensions)])
  yield* harness.answers(endpoint)
  const on = yield* harness.startWith({
    SERVICE_EMBEDDINGS_URL: endpoint,
    SERVICE_EMBEDDINGS_MODEL: "random",
    SERVICE_EMBEDDINGS_DIMENSIONS: String(dimensions)
  })
  const { project_id } = yield* Context.get(on.context, Projects).create("Bench")
  yield* Context.get(on.context, Transfer).load(project_id, yield* file(project_id))
  const sql = Context.get(on.context, SqlClient.SqlClient)
  const waiting = Effect.map(
    sql<{ count: number }>`select count(*)::int as count from memory_embedding`,
    ([row]) => entries - row!.count
  )

  const [started, before] = [performance.now(), rssMib(on.pid)]
  // The pass over all entries begins within ten minutes; a second instance of the service begins one at once.
  yield* on.replica()
  yield* waiting.pipe(Effect.repeat({ schedule: Schedule.spaced("1 second"), until: (left) => left === 0 }))
  const filled = (performance.now() - started) / 1000
  yield* Context.get(on.context, Database).dedicated(SqlClient.SqlClient.use((sql) => sql`vacuum analyze`))

  const memory = Context.get(on.context, Memory)
  const measure = Effect.fnUntraced(function* (from: number) {
    const times: Array<number> = []
    for (let n = -20; n < searches; n++) {
      const since = performance.now()
      yield* memory.search({ project_id }, { query: question(from + n + 20) })
      if (n >= 0) times.push(performance.now() - since)
    }
    const sorted = times.toSorted((a, b) => a - b)
    return [0.5, 0.95].map((share) => sorted[Math.floor(share * searches)]!.toFixed(1))
  })
  const rss = () => Math.round(process.memoryUsage.rss() / 2 ** 20)
  const own = rss()
  const withMeaning = yield* measure(0)
  const grown = rss() - own
  yield* Context.get(on.context, Limits).set(project_id, { embeddings: 0 })
  const byWords = yield* measure(0)

  process.stdout.write(
    [
      `| what, ${entries.toLocaleString("en")} entries, ${dimensions} dimensions | p50 ms | p95 ms | more memory, MiB |`,
      "|---|--:|--:|--:|",
      `| memory_search by words and meaning, one client | ${withMeaning.join(" | ")} | ${grown} |`,
      `| the same by words alone | ${byWords.join(" | ")} | |`,
      `| vectors per second, stored from an endpoint that costs nothing: ${Math.round(entries / filled)} | | | ${Math.round(rssMib(on.pid) - before)} |`,
      ""
    ].join("\n")
  )
}).pipe(Effect.scoped)

NodeRuntime.runMain(main)
