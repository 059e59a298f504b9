/**
 * The MCP endpoint (spec 4.8): Streamable HTTP of the revisions 2025-03-26 to 2026-07-28, without sessions.
 *
 * 1. The Origin, and the answer to a preflight. 2. The credential: one generic 401. 3. The method: POST only.
 * 4. Media type, size and nesting of the body. 5. The rate of this credential. 6. The scopes of the tools it calls: 403.
 * 7. The SDK speaks the protocol; its answers pass as they are. Who disconnects cancels what is under way.
 */
import {
  createMcpHandler,
  isJsonContentType,
  ProtocolError,
  ProtocolErrorCode,
  Server,
  type CallToolResult,
  type McpHttpHandler
} from "@modelcontextprotocol/server"
import { ByteSize, Effect, Exit, Layer, Option, Schema } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { Access } from "../../signin/access/Access.ts"
import { credentialOf } from "../../signin/access/BearerCredential.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import { isTooLarge } from "../../platform/edge/Form.ts"
import { RateLimit } from "../../platform/edge/RateLimit.ts"
import { version } from "../../platform/settings/Package.ts"
import type { Actor } from "../../wire/Actor.ts"
import { answer, type Refusal } from "../../wire/Refusal.ts"
import { Calls } from "./Calls.ts"
import { failure, refuse } from "./Errors.ts"
import { calledTool, messagesOf, parse } from "./Messages.ts"
import { allows, corsHeaders, preflightHeaders } from "./Origins.ts"
import { lists } from "./ToolList.ts"
import { toolFor, type ToolName } from "./Tools.ts"

const largestBody = ByteSize.fromInputUnsafe(1024 * 1024)
const largestBatch = 50
const rate = { perSecond: 50, burst: 500 }

const instructions =
  "Memory, tasks and documents of one project: the one that your credential belongs to. Start with continuity_context. Before the first write call server_identity and send its write_context with every write. When a task is not found, stop."

/** What a request hands to its protocol instance: who asks, and how to run a tool for as long as the request lives. */
interface Session {
  readonly actor: Actor
  readonly call: (name: ToolName, given: Readonly<Record<string, unknown>>) => Promise<CallToolResult>
}

/** No cursor is ever handed out, so none is valid. By its own schema the SDK would call one of a wrong type its own failure. */
const onePage = Schema.toStandardSchemaV1(Schema.Struct({ cursor: Schema.optional(Schema.Undefined) }))

const protocol = ({ actor, call }: Session) => {
  const server = new Server(
    { name: "bridge-service", title: "Bridge Service", version },
    {
      capabilities: { tools: { listChanged: false } },
      instructions,
      cacheHints: { "tools/list": { ttlMs: 300_000, cacheScope: "private" } }
    }
  )
  server.setRequestHandler("tools/list", { params: onePage }, () => ({ tools: lists[actor.role] }))
  server.setRequestHandler("tools/call", ({ params }) =>
    toolFor(actor.role, params.name) === undefined
      ? Promise.reject(new ProtocolError(ProtocolErrorCode.InvalidParams, "Unknown tool"))
      : call(params.name as ToolName, params.arguments ?? {})
  )
  return server
}

const handler = Effect.acquireRelease(
  Effect.sync(() => createMcpHandler(({ authInfo }) => protocol(authInfo?.extra as unknown as Session))),
  (mcp) => Effect.promise(() => mcp.close())
)

