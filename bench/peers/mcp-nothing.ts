/** A peer of bench/mcp.ts: SDK v2 behind node:http with the contributor's tools, which answer at once. Argument: the port. */
import { createMcpHandler, McpServer, type StandardSchemaWithJSON } from "@modelcontextprotocol/server"
import { createServer } from "node:http"
import { lists } from "../../src/agents/mcp/ToolList.ts"

const unvalidated = (schema: object) =>
  ({
    "~standard": {
      version: 1,
      vendor: "bench",
      validate: (value: unknown) => ({ value }),
      jsonSchema: { input: () => schema, output: () => schema }
    }
  }) as unknown as StandardSchemaWithJSON<Record<string, unknown>, Record<string, unknown>>

const tools = lists.contributor.map((tool) => ({ ...tool, schema: unvalidated(tool.inputSchema) }))
const handler = createMcpHandler(() => {
  const server = new McpServer({ name: "nothing", version: "1" }, { capabilities: { tools: { listChanged: false } } })
  for (const { description, name, schema, title } of tools) {
    server.registerTool(name, { title, description, inputSchema: schema }, () => ({
      content: [{ type: "text", text: '{"ok":true}' }],
      structuredContent: { ok: true }
    }))
  }
  return server
})

createServer(async (incoming, outgoing) => {
  let text = ""
  for await (const chunk of incoming) text += String(chunk)
  const headers = incoming.headers as Record<string, string>
  const request = new Request("http://service/mcp", { method: "POST", headers })
  const answer = await handler.fetch(request, { parsedBody: JSON.parse(text) })
  const body = await answer.text()
  outgoing.writeHead(answer.status, {
    ...Object.fromEntries(answer.headers),
    "content-length": Buffer.byteLength(body)
  })
  outgoing.end(body)
}).listen(Number(process.argv[2]), "127.0.0.1")
