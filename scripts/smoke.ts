/**
 * `npm run smoke`: calls the state tools of /mcp in the order in which an agent uses them (spec 4.11). The document
 * tools are discovered but not called. Exits with 1 at the first answer that differs from the specification.
 *
 * With `--base-url URL --token-file FILE` it runs against that service, and adds one entry and one task to the token's
 * project. Without these flags it starts a server for the run.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Console, Effect, Redacted } from "effect"
import { randomUUID } from "node:crypto"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { isDeepStrictEqual } from "node:util"
import { tools } from "../src/agents/mcp/Tools.ts"
import { agent } from "./demo/Agent.ts"
import { DemoError, flags, stage } from "./demo/Stage.ts"

const check = Effect.fnUntraced(function* (what: string, holds: boolean) {
  if (!holds) return yield* new DemoError({ message: `Failed check: ${what}` })
  yield* Console.log(`ok  ${what}`)
})

/** The service and token file from the flags, or those of a new server. */
const target = Effect.gen(function* () {
  const { "base-url": running, "token-file": file } = yield* flags("base-url", "token-file")
  if (running !== undefined && file !== undefined) return { base_url: running.replace(/\/$/, ""), file }
  if (running !== undefined || file !== undefined) {
    return yield* new DemoError({ message: "Name both --base-url and --token-file, or neither." })
  }
  const { admin, base_url, scratch } = yield* stage(undefined)
  const { project_id } = yield* admin("create-project", "--name", "Smoke")
  const out = join(scratch, "token")
  yield* admin("create-project-token", "--project", project_id, "--role", "contributor", "--out", out)
  return { base_url, file: out }
})

Effect.gen(function* () {
  const { base_url, file } = yield* target
  const token = yield* Effect.try({
    try: () => Redacted.make(readFileSync(file, "utf8").trim()),
    catch: () => new DemoError({ message: `${file} cannot be read.` })
  })
  const { ask, done, refused } = agent(base_url, token)

  const listed = yield* ask("tools/list", {})
  const names = listed.tools.map(({ name }: { readonly name: string }) => name)
  yield* check("tools/list discovers every tool", isDeepStrictEqual(names, Object.keys(tools)))
  const { project, write_context } = yield* done("server_identity")
  yield* check("server_identity names the project", write_context.project_id === project.id)

  const mark = `smoke ${randomUUID()}`
  const note = { kind: "note", body: mark, idempotency_key: mark.replace(" ", "-"), write_context }
  const { entry } = yield* done("memory_add", note)
  const again = yield* done("memory_add", note)
  yield* check("a retried memory_add returns the original entry", again.replayed && again.entry.id === entry.id)
  yield* check("memory_get returns it", (yield* done("memory_get", { id: entry.id })).entry.body === mark)
  const { entries } = yield* done("memory_search", { query: mark })
  yield* check("memory_search ranks it first", entries[0]?.id === entry.id)
  const recent = yield* done("memory_search", { limit: 50 })
  yield* check("memory_search without query lists recent entries", recent.matched === "recent")

  const { task } = yield* done("task_create", { title: mark, write_context })
  const isOurs = ({ id, task_id = id }: { readonly id: string; readonly task_id?: string }) => task_id === task.id
  yield* check("task_create returns version 1", task.version === 1)
  const claim = { id: task.id, expected_version: 1, status: "in_progress", assignee: "smoke", write_context }
  yield* check("task_update claims it", (yield* done("task_update", claim)).task.version === 2)
  yield* check("a stale update is refused", (yield* refused("task_update", claim)) === "stale_version")
  const receipt = { session_ref: mark, worker: "smoke", outcome: "completed", summary: "The smoke run." }
  const end = { id: task.id, expected_version: 2, status: "done", receipt, write_context }
  const ended = yield* done("task_update", end)
  yield* check("task_update writes a receipt", ended.task.version === 3 && typeof ended.receipt.id === "string")
  const found = yield* done("task_get", { id: task.id })
  yield* check("task_get shows status and receipt", found.task.status === "done" && found.receipts.length === 1)
  const { tasks } = yield* done("task_list", { status: ["done"], order: "updated" })
  yield* check("task_list shows it", tasks.some(isOurs))
  const without = yield* refused("task_create", { title: mark })
  yield* check("a write without write_context is refused", without === "write_context_required")
  const { recent_receipts } = yield* done("continuity_context")
  yield* check("continuity_context contains the receipt", recent_receipts.some(isOurs))
  yield* Console.log("The state tools answer as the specification says.")
}).pipe(
  Effect.scoped,
  Effect.tapError(({ message }) => Console.error(`The smoke run failed: ${message}`)),
  NodeRuntime.runMain({ disableErrorReporting: true })
)
