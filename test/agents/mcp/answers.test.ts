/**
 * What reading tools, resources and prompts answer about a project in which something has happened, as answers.txt keeps it.
 * After a change that is meant, `npx vitest run test/agents/mcp/answers.test.ts -u` writes it anew; read what differs.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { join } from "node:path"
import { makeEquippedProject, namesOf, withoutIds } from "../../support/people/Console.ts"
import { assertKept } from "../../support/run/Kept.ts"
import { Service } from "../../support/service/Service.ts"

/** Lists are sorted: what came at once is in no order. */
const sorted = (value: unknown): unknown => {
  if (Array.isArray(value)) {
    const all = value.map(sorted)
    return all.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1))
  }
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, sorted(member)]))
}

layer(Service.layer)("the endpoint of agents", (it) => {
  it.effect("answers what answers.txt keeps", () =>
    Effect.gen(function* () {
      const made = yield* makeEquippedProject(yield* Service)
      const { agent, dependent_id, document_id, entry_id, finished_id, former_id, task_id } = made
      yield* agent.write("task_note", { id: task_id, text: "UBL has a validator." })
      yield* agent.task("A part of it", { parent: task_id, tags: ["invoices"], depends_on: [dependent_id] })
      const calls: ReadonlyArray<readonly [tool: string, given: Readonly<Record<string, unknown>>]> = [
        ["runtime_bootstrap_get", {}],
        ["git_document_get", { document_id }],
        ["continuity_context", {}],
        ["continuity_context", { tag: "invoices" }],
        ["continuity_context", { repository: "acme/shop" }],
        ["activity", { since: "1970-01-01T00:00:00.000Z", limit: 100 }],
        ["receipt_list", {}],
        ["task_list", {}],
        ["task_list", { status: ["done"], order: "updated" }],
        ["task_list", { ready: true }],
        ["task_list", { parent: task_id }],
        ...[task_id, dependent_id, finished_id].map((id) => ["task_get", { id }] as const),
        ["task_wait", { id: task_id, version: 1 }],
        ["memory_search", {}],
        ["memory_search", { query: "deploys", kind: "decision" }],
        ...[entry_id, former_id].map((id) => ["memory_get", { id }] as const),
        ["search", { query: "queue of invoices" }]
      ]
      const names = namesOf(made)
      const answers = yield* Effect.forEach(calls, ([tool, given]) =>
        Effect.map(agent.call(tool, given), ({ output, text }) => {
          assert.isDefined(output, text)
          const named = JSON.parse(withoutIds(JSON.stringify({ tool, given, output }), names))
          return { ...named, output: sorted(named.output) }
        })
      )
      const asked: ReadonlyArray<readonly [method: string, given: Readonly<Record<string, unknown>>]> = [
        ["resources/list", {}],
        ["resources/templates/list", {}],
        ...[`doc://${document_id}`, `task://${task_id}`, `memory://${entry_id}`].map(
          (uri) => ["resources/read", { uri }] as const
        ),
        ["prompts/list", {}],
        ["prompts/get", { name: "start" }],
        ["prompts/get", { name: "start", arguments: { task_id } }],
        ["prompts/get", { name: "hand_over", arguments: { task_id } }],
        ["prompts/get", { name: "decide", arguments: { task_id, question: "Red or blue?" } }],
        ["prompts/get", { name: "since" }]
      ]
      for (const [method, given] of asked) {
        const { body, text } = yield* agent.post(method, given)
        assert.isDefined(body.result, text)
        // Its _meta names the release.
        const { _meta: _, ...result } = body.result
        const named = JSON.parse(withoutIds(JSON.stringify({ method, given, result }), names))
        answers.push({ ...named, result: sorted(named.result) })
      }
      yield* assertKept(`${JSON.stringify(answers, null, 2)}\n`, join(import.meta.dirname, "answers.txt"))
    }).pipe(Effect.scoped)
  )
})
