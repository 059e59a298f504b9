/** The answer to tools/list: the table of tools as JSON Schema, small enough for the context of an agent. */
import { Schema, Struct } from "effect"
import { ofRole, type Scope } from "../../wire/Scopes.ts"
import { largestInt } from "../continuity/Shapes.ts"
import type { JsonSchema } from "./calls/AsWritten.ts"
import { type ToolName, tools } from "./Tools.ts"

/** Draft 2020-12 without references, because not every client resolves them. */
const jsonSchema = (schema: Schema.Constraint, onExcessProperty: "error" | "ignore") =>
  Schema.toJsonSchemaDocument(schema, { onExcessProperty, referencePolicy: () => undefined }).schema

/**
 * The fields and types of an output, without the rules that only a validator reads. The complete output schemas would
 * take 16 KiB of every agent's context, and the descriptions already say what a tool returns. Not every client takes a list
 * of types, so a value that can be null has `anyOf`.
 */
const outline = (schema: JsonSchema): JsonSchema => {
  const { anyOf, items, properties } = schema
  if (anyOf !== undefined) {
    const types = [...new Set(anyOf.flatMap(({ type = [] }) => type))]
    return types.length === 1 ? { type: types[0]! } : { anyOf: types.map((type) => ({ type })) }
  }
  if (items !== undefined) return { type: "array", items: typeOf(items) }
  if (properties === undefined) return typeOf(schema)
  return {
    type: "object",
    properties: Object.fromEntries(Object.entries(properties).map(([name, inner]) => [name, outline(inner)]))
  }
}

/**
 * The input without rules that its descriptions say in words or that no agent meets, which the server checks: lengths,
 * patterns, the largest integer. Descriptions in as few characters as say the same.
 */
const brief = (schema: JsonSchema, isInner = false): JsonSchema => {
  const { description, maximum, pattern, ...rest } = Struct.omit(schema, ["maxLength", "uniqueItems"])
  const { anyOf, items, properties } = rest
  const inner = (one: JsonSchema) => brief(one, true)
  return {
    // An unknown parameter is refused at each level; the outer one says so for all.
    ...(isInner ? Struct.omit(rest, ["additionalProperties"]) : rest),
    ...(description === undefined ? undefined : { description: shortened(description) }),
    ...(maximum === undefined || maximum === largestInt ? undefined : { maximum }),
    ...(pattern === undefined || description !== undefined ? undefined : { pattern }),
    ...(anyOf === undefined ? undefined : { anyOf: anyOf.map(inner) }),
    ...(items === undefined ? undefined : { items: inner(items) }),
    ...(properties === undefined
      ? undefined
      : { properties: Object.fromEntries(Object.entries(properties).map(([name, one]) => [name, inner(one)])) })
  }
}

const shortened = (description: string) =>
  description
    .replace("one line, ", "")
    .replace(" bytes", " B")
    .replace(/^1 to (\d+) visible ASCII characters$/, "<= $1 ASCII")

/** An agent copies the object; its fields would only cost every tool that writes their schema. */
const write_context = Schema.Record(Schema.String, Schema.Any)

const typeOf = ({ type }: JsonSchema): JsonSchema => (type === undefined ? {} : { type })

const listed = Object.entries(tools).map(([name, tool]) => ({
  tool,
  definition: {
    name,
    title: tool.title,
    description: tool.description,
    inputSchema: {
      ...brief(
        jsonSchema(
          tool.writes && "fields" in tool.input ? Schema.Struct({ ...tool.input.fields, write_context }) : tool.input,
          "error"
        )
      ),
      type: "object" as const
    },
    outputSchema: { ...outline(jsonSchema(tool.output, "ignore") as JsonSchema), type: "object" as const },
    // Clients ask before a tool that writes; of one that only reads, that says enough.
    annotations: tool.writes
      ? { readOnlyHint: false, destructiveHint: false, openWorldHint: false }
      : { readOnlyHint: true }
  }
}))

/** The tools that a credential with these scopes can use. */
export const listFor = (scopes: ReadonlySet<Scope>) =>
  listed.filter(({ tool }) => tool.needs.every((scope) => scopes.has(scope))).map(({ definition }) => definition)

/** The tools that each role can use. */
export const lists = {
  reader: listFor(new Set(ofRole("reader"))),
  contributor: listFor(new Set(ofRole("contributor")))
} as const

export const inputSchemas = Object.fromEntries(
  listed.map(({ definition }) => [definition.name, definition.inputSchema as JsonSchema])
) as Readonly<Record<ToolName, JsonSchema>>
