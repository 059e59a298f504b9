/**
 * One endpoint as one effect. It does what the library's HttpApiBuilder does for the same declaration, in the same order;
 * all that depends only on the declaration is decided here, once:
 *
 * 1. The middlewares of the declaration, outermost last: limits, credential, shape of errors.
 * 2. Decode path parameters and headers, then read and decode the body.
 * 3. Run the handler.
 * 4. Encode its result, or its refusal, with the schema that declares it. What is not declared is a defect.
 */
import { Context, Effect, Option, Schema, SchemaAST, SchemaIssue } from "effect"
import { HttpMethod, HttpServerRequest, HttpServerResponse } from "effect/http"
import {
  HttpApi,
  HttpApiBuilder,
  type HttpApiEndpoint,
  HttpApiError,
  type HttpApiGroup,
  HttpApiMiddleware,
  HttpApiSchema
} from "effect/http-api"

type Response = HttpServerResponse.HttpServerResponse
/** Requires what its middlewares and its handler do. */
type Answered = Effect.Effect<Response, unknown, unknown>
type Schemas = ReadonlyMap<number, ReadonlyArray<Schema.Top>>

interface Declared {
  readonly group: HttpApiGroup.Top
  readonly endpoint: HttpApiEndpoint.Top
  readonly annotations: Context.Context<never>
  /** By status. */
  readonly successes: Schemas
  readonly errors: Schemas
}

export type Handler = (input: object) => Effect.Effect<unknown, unknown, unknown>

/**
 * `context` holds the middlewares. `paramsOf` takes the parameters from a path that matches. Undefined for a declaration
 * with a part that no endpoint of ours has, such as a query or a stream; the router serves it.
 */
export const endpointEffect = (
  declared: Declared,
  handler: Handler,
  paramsOf: (url: string) => unknown,
  context: Context.Context<never>
): Answered | undefined => {
  const { annotations, endpoint, group } = declared
  const { error, headers, params, payload, success } = parseOptions(annotations)
  const decode = { params: decoder(endpoint.params, params), headers: decoder(endpoint.headers, headers) }
  const readPayload = payloadReader(endpoint, payload)
  const encodeSuccess = encoder(declared.successes, success, headers)
  const encodeError = encoder(declared.errors, error, headers)
  const around = middlewares(group, endpoint, context)
  if (endpoint.query !== undefined || readPayload === undefined || around === undefined) return undefined
  if (encodeSuccess === undefined || encodeError === undefined) return undefined

  const handled = Effect.gen(function* () {
    const request = yield* HttpServerRequest.HttpServerRequest
    const input = {
      request,
      endpoint,
      group,
      params: yield* HttpApiError.HttpApiSchemaError.wrap("Params", decode.params(paramsOf(request.url))),
      headers: yield* HttpApiError.HttpApiSchemaError.wrap("Headers", decode.headers(request.headers))
    }
    const body = readPayload(request)
    if (HttpServerResponse.isHttpServerResponse(body)) return body
    const decoded = body === undefined ? input : { ...input, payload: yield* body }
    const result = yield* handler(decoded)
    if (HttpServerResponse.isHttpServerResponse(result)) return result
    return yield* HttpApiError.HttpApiSchemaError.wrap("Body", encodeSuccess(result))
  })
  return around(handled).pipe(
    Effect.catch((failure) =>
      HttpApiError.HttpApiSchemaError.is(failure) ? Effect.die(failure) : Effect.orDie(encodeError(failure))
    )
  )
}

/** An option for one part of the declaration comes before one for all of it. */
const parseOptions = (annotations: Context.Context<never>) => {
  const all = Context.getOrUndefined(annotations, HttpApi.ParseOptions)
  return {
    params: Context.getOrUndefined(annotations, HttpApi.ParamsParseOptions) ?? all,
    headers: Context.getOrUndefined(annotations, HttpApi.HeadersParseOptions) ?? all,
    payload: Context.getOrUndefined(annotations, HttpApi.PayloadParseOptions) ?? all,
    success: Context.getOrUndefined(annotations, HttpApi.SuccessParseOptions) ?? all,
    error: Context.getOrUndefined(annotations, HttpApi.ErrorParseOptions) ?? all
  }
}

type Options = SchemaAST.ParseOptions | undefined

const decoder = (schema: Schema.Top | undefined, options: Options) =>
  schema === undefined ? () => Effect.undefined : Schema.decodeUnknownEffect(schema, options)

