/** What commands that nothing undoes would end, shown before they do. Nothing comes back for what is not there. */
import { Context, Effect, Layer, type Option, Record } from "effect"
import { SqlClient } from "effect/sql"
import { persistence } from "../../platform/database/Persistence.ts"
import type { SharedRefusal } from "../../wire/Errors.ts"
import * as Store from "./LossesStore.ts"

export type Loss = typeof Store.Loss.Type

type Statements = ReturnType<typeof Store.make>

type Reads = {
  readonly [Name in keyof Statements]: (
    ...asked: Parameters<Statements[Name]>
  ) => Effect.Effect<Option.Option<Loss>, SharedRefusal<"bridge_persistence_error">>
}

export class Losses extends Context.Service<Losses, Reads>()("service/operator/Losses") {
  static readonly layer = Layer.effect(
    Losses,
    Effect.gen(function* () {
      const store = Store.make(yield* SqlClient.SqlClient)
      const reads = Record.map(
        store,
        (statement: (...asked: any) => ReturnType<Statements["bridge"]>) =>
          (...asked: any) =>
            persistence(statement(...asked))
      )
      return reads as Reads
    })
  )
}
