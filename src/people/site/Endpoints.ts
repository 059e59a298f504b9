/** Extracts the facts about each endpoint that the reference shows from the OpenAPI document. */
import { type Field, fieldsOf, type JsonSchema, type Definitions } from "./JsonSchema.ts"

/** The parts of an OpenAPI 3.1 document that this file reads. */
export interface OpenApiDocument {
  readonly paths: Readonly<Record<string, Readonly<Partial<Record<string, Operation>>>>>
  readonly components: { readonly schemas: Definitions }
}

interface Operation {
  readonly operationId: string
  readonly summary?: string
  readonly description?: string
  readonly tags?: ReadonlyArray<string>
  readonly parameters?: ReadonlyArray<{
    readonly name: string
    readonly in: string
    readonly required: boolean
    readonly schema: JsonSchema
  }>
  readonly security?: ReadonlyArray<Readonly<Record<string, unknown>>>
  readonly requestBody?: Body
  readonly responses: Readonly<Record<string, Body>>
}

interface Body {
  readonly content?: Readonly<Record<string, { readonly schema: JsonSchema }>>
}

export interface Endpoint {
  readonly id: string
  readonly group: string
  readonly method: string
  readonly path: string
  readonly summary: string | undefined
  readonly description: string | undefined
  /** The kind of bearer credential, such as `bridge token`. */
  readonly bearer: string | undefined
  readonly headers: ReadonlyArray<Field>
  readonly body: ReadonlyArray<Field>
  readonly successes: ReadonlyArray<string>
  /** The fields of the first success. */
  readonly response: ReadonlyArray<Field>
  readonly codes: ReadonlyArray<Code>
}

export interface Code {
  readonly status: number
  readonly code: string
  readonly message: string
}

export const endpointsOf = ({ components, paths }: OpenApiDocument): ReadonlyArray<Endpoint> =>
  Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => endpoint(method, path, operation!, components.schemas))
  )

const endpoint = (method: string, path: string, operation: Operation, definitions: Definitions): Endpoint => {
  const {
    description,
    operationId,
    parameters = [],
    requestBody,
    responses,
    security = [],
    summary,
    tags = []
  } = operation
  const successes = Object.keys(responses).filter((status) => status < "400")
  const fields = (body: Body | undefined) => fieldsOf(schemaOf(body), definitions)
  return {
    id: operationId,
    group: tags[0] ?? "",
    method: method.toUpperCase(),
    path,
    summary,
    description,
    bearer: security.flatMap((scheme) => Object.keys(scheme))[0]?.replaceAll("_", " "),
    headers: parameters
      .filter((parameter) => parameter.in === "header")
      .flatMap(({ name, required, schema }) =>
        fieldsOf({ properties: { [name]: schema }, required: required ? [name] : [] }, definitions)
      ),
    body: fields(requestBody),
    successes,
    response: fields(responses[successes[0]!]),
    codes: Object.entries(responses).flatMap(([status, body]) => codesOf(Number(status), schemaOf(body)))
  }
}

const schemaOf = (body: Body | undefined): JsonSchema => Object.values(body?.content ?? {})[0]?.schema ?? {}

const codesOf = (status: number, schema: JsonSchema): ReadonlyArray<Code> => {
  const code = schema.properties?.["error"]?.properties?.["code"]
  return (code?.anyOf ?? (code === undefined ? [] : [code])).flatMap((one) =>
    (one.enum ?? []).map((name) => ({ status, code: String(name), message: one.description ?? "" }))
  )
}
