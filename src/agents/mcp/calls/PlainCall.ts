/**
 * Answers the usual tools/call without the SDK: a single call of the current revision that asks for its result and nothing
 * else. For the SDK it would become a `Request`, a server, a transport and a `Response`, which cost more than most tools.
 *
 * The SDK classifies the message, so that headers and envelope have one judge. A call with anything unusual, and one that
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
import type { Role } from "../../../wire/Scopes.ts"
import { isObject } from "./AsWritten.ts"
import { calledTool } from "../Messages.ts"
import { toolFor, type ToolName } from "../Tools.ts"

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
  const route = classifyInboundRequest({ httpMethod: "POST", protocolVersionHeader: revision, body })
  if (route.kind !== "modern" || route.messageKind !== "request") return undefined
  const { id, params = {} } = route.message
  const { arguments: given = {} } = params
  const isPlain =
    hasOnly(body, ["jsonrpc", "id", "method", "params"]) &&
    hasOnly(params, ["name", "arguments", "_meta"]) &&
    hasOnly(params["_meta"], [PROTOCOL_VERSION_META_KEY, CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY]) &&
    isObject(given) &&
    !Object.hasOwn(given, "__proto__")
  return isPlain ? { id, name: name as ToolName, given } : undefined
}

const hasOnly = (value: unknown, names: ReadonlyArray<string>) =>
  isObject(value) && Object.keys(value).every((name) => names.includes(name))

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
