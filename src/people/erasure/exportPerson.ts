/** Writes everything about a person as JSON lines, page by page. */
import { Effect, Record } from "effect"
import { SqlClient } from "effect/sql"
import { nil } from "../../wire/Ids.ts"
import * as PersonStore from "./PersonStore.ts"

const pageSize = 500

/** Returns how many lines of each kind were written. */
export const exportPerson = Effect.fnUntraced(function* <E>(
  person: PersonStore.Person,
  write: (text: string) => Effect.Effect<void, E>
) {
  const store = PersonStore.make(yield* SqlClient.SqlClient)
  return yield* Effect.all(
    Record.map(PersonStore.sections, (_, section) =>
      Effect.gen(function* () {
        let [count, after]: [number, string | undefined] = [0, nil]
        while (after !== undefined) {
          const page: ReadonlyArray<{ readonly id: string; readonly line: string }> = yield* store.page(
            section,
            person,
            after,
            pageSize
          )
          yield* write(page.map(({ line }) => `{"${section}":${line}}\n`).join(""))
          count += page.length
          after = page.length === pageSize ? page.at(-1)!.id : undefined
        }
        return count
      })
    )
  )
})
