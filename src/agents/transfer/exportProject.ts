/** Writes a project to a file, page by page. Runs in a transaction of the caller. */
import { Effect, Option } from "effect"
import { SqlClient } from "effect/sql"
import { done, expect } from "../../platform/metrics/Progress.ts"
import { refuse } from "../continuity/Errors.ts"
import { kinds, noRows, pageSize } from "./Shapes.ts"
import * as File from "./TransferFile.ts"
import * as Store from "./TransferStore.ts"

export const exportProject = Effect.fnUntraced(function* <E>(
  project_id: string,
  now: Date,
  write: (text: string) => Effect.Effect<void, E>
) {
  const store = Store.make(yield* SqlClient.SqlClient)
  yield* store.snapshot
  const project = yield* store.findProject(project_id)
  if (Option.isNone(project)) return yield* refuse("project_not_found")
  yield* write(File.header(project.value, now))
  yield* expect(store.amount(project_id, kinds))
  const counts = noRows()
  for (const kind of kinds) {
    let after = ""
    do {
      const page = yield* store.page(project_id, kind, after, pageSize)
      after = page.length === pageSize ? page.at(-1)!.key : ""
      counts[kind] += page.length
      if (page.length > 0) yield* write(page.map(({ line }) => `${line}\n`).join(""))
      yield* done(page.length)
    } while (after !== "")
  }
  yield* write(File.end(counts))
  return counts
})
