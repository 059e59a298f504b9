/** Erases in a restored database what was erased after its backup was made. */
import { Effect, Option } from "effect"
import { SqlClient } from "effect/sql"
import { dropAgain } from "./drop.ts"
import * as File from "./ErasureFile.ts"
import * as Store from "./ErasureStore.ts"

/** What a restore makes of erasures that a crash left open. */
export type Open = "erase" | "keep" | "refuse"

export const replay = Effect.fn("Erasures.replay")(function* (files: ReadonlyArray<string>, onOpen: Open) {
  const read = yield* Effect.forEach(files, (path) => Effect.map(File.read(path), (r) => ({ path, ...r })))
  const open = read.find((found) => found.open.length > 0)
  if (onOpen === "refuse" && open !== undefined) {
    return yield* new File.ErasureFileError({
      message: `${open.path} has ${open.open.length} erasures of which a crash hides whether they were carried out, the first of ${open.open[0]!.at.toISOString()}: add --open erase or --open keep. Nothing was restored.`
    })
  }
  const all = read
    .flatMap(({ committed, open }) => (onOpen === "erase" ? [...committed, ...open] : committed))
    .toSorted((a, b) => a.at.getTime() - b.at.getTime())
  const paths = new Map(read.flatMap(({ committed, open, path }) => [...committed, ...open].map((one) => [one, path])))
  return Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const store = Store.make(sql)
    const instance = Option.getOrThrow(yield* store.instance)
    for (const line of all) {
      const { at, erasure_id, instance_id } = line
      if (instance_id !== instance.instance_id) {
        return yield* new File.ErasureFileError({
          message: `${paths.get(line)} is of another service than the backup: empty the database, and restore again with the files of that service.`
        })
      }
      yield* dropAgain(sql, line, at)
      yield* store.bury(erasure_id, line, at)
    }
    return all.length
  })
})
