/**
 * The graph of `@modelcontextprotocol/server-memory`: a line of JSON for each entity and each relation. An entity becomes an
 * entry, with its observations and the relations that go out from it.
 */
import { Effect, Schema } from "effect"
import { entriesOf, type EntryItem, originOf, type Skipped, tagsOf, titleOf } from "./Item.ts"
import { fieldsOf, invalid, type Place, type SourceFile } from "./Place.ts"
import { objectsOf } from "./text.ts"

const entity = fieldsOf(
  Schema.Struct({ name: Schema.String, entityType: Schema.String, observations: Schema.Array(Schema.String) })
)
const relation = fieldsOf(Schema.Struct({ from: Schema.String, to: Schema.String, relationType: Schema.String }))

interface Entity {
  readonly place: Place
  readonly types: Array<string>
  readonly observations: Array<string>
  readonly relations: Array<string>
}

export const readServerMemory = Effect.fnUntraced(function* (label: string, files: ReadonlyArray<SourceFile>) {
  const entities = new Map<string, Entity>()
  const skipped: Array<Skipped> = []
  /** The program may have relations of a name that is no entity. */
  const named = (name: string, place: Place) => {
    const known = entities.get(name) ?? { place, types: [], observations: [], relations: [] }
    entities.set(name, known)
    return known
  }
  for (const file of files) {
    for (const { place, value } of yield* objectsOf(file)) {
      if (value["type"] === "entity") {
        const { entityType, name, observations } = yield* entity(place, value)
        const known = named(name, place)
        if (known.types.length > 0) return yield* invalid(place, `It repeats the entity of line ${known.place.line}`)
        known.types.push(entityType)
        known.observations.push(...observations)
      } else if (value["type"] === "relation") {
        const { from, relationType, to } = yield* relation(place, value)
        named(from, place).relations.push(`${relationType}: ${to}`)
      } else skipped.push({ place, why: "It is neither an entity nor a relation" })
    }
  }
  const items: Array<EntryItem> = []
  for (const [name, { observations, place, relations, types }] of entities) {
    const lines = [...observations, ...relations].map((line) => `- ${line.trim().replaceAll("\n", "\n  ")}`)
    const made = yield* entriesOf({
      place,
      origin: originOf("server-memory", label, name),
      kind: "note",
      title: name,
      text: lines.length === 0 ? titleOf(name) : lines.join("\n"),
      tags: tagsOf(types)
    })
    if (made.length === 0) skipped.push({ place, why: "It is empty" })
    items.push(...made)
  }
  return { items, skipped }
})
