/** Orders the tasks of one call, which may name each other by ref. */
import { Effect, Schema } from "effect"
import { withDetails } from "../../wire/Refusal.ts"
import { refuse } from "../continuity/Errors.ts"
import { ItemId } from "../continuity/Shapes.ts"
import type { TaskCreateMany } from "./Shapes.ts"

type Item = TaskCreateMany["tasks"][number] & { readonly id: string }

/** The items with ids in place of refs, each after those that it names. */
export const inOrder = Effect.fnUntraced(function* (items: ReadonlyArray<Item>) {
  const idOf = new Map<string, string>()
  for (const [index, { id, ref }] of items.entries()) {
    if (ref === undefined) continue
    if (idOf.has(ref)) {
      const field = `tasks.${index}.ref`
      return yield* withDetails(refuse("invalid_request"), { field }, `${field}: another item has the same ref.`)
    }
    idOf.set(ref, id)
  }
  const named = (name: string, field: string) => {
    const known = idOf.get(name)
    if (known !== undefined) return Effect.succeed(known)
    const wrong = () =>
      withDetails(
        refuse("invalid_request"),
        { field },
        `${field}: neither a ref of this call nor the whole id of a task.`
      )
    return Schema.decodeEffect(ItemId)(name).pipe(Effect.catch(wrong))
  }
  const resolved = yield* Effect.forEach(items, ({ depends_on = [], parent, ...item }, index) =>
    Effect.gen(function* () {
      const field = `tasks.${index}`
      return {
        ...item,
        field,
        depends_on: yield* Effect.forEach(depends_on, (name, at) => named(name, `${field}.depends_on.${at}`)),
        ...(parent === undefined ? undefined : { parent: yield* named(parent, `${field}.parent`) })
      }
    })
  )
  const left = new Map(resolved.map((item) => [item.id, item]))
  const ordered: Array<(typeof resolved)[number]> = []
  while (left.size > 0) {
    const next = [...left.values()].filter(({ depends_on, parent = "" }) =>
      [...depends_on, parent].every((id) => !left.has(id))
    )
    if (next.length === 0) return yield* refuse("task_dependency_cycle")
    for (const item of next) left.delete(item.id)
    ordered.push(...next)
  }
  return ordered
})
