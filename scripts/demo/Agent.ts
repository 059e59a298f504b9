/** The tools of /mcp as an agent asks for them: revision 2026-07-28, by plain requests. */
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
      catch: () => new DemoError({ message: `${base_url} does not answer.` })
    })

  const ask = Effect.fnUntraced(function* (method: string, params: Readonly<Record<string, unknown>>) {
    const response = yield* post(method, params)
    const { result } = yield* Effect.tryPromise({
      try: async () => (await response.json()) as { readonly result?: any },
      catch: () => new DemoError({ message: `${method} was answered with ${response.status} and no JSON.` })
    })
    return result ?? (yield* new DemoError({ message: `${method} was answered with ${response.status}.` }))
  })

  const call = (name: string, given: object) => ask("tools/call", { name, arguments: given })

  return {
    ask,
    /** What the tool returns. */
    done: (name: string, given: object = {}) =>
      Effect.flatMap(call(name, given), ({ content, isError, structuredContent }) =>
        isError === true
          ? Effect.fail(new DemoError({ message: `${name}: ${content[0].text}` }))
          : Effect.succeed(structuredContent)
      ),
    /** The code with which the tool refuses, undefined where it does not. */
    refused: (name: string, given: object = {}) =>
      Effect.map(call(name, given), ({ content, isError }) =>
        isError === true ? (JSON.parse(content[0].text).error.code as string) : undefined
      ),
    /** The status of an answer that is about the credential rather than the tool. */
    status: Effect.map(post("tools/list", {}), ({ status }) => status)
  }
}
