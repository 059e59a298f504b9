/** One valid call of every tool with all of its parameters. Tests that run over all tools start here. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { createHash, randomUUID } from "node:crypto"
import type { ToolName } from "../../../src/agents/mcp/Tools.ts"
import type { Agent } from "./McpAgent.ts"

type Examples = Readonly<Record<ToolName, Readonly<Record<string, unknown>>>>

interface Ids {
  readonly entry_id: string
  /** An active entry that `memory_add` supersedes. */
  readonly superseded_id: string
  /** A task of version 1. */
  readonly task_id: string
  readonly dependency_id: string
  readonly document_id: string
}

/** `write_context` is that of the project which has these ids. Each call succeeds, and each mutation succeeds once. */
export const examplesOf = (
  { dependency_id, document_id, entry_id, superseded_id, task_id }: Ids,
  write_context: Agent["write_context"]
) =>
  ({
    server_identity: {},
    continuity_context: { max_bytes: 8192 },
    activity: { since: "24h", kinds: ["task", "receipt", "decision", "note", "task_note"], limit: 3 },
    memory_add: {
      kind: "decision",
      title: "Title",
      body: "Body",
      tags: ["tag"],
      supersedes: superseded_id,
      session_ref: "session",
      task_id,
      idempotency_key: "add",
      write_context
    },
    memory_archive: { id: entry_id, write_context },
    memory_get: { id: entry_id },
    memory_search: { query: "entry", kind: "note", tags: [], limit: 3 },
    search: { query: "entry", in: ["memory", "tasks", "receipts", "documents"], limit: 3 },
    task_create: {
      title: "Title",
      body: "Body",
      priority: 1,
      tags: ["tag"],
      depends_on: [dependency_id],
      parent: task_id,
      idempotency_key: "create",
      write_context
    },
    task_create_many: {
      tasks: [
        {
          ref: "first",
          title: "Title",
          body: "Body",
          priority: 1,
          tags: ["tag"],
          depends_on: [dependency_id],
          parent: task_id
        },
        { title: "Second", depends_on: ["first"], parent: "first" }
      ],
      idempotency_key: "many",
      write_context
    },
    task_get: { id: task_id },
    task_list: { status: ["open"], ready: true, tag: "tag", parent: task_id, limit: 3, order: "updated" },
    task_claim: {
      id: dependency_id,
      expected_version: 1,
      assignee: "ada",
      takeover: { reason: "She asked me to" },
      idempotency_key: "claim",
      write_context
    },
    task_note: { id: task_id, text: "Half of the wall", idempotency_key: "note", write_context },
    task_update: {
      id: task_id,
      expected_version: 1,
      title: "Title",
      body: "Body",
      status: "blocked",
      priority: 1,
      tags: ["tag"],
      depends_on: [dependency_id],
      assignee: "ada",
      blocked_reason: "Which one?",
      blocked_kind: "decision",
      choices: ["This one", "That one"],
      receipt: {
        session_ref: "session",
        worker: "worker",
        thread: "thread",
        outcome: "handoff",
        summary: "Half of it",
        next_steps: ["the other half"],
        pitfalls: ["the first half"],
        git_checkpoint: {
          repository: "acme/shop",
          branch: "main",
          commit_sha: "0".repeat(40),
          base_sha: "1".repeat(40),
          dirty: false,
          pushed: true
        }
      },
      idempotency_key: "update",
      write_context
    },
    task_wait: { id: task_id, version: 0, timeout_seconds: 1 },
    receipt_list: { task_id, worker: "worker", since: "24h", limit: 3 },
    runtime_bootstrap_get: {},
    git_document_get: { document_id, offset: 0, max_bytes: 100 }
  }) satisfies Examples

/** The calls for a new set of rows in the agent's project. */
export const examplesFor = Effect.fnUntraced(function* (agent: Agent) {
  const entry = yield* agent.note("An entry")
  const superseded = yield* agent.note("An entry to supersede")
  const task = yield* agent.task("A task")
  const dependency = yield* agent.task("Another")
  const document_id = yield* pinned(agent)
  const ids = { entry_id: entry.id, superseded_id: superseded.id, task_id: task.id, dependency_id: dependency.id }
  return examplesOf({ ...ids, document_id }, agent.write_context)
})

/** Stores what `pin-document` would store, without needing git. */
const pinned = Effect.fnUntraced(function* ({ project_id }: Agent) {
  const sql = yield* SqlClient.SqlClient
  const document_id = randomUUID()
  const bytes = Buffer.from(`# Guide ${document_id}\n`)
  const blob_oid = createHash("sha1").update(`blob ${bytes.length}\0`).update(bytes).digest("hex")
  yield* sql`
    insert into document_blob (blob_oid, sha256, size_bytes, line_count, bytes)
    values (${blob_oid}, ${createHash("sha256").update(bytes).digest()}, ${bytes.length}, 1, ${bytes})`
  yield* sql`
    insert into pinned_document (
      project_id, document_id, repository, commit, path, mode, blob_oid, title, bootstrap, pinned_at)
    values (${project_id}::uuid, ${document_id}::uuid, 'acme/shop', ${"0".repeat(40)}, 'guide.md', '100644', ${blob_oid},
            'Guide', true, clock_timestamp())`
  return document_id
})
