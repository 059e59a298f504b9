/** Lists the fields of a JSON Schema, each with a description in words. */

export interface JsonSchema {
  readonly $ref?: string
  readonly type?: string | ReadonlyArray<string>
  readonly enum?: ReadonlyArray<unknown>
  readonly anyOf?: ReadonlyArray<JsonSchema>
  readonly oneOf?: ReadonlyArray<JsonSchema>
  readonly items?: JsonSchema
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: ReadonlyArray<string>
  readonly format?: string
  readonly pattern?: string
  readonly description?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly maxItems?: number
  readonly maxLength?: number
}

/** The schemas that `$ref` can name. */
export type Definitions = Readonly<Record<string, JsonSchema>>

export interface Field {
  /** A path; nested fields follow their object: `receipt`, `receipt.summary`. */
  readonly name: string
  readonly optional: boolean
  readonly description: string
}

export const fieldsOf = (given: JsonSchema, definitions: Definitions = {}, prefix = ""): ReadonlyArray<Field> => {
  const { properties = {}, required = [] } = objectIn(given, definitions)
  return Object.entries(properties).flatMap(([key, value]) => [
    { name: prefix + key, optional: !required.includes(key), description: describe(value, definitions) },
    ...fieldsOf(value, definitions, `${prefix}${key}.`)
  ])
}

const describe = (given: JsonSchema, definitions: Definitions): string => {
  const schema = resolved(given, definitions)
  const choices = schema.anyOf ?? schema.oneOf
  if (choices !== undefined) return [...new Set(choices.map((one) => describe(one, definitions)))].join(" or ")
  if (schema.enum !== undefined) return schema.enum.map(String).join(" or ")
  if (schema.items !== undefined) return `list of ${describe(schema.items, definitions)}${atMost(schema.maxItems, "")}`
  if (schema.description !== undefined) return schema.description.replace("<=", "at most")
  if (schema.format === "uuid") return "UUID"
  if (schema.pattern !== undefined) return schema.pattern
  if (schema.minimum !== undefined && schema.maximum !== undefined) return `${schema.minimum} to ${schema.maximum}`
  if (given.$ref?.endsWith("/InstantEncoded") === true) return "RFC 3339 time"
  return `${[schema.type ?? "any value"].flat().join(" or ")}${atMost(schema.maxLength, " characters")}`
}

const atMost = (most: number | undefined, unit: string) => (most === undefined ? "" : `, at most ${most}${unit}`)

const resolved = (schema: JsonSchema, definitions: Definitions): JsonSchema =>
  schema.$ref === undefined ? schema : (definitions[schema.$ref.slice(schema.$ref.lastIndexOf("/") + 1)] ?? {})

/** The object schema of a value: itself, the first object among its alternatives, or that of its items. */
const objectIn = (given: JsonSchema, definitions: Definitions): JsonSchema => {
  const schema = resolved(given, definitions)
  const inner = (schema.anyOf ?? schema.oneOf ?? [])
    .map((one) => resolved(one, definitions))
    .find((one) => one.properties)
  return inner ?? (schema.items === undefined ? schema : objectIn(schema.items, definitions))
}