const routes = Effect.gen(function* () {
  const router = yield* HttpRouter.HttpRouter
  const access = yield* Access
  const calls = yield* Calls
  const limits = yield* RateLimit
  const { baseUrl, mcp } = yield* Settings
  const sdk = yield* handler
  const isAllowed = allows(baseUrl, mcp.allowedOrigins)

  const exchange = Effect.gen(function* () {
    const request = yield* HttpServerRequest.HttpServerRequest
    const actor = yield* access.authorize(credentialOf(request.headers["authorization"]))
    if (request.method !== "POST") return answer(refuse("method_not_allowed"), { allow: "POST" })
    const body = yield* bodyOf(request)
    if (Option.isNone(body)) return notJson
    const messages = messagesOf(body.value)
    if (messages.length > largestBatch) return yield* refuse("invalid_request")
    const seconds = yield* limits.take(`mcp ${actor.credential_id}`, rate, Math.max(1, messages.length))
    if (seconds > 0) return yield* refuse("rate_limited", seconds)
    for (const name of messages.map(calledTool)) {
      const tool = name === undefined ? undefined : toolFor(actor.role, name)
      if (tool !== undefined) yield* access.require(actor, ...tool.needs)
    }
    return yield* spoken(sdk, request, body.value, actor, calls)
  }).pipe(Effect.catch((refusal: Refusal) => Effect.succeed(answer(refusal))))

  const handled = Effect.gen(function* () {
    const { headers, method } = yield* HttpServerRequest.HttpServerRequest
    const { origin } = headers
    if (origin !== undefined && !isAllowed(origin)) return answer(refuse("origin_not_allowed"), corsHeaders(undefined))
    const cors = corsHeaders(origin)
    if (method === "OPTIONS")
      return HttpServerResponse.empty({ status: 204, headers: { ...cors, ...preflightHeaders } })
    return HttpServerResponse.setHeaders(yield* exchange, cors)
  })

  yield* router.add("*", "/mcp", handled)
  yield* router.add("*", "/mcp/", handled)
})

export const McpHttp = Layer.effectDiscard(routes).pipe(Layer.provide(Calls.layer))

const notJson = HttpServerResponse.jsonUnsafe(
  {
    jsonrpc: "2.0",
    id: null,
    error: { code: -32_700, message: "Parse error: the body is not JSON, or nested too deeply" }
  },
  { status: 400, headers: { "cache-control": "no-store" } }
)

const bodyOf = Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest) {
  if (!isJsonContentType(request.headers["content-type"] ?? null)) return yield* refuse("unsupported_media_type")
  const text = yield* request.text.pipe(
    Effect.provideService(HttpServerRequest.MaxBodySize, largestBody),
    Effect.asSome,
    Effect.catch((error) => (isTooLarge(error) ? refuse("payload_too_large") : Effect.succeedNone))
  )
  return Option.flatMap(text, parse)
})

/** One exchange with the SDK; what it runs ends with this fiber. */
const spoken = Effect.fnUntraced(function* (
  sdk: McpHttpHandler,
  { headers, method, url }: HttpServerRequest.HttpServerRequest,
  parsedBody: unknown,
  actor: Actor,
  calls: Calls["Service"]
) {
  const context = yield* Effect.context<never>()
  const { answered, text } = yield* Effect.promise(async (signal) => {
    const call: Session["call"] = async (name, given) => {
      const exit = await Effect.runPromiseExitWith(context)(calls.call(actor, name, given), { signal })
      return Exit.isSuccess(exit) ? exit.value : failure(refuse("internal_error"))
    }
    const answered = await sdk.fetch(new Request(`http://service${url}`, { method, headers, signal }), {
      parsedBody,
      // The SDK wants a token and hands it to nobody but us; the real one goes no further than Access.
      authInfo: { token: "", clientId: actor.client_id ?? "", scopes: [...actor.scopes], extra: { actor, call } }
    })
    // Every answer ends: read here, a slow reader holds no transaction and no instance open. That of a subscription too,
    // because `protocol` declares nothing that changes; one that lasts would have to end with its credential.
    return { answered, text: await answered.text() }
  })
  const type = answered.headers.get("content-type")
  const kept = { ...Object.fromEntries(answered.headers), "cache-control": "no-store" }
  return text === ""
    ? HttpServerResponse.empty({ status: answered.status, headers: kept })
    : HttpServerResponse.text(text, { status: answered.status, headers: kept, contentType: type ?? "application/json" })
})
