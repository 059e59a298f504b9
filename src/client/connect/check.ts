/**
 * Tries a connection as a client makes it.
 *
 * With a token: `initialize`, then `tools/list`. Without one: the 401 of the service names its metadata (RFC 9728), which
 * names the authorization server (RFC 8414), and that one must let a client register or identify itself.
 */
import { Effect, Option, Redacted, Result, Schema } from "effect"

export interface Finding {
  readonly step: "reach" | "token" | "tools" | "metadata" | "sign-in"
  readonly ok: boolean
  readonly message: string
}

const seconds = 5
const maxBytes = 1024 * 1024

const ResourceMetadata = Schema.Struct({
  resource: Schema.String,
  authorization_servers: Schema.NonEmptyArray(Schema.String)
})
const ServerMetadata = Schema.Struct({
  authorization_endpoint: Schema.String,
  token_endpoint: Schema.String,
  registration_endpoint: Schema.optional(Schema.String),
  client_id_metadata_document_supported: Schema.optional(Schema.Boolean)
})
const Tools = Schema.Struct({ result: Schema.Struct({ tools: Schema.Array(Schema.Struct({ name: Schema.String })) }) })

interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: unknown
}

const attempt = (url: string, init: RequestInit = {}) =>
  Effect.tryPromise(async (): Promise<Answer> => {
    const response = await fetch(url, { ...init, redirect: "manual", signal: AbortSignal.timeout(seconds * 1000) })
    const chunks: Array<Uint8Array> = []
    let size = 0
    for await (const chunk of response.body ?? []) {
      size += chunk.byteLength
      if (size > maxBytes) break
      chunks.push(chunk)
    }
    return { status: response.status, headers: response.headers, body: parsed(Buffer.concat(chunks).toString("utf8")) }
  })

const ask = (url: string, init?: RequestInit) => Effect.option(attempt(url, init))

/** A JSON body, or the JSON in the first event of a stream. */
const parsed = (text: string): unknown => {
  const event = text.split("\n").find((line) => line.startsWith("data:"))
  try {
    return JSON.parse(event === undefined ? text : event.slice(5))
  } catch {
    return undefined
  }
}

const call = (url: string, method: string, params: object, token: Redacted.Redacted | undefined) =>
  attempt(url, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": version,
      ...(token !== undefined && { authorization: `Bearer ${Redacted.value(token)}` })
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params })
  })

const version = "2025-11-25"
const clientInfo = { name: "bridge-service-connect", version: "1" }

const ok = (step: Finding["step"], message: string): Finding => ({ step, ok: true, message })
const bad = (step: Finding["step"], message: string): Finding => ({ step, ok: false, message })

/** The findings in the order of the steps; the first that is not `ok` ends them. */
export const check = Effect.fnUntraced(function* (
  url: string,
  token: Redacted.Redacted | undefined
): Effect.fn.Return<ReadonlyArray<Finding>> {
  const params = { protocolVersion: version, capabilities: {}, clientInfo }
  const tried = yield* Effect.result(call(url, "initialize", params, token))
  if (Result.isFailure(tried)) {
    return [bad("reach", `${whyNot(url, tried.failure.cause)}: start the service, or correct --url.`)]
  }
  const first = tried.success
  const { status } = first
  if (status === 429 || status >= 500) {
    return [bad("reach", `${url} answered ${status}: try again, and if it persists ask the operator.`)]
  }
  if (status !== 401 && (token === undefined || status !== 200)) {
    return [bad("reach", `${url} answered ${status}, so it is not this service: correct --url.`)]
  }
  const reached = ok("reach", `${url} answers.`)
  if (token !== undefined) return [reached, ...(status === 401 ? [refusedToken] : yield* listTools(url, token))]
  return [reached, ...(yield* canSignIn(url, first))]
})

const whyNot = (url: string, error: unknown) => {
  if (error instanceof Error && error.name === "TimeoutError") return `${url} did not answer within ${seconds} s`
  const code = error instanceof Error ? (error.cause as NodeJS.ErrnoException | undefined)?.code : undefined
  return `Nothing answers at ${url}${code === undefined ? "" : ` (${code})`}`
}

const refusedToken = bad(
  "token",
  "The service refuses the token: it is revoked, expired or of another service. Ask the operator for a new one (service-admin create-project-token)."
)

const listTools = Effect.fnUntraced(function* (url: string, token: Redacted.Redacted) {
  const answer = Option.getOrUndefined(yield* Effect.option(call(url, "tools/list", {}, token)))
  const tools = Schema.decodeUnknownOption(Tools)(answer?.body)
  if (Option.isNone(tools)) {
    return [bad("tools", `tools/list answered ${answer?.status ?? "nothing"}: try again, then ask the operator.`)]
  }
  const { length } = tools.value.result.tools
  return [ok("token", "The service accepts the token."), ok("tools", `The client sees ${length} tools.`)]
})

const canSignIn = Effect.fnUntraced(function* (url: string, { headers }: Answer) {
  const challenge = headers.get("www-authenticate") ?? ""
  const named = challenge.split('resource_metadata="')[1]?.split('"')[0]
  if (named === undefined || !URL.canParse(named)) {
    return [bad("metadata", `The 401 of ${url} names no metadata: a proxy may remove the header WWW-Authenticate.`)]
  }
  const resource = yield* fetched(named, ResourceMetadata)
  if (Option.isNone(resource)) {
    return [bad("metadata", `${named} is not readable: publish /.well-known/ through the proxy.`)]
  }
  if (resource.value.resource !== url) {
    const right = `${resource.value.resource} is the address of the service, and clients refuse another one`
    return [bad("metadata", `${right}: connect with it, or correct SERVICE_BASE_URL.`)]
  }
  const issuer = resource.value.authorization_servers[0]
  if (!URL.canParse(issuer)) return [bad("metadata", `${named} names no valid authorization server.`)]
  const at = new URL(issuer)
  const path = at.pathname === "/" ? "" : at.pathname
  const server = yield* fetched(`${at.origin}/.well-known/oauth-authorization-server${path}`, ServerMetadata)
  if (Option.isNone(server)) {
    return [bad("metadata", `The metadata of ${issuer} is not readable: publish /.well-known/ through the proxy.`)]
  }
  const metadata = ok("metadata", `${issuer} signs clients in.`)
  const { client_id_metadata_document_supported: documents, registration_endpoint } = server.value
  if (registration_endpoint !== undefined) return [metadata, ok("sign-in", "Clients can register themselves.")]
  if (documents === true) {
    return [metadata, ok("sign-in", "Clients whose metadata documents the operator allows can sign in.")]
  }
  const remedy = "use --token-env, or ask the operator for a client id (service-admin create-oauth-client)"
  return [metadata, bad("sign-in", `Clients cannot register themselves here: ${remedy}.`)]
})

const fetched = <S extends Schema.Codec<unknown, unknown>>(url: string, schema: S) =>
  Effect.map(ask(url), (answer) =>
    Option.flatMap(answer, ({ body, status }) =>
      status === 200 ? Schema.decodeUnknownOption(schema)(body) : Option.none<S["Type"]>()
    )
  )
