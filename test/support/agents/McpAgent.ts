/** An agent for tests: it has a project token and calls the tools of /mcp with plain requests. */
import { Context, Effect, Option, Redacted } from "effect"
import { ProjectTokens } from "../../../src/signin/access/ProjectTokens.ts"
import { Projects } from "../../../src/operator/projects/Projects.ts"
import type { Role, Scope } from "../../../src/wire/Scopes.ts"
import { type Answer, send } from "../network/Http.ts"

export type Instance = { readonly url: string; readonly services: Context.Context<ProjectTokens | Projects> }

const modern = "2026-07-28"

interface Given {
  readonly project_id?: string
  readonly role?: Role
  readonly scopes?: ReadonlyArray<Scope>
}

export const issueToken = Effect.fnUntraced(function* ({ services }: Instance, project_id: string, given: Given = {}) {
  const tokens = Context.get(services, ProjectTokens)
  const secret = yield* tokens.mint
  const { role = "contributor", scopes = [] } = given
  yield* tokens.issue({ project_id, role, scopes, ttl: Option.none() }, secret)
  return Redacted.value(secret.token)
})

/** Tools that return what was written with `verbose`. */
const echoes = ["memory_add", "task_create", "task_update", "task_claim"]

/** The answer to a tools/call: its output, or the code and details of its failure. */
export interface Called {
  readonly answer: Answer
  readonly result: any
  readonly output: any
  readonly code: string | undefined
  readonly details: any
  readonly text: string
}

export class Agent {
  declare readonly url: string
  declare readonly token: string
  declare readonly project_id: string
  declare readonly write_context: { resource: string; instance_id: string; project_id: string }

  constructor(fields: Pick<Agent, "url" | "token" | "project_id" | "write_context">) {
    Object.assign(this, fields)
  }

  /** Makes an agent in the given project, or in a new one. */
  static make = Effect.fnUntraced(function* (on: Instance, given: Given = {}) {
    const project_id = given.project_id ?? (yield* Context.get(on.services, Projects).create("Test project")).project_id
    const token = yield* issueToken(on, project_id, given)
    return yield* Agent.connect({ url: on.url, token, project_id })
  })

  /** An agent with this credential. Its write_context comes from server_identity. */
  static connect = Effect.fnUntraced(function* (given: Pick<Agent, "url" | "token" | "project_id">) {
    const write_context = { resource: "", instance_id: "", project_id: given.project_id }
    const unidentified = new Agent({ ...given, write_context })
    const { output } = yield* unidentified.call("server_identity")
    return new Agent({ ...given, write_context: output.write_context })
  })

  /** The same credential at another instance. */
  at(on: { readonly url: string }) {
    return new Agent({ ...this, url: on.url })
  }

  /** Sends a message of the newest revision, with the headers that this revision requires. */
  post(method: string, params: Readonly<Record<string, unknown>> = {}, headers: Readonly<Record<string, string>> = {}) {
    const named = params["name"] ?? params["uri"]
    const _meta = {
      "io.modelcontextprotocol/protocolVersion": modern,
      "io.modelcontextprotocol/clientCapabilities": {}
    }
    return send(`${this.url}/mcp`, {
      bearer: this.token,
      headers: {
        accept: "application/json, text/event-stream",
        "mcp-protocol-version": modern,
        "mcp-method": method,
        ...(typeof named === "string" ? { "mcp-name": named } : {}),
        ...headers
      },
      body: { jsonrpc: "2.0", id: 1, method, params: { ...params, _meta } }
    })
  }

  call(name: string, given: Readonly<Record<string, unknown>> = {}): Effect.Effect<Called> {
    return Effect.map(this.post("tools/call", { name, arguments: given }), (answer) => {
      const result = answer.body?.result
      const text = result?.content?.[0]?.text ?? ""
      const failed = result?.isError === true ? JSON.parse(text).error : undefined
      return {
        answer,
        result,
        output: result?.structuredContent,
        code: failed?.code ?? answer.code,
        details: failed?.details,
        text
      }
    })
  }

  /** Calls a tool with write_context, and asks for the whole of what was written if the tool returns it. */
  write(name: string, given: Readonly<Record<string, unknown>> = {}) {
    const whole = echoes.includes(name) ? { verbose: true } : undefined
    return this.call(name, { write_context: this.write_context, ...whole, ...given })
  }

  note(body: string, given: Readonly<Record<string, unknown>> = {}) {
    return Effect.map(this.write("memory_add", { kind: "note", body, ...given }), ({ output, text }) => {
      if (output === undefined) throw new Error(text)
      return output.entry
    })
  }

  task(title: string, given: Readonly<Record<string, unknown>> = {}) {
    return Effect.map(this.write("task_create", { title, ...given }), ({ output, text }) => {
      if (output === undefined) throw new Error(text)
      return output.task
    })
  }

  update(task: { readonly id: string; readonly version: number }, given: Readonly<Record<string, unknown>> = {}) {
    return this.write("task_update", { id: task.id, expected_version: task.version, ...given })
  }
}
