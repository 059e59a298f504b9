import { layer } from "@effect/vitest"
import { Effect } from "effect"
import { Agent } from "./support/Agent.ts"
import { Service } from "./support/Service.ts"
layer(Service.layer)("try", (it) => {
  it.effect("all", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const a = yield* Agent.make(service)
      const show = (c: any) => console.log(c.answer.status, c.text || c.answer.text, c.output ? "" : JSON.stringify(c.answer.body))
      show(yield* a.call("server_identity"))
      const n = yield* a.write("memory_add", { kind: "note", body: "The deploy pipeline timeout is 90 seconds, see src/deploy/fooBar_baz.ts", tags: ["ops"] })
      show(n)
      show(yield* a.call("memory_search", { query: "What is the timeout of deploys?" }))
      show(yield* a.call("memory_search", { query: "foo bar" }))
      show(yield* a.call("memory_search", { query: "what is the" }))
      show(yield* a.call("memory_search", {}))
      const s = yield* a.write("memory_add", { kind: "decision", body: "部署流水线的超时是九十秒", supersedes: n.output.entry.id, idempotency_key: "k1" })
      show(s)
      show(yield* a.write("memory_add", { kind: "decision", body: "部署流水线的超时是九十秒", supersedes: n.output.entry.id, idempotency_key: "k1" }))
      show(yield* a.call("memory_search", { query: "超时" }))
      show(yield* a.call("memory_search", { query: "pipeline" }))
      const t = yield* a.task("First"); const u = yield* a.task("Second", { depends_on: [t.id] })
      show(yield* a.update(u, { status: "in_progress" }))
      show(yield* a.update(t, { depends_on: [u.id] }))
      show(yield* a.update(t, { status: "in_progress", assignee: "me", receipt: { session_ref: "s1", worker: "w", outcome: "progress", summary: "x", git_checkpoint: { repository: "github.com/a/b", branch: "main", commit_sha: "a".repeat(40), dirty: false } } }))
      show(yield* a.update({ ...t, version: 2 }, { status: "done", receipt: { session_ref: "s1", worker: "w", outcome: "progress", summary: "x" } }))
      show(yield* a.update(t, { status: "done" }))
      show(yield* a.call("task_get", { id: t.id }))
      show(yield* a.call("task_list", {}))
      show(yield* a.call("continuity_context", {}))
      show(yield* a.call("memory_get", { id: "nope" }))
      show(yield* a.call("memory_add", { kind: "note", body: "x" }))
      show(yield* a.call("runtime_bootstrap_get", {}))
      const l = yield* a.post("tools/list")
      console.log(l.status, Buffer.byteLength(l.text), JSON.stringify(l.body.result.tools[2], null, 1))
    })
  )
})
