/** A person signs an agent in, and the agent uses the memory and tasks of its project (spec 4.8, 4.10, 4.11). */
import { Effect, Redacted } from "effect"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { agent } from "./Agent.ts"
import { callback, person } from "./Person.ts"
import { expected, type Scene } from "./Stage.ts"

/** State that one scene passes to the next. */
let project_id: string
let signedIn: Effect.Success<ReturnType<typeof person>>
let tools: ReturnType<typeof agent>
let write_context: object
let task: { readonly id: string; readonly version: number }

export const agents: ReadonlyArray<Scene> = [
  {
    title: "A person signs an agent in: discovery, consent with a project token, code, tokens",
    play: Effect.fnUntraced(function* ({ admin, base_url, scratch, via }) {
      project_id = (yield* admin("create-project", "--name", "Demo of agents")).project_id
      const out = join(scratch, "project-token")
      yield* admin("create-project-token", "--project", project_id, "--role", "contributor", "--out", out)
      const { client_id } = yield* admin("create-oauth-client", "--name", "Demo agent", "--redirect-uri", callback)
      const token = Redacted.make(readFileSync(out, "utf8").trim())
      signedIn = yield* person(base_url, client_id, token, via)
      tools = agent(base_url, (yield* signedIn.signIn).access_token, via)
    })
  },
  {
    title: "The agent calls server_identity and gets the write_context that every write repeats",
    play: Effect.fnUntraced(function* () {
      write_context = (yield* tools.done("server_identity")).write_context
    })
  },
  {
    title: "It adds a memory entry; repeating the call with the same key adds nothing",
    play: Effect.fnUntraced(function* () {
      const note = { kind: "decision", body: "The ferry leaves at seven, not at eight.", write_context }
      const keyed = { ...note, idempotency_key: "ferry-1" }
      const { entry } = yield* tools.done("memory_add", keyed)
      const again = yield* tools.done("memory_add", keyed)
      yield* expected(entry.id, again.entry.id)
    })
  },
  {
    title: "It searches the memory",
    play: Effect.fnUntraced(function* () {
      const { entries } = yield* tools.done("memory_search", { query: "when does the ferry leave" })
      yield* expected("decision", entries[0]?.kind)
    })
  },
  {
    title: "It creates a task and claims it",
    play: Effect.fnUntraced(function* () {
      const created = yield* tools.done("task_create", { title: "Print the new timetable", write_context })
      const claim = { id: created.task.id, expected_version: 1, status: "in_progress", assignee: "demo", write_context }
      task = (yield* tools.done("task_update", claim)).task
    })
  },
  {
    title: "It finishes the task and adds a receipt in one update",
    play: () => {
      const receipt = { session_ref: "demo-1", worker: "demo", outcome: "completed", summary: "Printed and hung up." }
      return tools.done("task_update", {
        id: task.id,
        expected_version: task.version,
        status: "done",
        receipt,
        write_context
      })
    }
  },
  {
    title: "An update with a stale version is refused: another agent was faster",
    play: Effect.fnUntraced(function* () {
      const stale = { id: task.id, expected_version: task.version, status: "cancelled", write_context }
      yield* expected("stale_version", yield* tools.refused("task_update", stale))
    })
  },
  {
    title: "The next agent catches up with one call",
    play: Effect.fnUntraced(function* () {
      const { recent_receipts } = yield* tools.done("continuity_context")
      yield* expected(task.id, recent_receipts[0]?.task_id)
    })
  },
  {
    title: "A write without write_context is refused and appears in the audit log",
    play: Effect.fnUntraced(function* ({ admin }) {
      yield* expected("write_context_required", yield* tools.refused("task_create", { title: "Lost" }))
      const { items } = yield* admin("list-audit-events", "--project", project_id, "--limit", "1")
      yield* expected("write_context_required", items[0]?.code)
    })
  },
  {
    title: "The person signs out; the agent's token no longer works",
    play: Effect.fnUntraced(function* () {
      yield* signedIn.signOut
      const status = yield* tools.status
      yield* expected("401", String(status))
    })
  }
]