/** Reads a JSON body and decodes it. Undefined if the declaration has another one. */
const payloadReader = (endpoint: HttpApiEndpoint.Top, options: Options) => {
  if (endpoint.payload.size === 0) return () => undefined
  const json = endpoint.payload.get("application/json")
  if (json === undefined || endpoint.payload.size > 1 || !HttpMethod.hasBody(endpoint.method)) return undefined
  const decode = Schema.decodeUnknownEffect(Schema.Union(json.schemas), options)
  return (request: HttpServerRequest.HttpServerRequest) =>
    mediaType(request.headers["content-type"] ?? "application/json") === "application/json"
      ? HttpApiError.HttpApiSchemaError.wrap(
          "Payload",
          Effect.flatMap(Effect.orDie(request.text), (text) => {
            const body = parse(text)
            return Option.isNone(body) ? notJson : decode(body.value)
          })
        )
      : HttpServerResponse.empty({ status: 415 })
}

const mediaType = (header: string) => header.split(";", 1)[0]!.trim().toLowerCase()

const parse = Option.liftThrowable((text: string): unknown => (text === "" ? undefined : JSON.parse(text)))

const notJson = Effect.fail(
  new Schema.SchemaError(new SchemaIssue.InvalidValue({ message: "Expected a valid JSON body" }))
)

/** Puts the middlewares around a handler. Undefined if one accepts several kinds of credential. */
const middlewares = (group: HttpApiGroup.Top, endpoint: HttpApiEndpoint.Top, context: Context.Context<never>) => {
  const options = { group, endpoint }
  const layers: Array<(handled: Answered) => Answered> = []
  for (const each of endpoint.middlewares) {
    const key = each as HttpApiMiddleware.AnyService
    const service = Context.getUnsafe(context, key)
    if (!HttpApiMiddleware.isSecurity(key)) {
      layers.push((handled) => service(handled, options))
      continue
    }
    const [only, another] = Object.entries(key.security)
    if (only === undefined || another !== undefined) return undefined
    const credentialOf = HttpApiBuilder.securityDecode(only[1])
    layers.push((handled) =>
      Effect.flatMap(credentialOf, (credential) => service[only[0]](handled, { ...options, credential }))
    )
  }
  return (handled: Answered) => layers.reduce((inner, layer) => layer(inner), handled)
}

/** How the library marks a schema that encodes to body and headers (`HttpApiSchema.encodeToWithHeaders`). */
const withHeaders = SchemaAST.resolveAt("~httpApiWithHeaders")
/** How it marks a body that is not JSON. */
const encoding = SchemaAST.resolveAt("~httpApiEncoding")

/** Encodes a value by the first schema that fits. Undefined if one of them is not for JSON. */
const encoder = (byStatus: Schemas, options: Options, headersOptions: Options) => {
  const encoders: Array<(value: unknown) => Effect.Effect<Response, Schema.SchemaError, unknown>> = []
  for (const [status, schemas] of byStatus) {
    for (const schema of schemas) {
      if (encoding(schema.ast) !== undefined) return undefined
      encoders.push(encoderOf(schema, status, options, headersOptions))
    }
  }
  const [first = () => undeclared, ...others] = encoders
  return others.reduce((encode, other) => (value) => encode(value).pipe(Effect.catch(() => other(value))), first)
}

const undeclared = Effect.fail(new Schema.SchemaError(new SchemaIssue.InvalidValue({ message: "Expected no answer" })))

const encoderOf = (schema: Schema.Top, status: number, options: Options, headersOptions: Options) => {
  if (HttpApiSchema.isWithHeaders(schema)) {
    const body = Schema.encodeUnknownEffect(schema.schema, options)
    const headers = Schema.encodeUnknownEffect(schema.headers, headersOptions)
    const isPair = Schema.is(schema)
    return (value: unknown) =>
      isPair(value)
        ? Effect.flatMap(body(value.body), (body) =>
            Effect.map(headers(value.headers), (headers) => json(status, body, headers as Headers))
          )
        : Effect.map(body(value), (body) => json(status, body))
  }
  const encode = Schema.encodeUnknownEffect(schema, options)
  return withHeaders(schema.ast) === undefined
    ? (value: unknown) => Effect.map(encode(value), (body) => json(status, body))
    : (value: unknown) =>
        Effect.map(encode(value), (encoded) => {
          const { body, headers } = encoded as { readonly body: unknown; readonly headers: Headers }
          return json(status, body, headers)
        })
}

type Headers = Readonly<Record<string, string | undefined>>

const json = (status: number, body: unknown, headers: Headers = {}): Response =>
  body === undefined
    ? HttpServerResponse.empty({ status, headers })
    : HttpServerResponse.setHeaders(
        HttpServerResponse.text(JSON.stringify(body), { status, contentType: "application/json" }),
        headers
      )
