/** The tools as clients see them (spec 4.11, 7.4). */
import { assert, layer } from "@effect/vitest"
import { Context, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { isWaiting, type Tool, type ToolName, tools } from "../../../src/agents/mcp/Tools.ts"
import { Projects } from "../../../src/operator/projects/Projects.ts"
import { Agent } from "../../support/agents/McpAgent.ts"
import { toolCost } from "../../support/agents/ToolCost.ts"
import { Service } from "../../support/service/Service.ts"

/** The tools of spec 4.11. The service may have more. */
const specified = [
  "server_identity",
  "continuity_context",
  "memory_add",
  "memory_get",
  "memory_search",
  "task_create",
  "task_get",
  "task_list",
  "task_update",
  "runtime_bootstrap_get",
  "git_document_get"
]
const mutations = ["memory_add", "task_create", "task_update"]

const names = Object.keys(tools)
const writing = names.filter((name) => tools[name as ToolName].writes)

layer(Service.layer)("the tools", (it) => {
  const agent = (given: Parameters<typeof Agent.make>[1] = {}) =>
    Effect.flatMap(Service, (service) => Agent.make(service, given))
  const listed = (a: Agent) => Effect.map(a.post("tools/list"), ({ body }): Array<any> => body.result.tools)
  const audited = (a: Agent) =>
    SqlClient.SqlClient.use(
      (sql) => sql<{ actor: string; code: string; subject: any; count: number }>`
      select actor, code, subject, count from audit_event join audit_refusal_count using (event_id) where project_id = ${a.project_id}::uuid and action = 'mcp.write'`
    )

  it.effect("a contributor can list every tool, including those of the specification", () =>
    Effect.gen(function* () {
      const found = (yield* listed(yield* agent())).map(({ name }) => name)
      assert.deepStrictEqual(found, names)
      assert.includeMembers(found, specified)
      assert.includeMembers(writing, mutations)
    })
  )

  it.effect("a reader can neither list nor call the tools that write", () =>
    Effect.gen(function* () {
      const reader = yield* agent({ role: "reader" })
      assert.deepStrictEqual(
        (yield* listed(reader)).map(({ name }) => name),
        names.filter((name) => !writing.includes(name))
      )
      const called = yield* reader.write("memory_add", { kind: "note", body: "x" })
      const unknown = yield* reader.call("no_such_tool")
      assert.strictEqual(called.answer.text, unknown.answer.text)
      assert.strictEqual(called.answer.body.error.code, -32_602)
    })
  )

  it.effect("a credential lists only the tools that its scopes allow", () =>
    Effect.gen(function* () {
      const some = yield* agent({ scopes: ["tasks:read", "memory:write"] })
      assert.sameMembers(
        (yield* listed(some)).map(({ name }) => name),
        names.filter((name) =>
          tools[name as ToolName].needs.every((scope) => ["tasks:read", "memory:read", "memory:write"].includes(scope))
        )
      )
    })
  )

  it.effect("the instructions name the project and bring the write_context that every write takes", () =>
    Effect.gen(function* () {
      for (const scopes of [[], ["memory:write"], ["tasks:write"]] as const) {
        const a = yield* agent({ scopes })
        const { result } = (yield* a.post("server/discover")).body
        assert.include(result.instructions, 'the project "Test project"')
        const [, given] = /write_context with every write: (\{[^}]*\})/.exec(result.instructions)!
        assert.deepStrictEqual(JSON.parse(given!), a.write_context)
      }
      const reader = yield* agent({ role: "reader" })
      const { instructions } = (yield* reader.post("server/discover")).body.result
      assert.notInclude(instructions, "write_context")
      assert.include(instructions, "can only read")
    })
  )

  it.effect("tools/list is smaller than 40 KiB", () =>
    Effect.gen(function* () {
      assert.isBelow(Buffer.byteLength((yield* (yield* agent()).post("tools/list")).text), 40 * 1024)
    })
  )

  it("each tool needs its scope, and counts as what it does: a write, a search or a wait", () => {
    const which = (is: (tool: Tool) => boolean) => names.filter((name) => is(tools[name as ToolName]))
    assert.deepStrictEqual(
      Object.groupBy(names, (name) => tools[name as ToolName].needs.join()),
      {
        "": ["server_identity"],
        "context:read": ["continuity_context", "activity", "search"],
        "memory:write": ["memory_add", "memory_archive"],
        "memory:read": ["memory_get", "memory_search"],
        "tasks:write": ["task_create", "task_create_many", "task_claim", "task_note", "task_update"],
        "tasks:read": ["task_get", "task_list", "task_wait", "receipt_list"],
        "documents:read": ["runtime_bootstrap_get", "git_document_get"]
      }
    )
    assert.deepStrictEqual(
      writing,
      which(({ needs }) => needs.some((scope) => scope.endsWith(":write")))
    )
    assert.deepStrictEqual(
      which(({ searches }) => searches),
      ["memory_search", "search"]
    )
    assert.deepStrictEqual(which(isWaiting), ["task_wait"])
  })

  it("the list costs a model at most 4,000 tokens, and a reader less than half", () => {
    assert.isAtMost(toolCost.contributor, 4000)
    assert.isBelow(toolCost.reader, toolCost.contributor / 2)
  })

  it.effect("no schema has a list of types, which not every client takes", () =>
    Effect.gen(function* () {
      assert.notMatch(JSON.stringify(yield* listed(yield* agent())), /"type":\[/)
    })
  )

  for (const name of names) {
    it.effect(`${name} states purpose, parameters, project boundary, result and failures`, () =>
      Effect.gen(function* () {
        const tool = (yield* listed(yield* agent())).find((one) => one.name === name)
        assert.match(tool.description, /Required: |Optional: |No parameters/)
        assert.match(tool.description, /project/)
        assert.match(tool.description, /Returns /)
        assert.match(tool.description, /Fails |an empty list|empty lists/)
        for (const parameter of tool.inputSchema.required ?? []) assert.include(tool.description, parameter)
        assert.isNotEmpty(tool.title)
        assert.deepStrictEqual(
          tool.annotations,
          writing.includes(name)
            ? { readOnlyHint: false, destructiveHint: false, openWorldHint: false }
            : { readOnlyHint: true }
        )
        assert.strictEqual(tool.inputSchema.additionalProperties, false)
        assert.strictEqual(tool.outputSchema.type, "object")
      })
    )
  }

  it.effect("server_identity returns only what clients need", () =>
    Effect.gen(function* () {
      const a = yield* agent({ scopes: ["tasks:write"] })
      const { output, text } = yield* a.call("server_identity")
      assert.deepStrictEqual(output, {
        resource: "http://127.0.0.1:8787/mcp",
        instance_id: output.instance_id,
        environment: "development",
        service_revision: output.service_revision,
        project: { id: a.project_id, name: "Test project" },
        role: "contributor",
        scopes: ["tasks:read", "tasks:write"],
        write_context: {
          resource: "http://127.0.0.1:8787/mcp",
          instance_id: output.instance_id,
          project_id: a.project_id
        }
      })
      assert.notInclude(text, a.token)
      assert.notMatch(text, /postgres/)
    })
  )

  for (const [scope, tool] of [
    ["context:read", "continuity_context"],
    ["memory:read", "memory_search"],
    ["memory:write", "memory_add"],
    ["tasks:read", "task_list"],
    ["tasks:write", "task_create"],
    ["documents:read", "runtime_bootstrap_get"]
  ] as const) {
    it.effect(`${tool} without ${scope} is a 403 that names the scope`, () =>
      Effect.gen(function* () {
        const scopes = scope === "context:read" ? (["tasks:read"] as const) : (["context:read"] as const)
        const { answer } = yield* (yield* agent({ scopes })).call(tool)
        assert.deepStrictEqual([answer.status, answer.code], [403, "insufficient_scope"])
        const challenge = answer.headers.get("www-authenticate") ?? ""
        assert.include(challenge, 'error="insufficient_scope"')
        const named = /[ ,]scope="([^"]*)"/.exec(challenge)![1]!.split(" ")
        assert.includeMembers(named, [scope, ...scopes], "what is missing, and what the token has")
        assert.include(challenge, "resource_metadata=")
      })
    )
  }

  for (const tool of writing) {
    it.effect(`${tool} without write_context is refused before its arguments are read, and audited`, () =>
      Effect.gen(function* () {
        const a = yield* agent()
        for (const given of [{}, { write_context: null }]) {
          assert.strictEqual((yield* a.call(tool, { surprise: 1, ...given })).code, "write_context_required")
        }
        const rows = yield* audited(a)
        assert.deepStrictEqual(
          rows.map(({ actor, code, count, subject }) => [code, subject.tool, count, actor]),
          [["write_context_required", tool, 2, `project_token:${rows[0]?.subject.credential_id}`]]
        )
      })
    )
  }

  it.effect("a write_context that differs in any way changes nothing and is audited without the values sent", () =>
    Effect.gen(function* () {
      const a = yield* agent()
      const right = a.write_context
      const wrong = [
        { ...right, project_id: "018f0000-0000-7000-8000-00000000beef" },
        { ...right, instance_id: "another" },
        { ...right, resource: `${right.resource}/` },
        { ...right, extra: "beef" },
        { resource: right.resource, instance_id: right.instance_id },
        [],
        "beef",
        { ...right, project_id: [right.project_id] }
      ]
      for (const write_context of wrong) {
        const { code, text } = yield* a.call("memory_add", { kind: "note", body: "x", write_context })
        assert.strictEqual(code, "write_context_mismatch")
        assert.notInclude(text, "beef")
      }
      assert.deepStrictEqual((yield* a.call("memory_search")).output.entries, [])
      const rows = yield* audited(a)
      assert.deepStrictEqual([rows[0]?.code, rows[0]?.count], ["write_context_mismatch", wrong.length])
      assert.notInclude(JSON.stringify(rows), "beef")
    })
  )

  it.effect("a failed call returns the error object as text, without structured content", () =>
    Effect.gen(function* () {
      const { result, text } = yield* (yield* agent()).call("memory_get", { id: "x" })
      assert.isTrue(result.isError)
      assert.notProperty(result, "structuredContent")
      assert.deepStrictEqual(Object.keys(JSON.parse(text).error), ["code", "message"])
    })
  )

  it.effect("a result has the same content as text and as structured content", () =>
    Effect.gen(function* () {
      const { output, text } = yield* (yield* agent()).call("continuity_context")
      assert.deepStrictEqual(JSON.parse(text), output)
    })
  )

  it.effect("a credential of a disabled project is answered like an unknown one", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const a = yield* agent()
      yield* Context.get(service.services, Projects).disable(a.project_id)
      assert.strictEqual((yield* a.call("server_identity")).answer.status, 401)
    })
  )

  it.effect("no exception text, SQL, path or secret appears when the database fails under a tool", () =>
    Effect.gen(function* () {
      const a = yield* agent()
      const sql = yield* SqlClient.SqlClient
      const broken = yield* Effect.acquireUseRelease(
        sql`alter table memory_posting rename column tf to gone`,
        () => a.write("memory_add", { kind: "note", body: "x" }),
        () => Effect.orDie(sql`alter table memory_posting rename column gone to tf`)
      )
      assert.isTrue(broken.result.isError)
      assert.include(["internal_error", "bridge_persistence_error"], broken.code)
      assert.notMatch(broken.text, /tf|posting|insert|select|column|\/|Error:/)
    })
  )
})
