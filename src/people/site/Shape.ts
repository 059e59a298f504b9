/** What a JSON Schema says of a value, in words. */

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

export type Named = Readonly<Record<string, JsonSchema>>

export interface Field {
  /** Inner fields come after their object: `receipt`, `receipt.summary`. */
  readonly name: string
  readonly optional: boolean
  readonly words: string
}

export const fieldsOf = (given: JsonSchema, named: Named = {}, before = ""): ReadonlyArray<Field> => {
  const { properties = {}, required = [] } = objectIn(given, named)
  return Object.entries(properties).flatMap(([key, value]) => [
    { name: before + key, optional: !required.includes(key), words: words(value, named) },
    ...fieldsOf(value, named, `${before}${key}.`)
  ])
}

const words = (given: JsonSchema, named: Named): string => {
  const schema = resolved(given, named)
  const choices = schema.anyOf ?? schema.oneOf
  if (choices !== undefined) return [...new Set(choices.map((one) => words(one, named)))].join(" or ")
  if (schema.enum !== undefined) return schema.enum.map(String).join(" or ")
  if (schema.items !== undefined) return `list of ${words(schema.items, named)}${atMost(schema.maxItems, "")}`
  if (schema.description !== undefined) return schema.description.replace("<=", "at most")
  if (schema.format === "uuid") return "UUID"
  if (schema.pattern !== undefined) return schema.pattern
  if (schema.minimum !== undefined && schema.maximum !== undefined) return `${schema.minimum} to ${schema.maximum}`
  if (given.$ref?.endsWith("/InstantEncoded") === true) return "RFC 3339 time"
  return `${[schema.type ?? "any value"].flat().join(" or ")}${atMost(schema.maxLength, " characters")}`
}

const atMost = (most: number | undefined, unit: string) => (most === undefined ? "" : `, at most ${most}${unit}`)

const resolved = (schema: JsonSchema, named: Named): JsonSchema =>
  schema.$ref === undefined ? schema : (named[schema.$ref.slice(schema.$ref.lastIndexOf("/") + 1)] ?? {})

/** The object that a value is, may be or has many of. */
const objectIn = (given: JsonSchema, named: Named): JsonSchema => {
  const schema = resolved(given, named)
  const inner = (schema.anyOf ?? schema.oneOf ?? []).map((one) => resolved(one, named)).find((one) => one.properties)
  return inner ?? (schema.items === undefined ? schema : objectIn(schema.items, named))
}
