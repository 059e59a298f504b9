/** The /mcp operations of bench/mcp.ts, for the load generator. */
import type { Connection } from "./connection.ts"
import { body, question } from "../corpus.ts"

export interface AgentLoad {
  readonly token: string
  readonly write_context: object
  /** Ids of existing entries, for memory_get. */
  readonly ids: ReadonlyArray<string>
  /** The number of existing entries; added entries continue the numbering. */
  readonly entries: number
}

const revision = "2026-07-28"
const _meta = {
  "io.modelcontextprotocol/protocolVersion": revision,
  "io.modelcontextprotocol/clientCapabilities": {}
}

export const call = async (
  connection: Connection,
  { token }: Pick<AgentLoad, "token">,
  name: string,
  args: Readonly<Record<string, unknown>>
) => {
  const headers = {
    authorization: `Bearer ${token}`,
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
    "mcp-protocol-version": revision,
    "mcp-method": "tools/call",
    "mcp-name": name
  }
  const message = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: args, _meta } }
  const { body, status } = await connection.request("POST", "/mcp", headers, JSON.stringify(message))
  const { result } = JSON.parse(body)
  if (result === undefined || result.isError === true) throw new Error(`${status}: ${body}`)
  return result.structuredContent
}

let serial = 0

/** Like `operations` in load.ts: each is called once per connection and returns the operation to repeat. */
export const tools = (agent: AgentLoad) => ({
  memory_get: async (connection: Connection) => () =>
    call(connection, agent, "memory_get", { id: agent.ids[serial++ % agent.ids.length] }),
  memory_search: async (connection: Connection) => () =>
    call(connection, agent, "memory_search", { query: question(serial++) }),
  memory_add: async (connection: Connection) => () =>
    call(connection, agent, "memory_add", {
      kind: "note",
      body: body(agent.entries + serial++),
      write_context: agent.write_context
    }),
  task_update: async (connection: Connection) => {
    const { write_context } = agent
    let { task } = await call(connection, agent, "task_create", { title: "A task", write_context })
    return async () => {
      const { id, version } = task
      const args = { id, expected_version: version, priority: version % 5, write_context }
      task = (await call(connection, agent, "task_update", args)).task
    }
  }
})
