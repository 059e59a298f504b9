/**
 * Reads arguments as models write them, by the tool's JSON Schema and before the schema itself checks them:
 *
 * - null for a parameter that cannot be null counts as absent, and so does an empty cursor;
 * - one value stands for a list of one;
 * - the JSON text of an object or a list stands for it, and the text of a number or a boolean for that.
 */
export interface JsonSchema {
  readonly type?: string | ReadonlyArray<string>
  readonly anyOf?: ReadonlyArray<JsonSchema>
  readonly items?: JsonSchema
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: ReadonlyArray<string>
  readonly description?: string
  readonly maxItems?: number
  readonly maxLength?: number
  readonly maximum?: number
  readonly pattern?: string
  readonly uniqueItems?: boolean
  readonly additionalProperties?: unknown
}

export const asWritten = (schema: JsonSchema, given: unknown): unknown => {
  const { items, maxItems = Infinity, properties, type } = schema
  if (properties !== undefined) {
    const object = isObject(given) ? given : fromJson(given, isObject)
    if (object === undefined) return given
    return Object.fromEntries(
      Object.entries(object)
        .filter(([name, value]) => !isAbsent(name, properties[name], value))
        .map(([name, value]) => [name, Object.hasOwn(properties, name) ? asWritten(properties[name]!, value) : value])
    )
  }
  if (type === "array") {
    const list = Array.isArray(given) ? given : (fromJson(given, Array.isArray) ?? [given])
    return items === undefined || list.length > maxItems ? list : list.map((item) => asWritten(items, item))
  }
  if (type === "integer") return fromJson(given, isNumber) ?? given
  if (type === "boolean") return fromJson(given, isBoolean) ?? given
  return given
}

export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const isNumber = (value: unknown): value is number => typeof value === "number"
const isBoolean = (value: unknown): value is boolean => typeof value === "boolean"

const isAbsent = (name: string, schema: JsonSchema | undefined, value: unknown) =>
  schema !== undefined && ((value === null && !takesNull(schema)) || (value === "" && name === "cursor"))

const takesNull = ({ anyOf = [], type = [] }: JsonSchema): boolean =>
  [type].flat().includes("null") || anyOf.some(takesNull)

/** Longer than any object or list that a tool takes. */
const longestJson = 65_536

/** What the text says as JSON, if that is the kind of value that is expected. */
export const fromJson = <A>(text: unknown, isExpected: (value: unknown) => value is A): A | undefined => {
  if (typeof text !== "string" || text.length > longestJson) return undefined
  try {
    const value: unknown = JSON.parse(text)
    return isExpected(value) ? value : undefined
  } catch {
    return undefined
  }
}
