/**
 * A small MCP server behind Access on the address of the service, for clients that want to see a token work: one origin
 * for /mcp and everything else, as in production.
 */
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server"
import { Context, Effect } from "effect"
import { createServer, request } from "node:http"
import { Access } from "../../src/access/Access.ts"
import { credentialOf } from "../../src/access/Challenges.ts"
import { freePort } from "./Agent.ts"
import { instance } from "./Service.ts"

export const withMcp = Effect.fnUntraced(function* (settings: Readonly<Record<string, string>> = {}) {
  const port = yield* freePort
  const url = `http://127.0.0.1:${port}`
  const behind = yield* instance({ SERVICE_BASE_URL: url, ...settings })
  const access = Context.get(behind.services, Access)
  const mcp = createMcpHandler(() => {
    const server = new McpServer({ name: "behind-access", version: "1" })
    server.registerTool("whoami", { description: "Says who is signed in" }, () => ({
      content: [{ type: "text", text: "signed in" }]
    }))
    return server
  })
  const run = Effect.runPromiseWith(yield* Effect.context<never>())

  const server = createServer((asked, answered) => {
    if (asked.url === "/mcp") {
      const authorized = access.authorize(credentialOf(asked.headers.authorization))
      void (async () => {
        const actor = await run(Effect.result(authorized))
        if (actor._tag === "Failure") {
          const { challenge = "", status } = actor.failure
          answered.writeHead(status, { "www-authenticate": challenge }).end()
          return
        }
        const chunks = await asked.toArray()
        const response = await mcp.fetch(
          new Request(`${url}/mcp`, {
            method: asked.method!,
            headers: asked.headers as Record<string, string>,
            ...(asked.method === "POST" && { body: Buffer.concat(chunks) })
          })
        )
        answered.writeHead(response.status, Object.fromEntries(response.headers)).end(await response.text())
      })().catch(() => answered.destroy())
      return
    }
    const { headers, method, url: path } = asked
    asked.pipe(
      request(`${behind.url}${path}`, { method, headers }, (response) => {
        answered.writeHead(response.statusCode!, response.headers)
        response.pipe(answered)
      })
    )
  })
  yield* Effect.acquireRelease(
    Effect.callback<void>((resume) => {
      server.listen(port, "127.0.0.1", () => resume(Effect.void))
    }),
    () => Effect.sync(() => server.close().closeAllConnections())
  )
  return { url, services: behind.services }
})
