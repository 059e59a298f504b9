/**
 * @modelcontextprotocol/server-memory over stdio, one call at a time, as it is used. It reads its whole file on each call
 * and writes it on each change. A search returns every hit in full, twice: with 100,000 entries and a frequent word
 * that exceeds the 10 MiB after which its client closes the connection by default, so the limit is raised here.
 */
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js"
import { Effect } from "effect"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { body, rarest } from "../support/corpus.ts"
import type { Round } from "../support/report.ts"

/** Milliseconds. */
const callTimeout = 60_000
/** Calls of each operation, regardless of the time. */
const calls = { least: 3, most: 200 }

export const serverMemory = (entries: number, seconds: number) =>
  Effect.gen(function* () {
    const folder = yield* Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(join(tmpdir(), "bridge-service-bench-"))),
      (path) => Effect.sync(() => rmSync(path, { recursive: true }))
    )
    const file = join(folder, "memory.jsonl")
    const entity = (n: number) => ({ name: `entry ${n}`, entityType: "note", observations: [body(n)] })
    const lines = Array.from({ length: entries }, (_, n) => `${JSON.stringify({ type: "entity", ...entity(n) })}\n`)
    writeFileSync(file, lines.join(""))
    const client = yield* Effect.acquireRelease(
      Effect.promise(async () => {
        const client = new Client({ name: "bench", version: "1" })
        const transport = new StdioClientTransport({
          command: process.execPath,
          args: ["--max-old-space-size=4096", "node_modules/@modelcontextprotocol/server-memory/dist/index.js"],
          env: { MEMORY_FILE_PATH: file },
          maxBufferSize: 2 ** 29,
          stderr: "ignore"
        })
        await client.connect(transport)
        return client
      }),
      (client) => Effect.promise(() => client.close())
    )

    const timed = (name: string, args: (n: number) => Record<string, unknown>) =>
      Effect.promise(async (): Promise<Round> => {
        const latencies: Array<number> = []
        const started = performance.now()
        const until = started + seconds * 1000
        for (let n = 0; n < calls.most && (performance.now() < until || n < calls.least); n++) {
          const before = performance.now()
          const { isError } = await client.callTool({ name, arguments: args(n) }, undefined, { timeout: callTimeout })
          if (isError === true) throw new Error(`${name} failed`)
          latencies.push(performance.now() - before)
        }
        const elapsed = (performance.now() - started) / 1000
        latencies.sort((a, b) => a - b)
        const quantile = (q: number) => latencies[Math.floor(latencies.length * q)]!
        const count = latencies.length
        return { count, seconds: elapsed, per_second: count / elapsed, p50_ms: quantile(0.5), p99_ms: quantile(0.99) }
      })

    return {
      add: yield* timed("create_entities", (n) => ({ entities: [entity(entries + n)] })),
      // It searches for the query as one substring, so five words would find nothing.
      search: yield* timed("search_nodes", (n) => ({ query: rarest(n) }))
    }
  }).pipe(Effect.scoped)
