/**
 * Answers the usual tools/call without the SDK: a single call of the current revision that asks for its result and nothing
 * else. For the SDK it would become a `Request`, a server, a transport and a `Response`, which cost more than most tools.
 *
 * The SDK classifies each envelope, so that headers and envelope have one judge. A call with anything unusual, and one that
 * fails in the protocol, is the SDK's to answer (decisions.md, Calls that skip the SDK).
 */
import {
  type CallToolResult,
  classifyInboundRequest,
  CLIENT_CAPABILITIES_META_KEY,
  CLIENT_INFO_META_KEY,
  PROTOCOL_VERSION_META_KEY,
  SERVER_INFO_META_KEY
} from "@modelcontextprotocol/server"
import { HttpServerResponse } from "effect/http"
import { recent } from "../../platform/edge/Recent.ts"
import type { Role } from "../../wire/Scopes.ts"
import { isObject } from "./AsWritten.ts"
import { calledTool } from "./Messages.ts"
import { toolFor, type ToolName } from "./Tools.ts"

const revision = "2026-07-28"

interface PlainCall {
  readonly id: string | number
  readonly name: ToolName
  readonly given: Readonly<Record<string, unknown>>
}

/** Undefined for every message that is left to the SDK. */
export const plainCall = (
  headers: Readonly<Record<string, string | undefined>>,
  body: unknown,
  role: Role
): PlainCall | undefined => {
  const name = calledTool(body)
  if (name === undefined || toolFor(role, name) === undefined) return undefined
  const sent = [headers["mcp-protocol-version"], headers["mcp-method"], headers["mcp-name"]]
  if (sent.join() !== [revision, "tools/call", name].join()) return undefined
  if (!hasOnly(body, ["jsonrpc", "id", "method", "params"])) return undefined
  const { id, jsonrpc, params } = body
  if (!isId(id) || !hasOnly(params, ["name", "arguments", "_meta"])) return undefined
  const { _meta, arguments: given = {} } = params
  const isPlain =
    hasOnly(_meta, [PROTOCOL_VERSION_META_KEY, CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY]) &&
    isObject(given) &&
    !Object.hasOwn(given, "__proto__") &&
    isCurrent(jsonrpc, _meta)
  return isPlain ? { id, name: name as ToolName, given } : undefined
}

const hasOnly = (value: unknown, names: ReadonlyArray<string>): value is Readonly<Record<string, unknown>> =>
  isObject(value) && Object.keys(value).every((name) => names.includes(name))

const isId = (id: unknown): id is string | number => typeof id === "string" || Number.isSafeInteger(id)

/**
 * Whether the SDK takes a message with this envelope for a request of the current revision. Clients send the same envelope
 * with every call, and classifying it takes longer than most tools do, so the verdict is remembered.
 */
const isCurrent = (jsonrpc: unknown, _meta: unknown): boolean => {
  const envelope = JSON.stringify([jsonrpc, _meta])
  const known = verdicts.get(envelope)
  if (known !== undefined) return known
  const body = { jsonrpc, id: 0, method: "tools/call", params: { name: "", _meta } }
  const route = classifyInboundRequest({ httpMethod: "POST", protocolVersionHeader: revision, body })
  const verdict = route.kind === "modern" && route.messageKind === "request"
  if (envelope.length <= longestRemembered) verdicts.set(envelope, verdict, 0)
  return verdict
}
const verdicts = recent<boolean>(1000, Infinity)
/** Characters. A client names itself in a hundred. */
const longestRemembered = 2048

/** What the SDK makes of a result; members in the order in which it writes them. */
export const resultOf = (
  { id }: PlainCall,
  { content, isError, structuredContent }: CallToolResult,
  serverInfo: object
) =>
  HttpServerResponse.text(
    JSON.stringify({
      result: {
        content,
        structuredContent,
        isError,
        resultType: "complete",
        _meta: { [SERVER_INFO_META_KEY]: serverInfo }
      },
      jsonrpc: "2.0",
      id
    }),
    { headers: { "content-type": "application/json", "cache-control": "no-store" } }
  )
