/** An agent that calls the tools of /mcp with plain requests (MCP revision 2026-07-28). */
import { Effect, Redacted } from "effect"
import { DemoError } from "./Stage.ts"

const revision = "2026-07-28"
const _meta = {
  "io.modelcontextprotocol/protocolVersion": revision,
  "io.modelcontextprotocol/clientCapabilities": {}
}

export const agent = (base_url: string, token: Redacted.Redacted<string>, via: typeof fetch = fetch) => {
  const post = (method: string, params: Readonly<Record<string, unknown>>) =>
    Effect.tryPromise({
      try: (signal) =>
        via(`${base_url}/mcp`, {
          method: "POST",
          signal,
          headers: {
            authorization: `Bearer ${Redacted.value(token)}`,
            "content-type": "application/json",
            accept: "application/json, text/event-stream",
            "mcp-protocol-version": revision,
            "mcp-method": method,
            ...(typeof params["name"] === "string" ? { "mcp-name": params["name"] } : {})
          },
          body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { ...params, _meta } })
        }),
      catch: () => new DemoError({ message: `${base_url} does not answer; is the service running?` })
    })

  const ask = Effect.fnUntraced(function* (method: string, params: Readonly<Record<string, unknown>>) {
    const response = yield* post(method, params)
    const { result } = yield* Effect.tryPromise({
      try: async () => (await response.json()) as { readonly result?: any },
      catch: () => new DemoError({ message: `${method}: the response ${response.status} is not JSON.` })
    })
    return result ?? (yield* new DemoError({ message: `${method}: the response ${response.status} has no result.` }))
  })

  const call = (name: string, input: object) => ask("tools/call", { name, arguments: input })

  return {
    ask,
    /** The result of the tool; fails if the tool reports an error. */
    done: (name: string, input: object = {}) =>
      Effect.flatMap(call(name, input), ({ content, isError, structuredContent }) =>
        isError === true
          ? Effect.fail(new DemoError({ message: `${name}: ${content[0].text}` }))
          : Effect.succeed(structuredContent)
      ),
    /** The error code of the tool; undefined if it succeeds. */
    refused: (name: string, input: object = {}) =>
      Effect.map(call(name, input), ({ content, isError }) =>
        isError === true ? (JSON.parse(content[0].text).error.code as string) : undefined
      ),
    /** The HTTP status of a request: 401 if the credential is rejected. */
    status: Effect.map(post("tools/list", {}), ({ status }) => status)
  }
}
