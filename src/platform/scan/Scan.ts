/**
 * Looks for secrets in what is stored already: what came in before the guard, or under earlier rules (Guard.ts).
 *
 * Every table is read, a new one without being named here, in pages in the order of its key. So memory and statements stay
 * small however much there is, and the service may be running. What is found is named, never shown.
 */
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { SharedRefusal } from "../../wire/Errors.ts"
import { DatabaseClock } from "../database/Clock.ts"
import { Database } from "../database/Database.ts"
import { longPersistence } from "../database/Persistence.ts"
import { done, expect } from "../metrics/Progress.ts"
import type { SecretKind } from "../secrets/Rules.ts"
import { findSecret, findSecretIn } from "../secrets/Secrets.ts"
import * as Store from "./ScanStore.ts"

const pageSize = 500
/** Documents are read with their content, up to 1 MiB each. */
const documentsPerPage = 8
const mostFound = 1000

export interface StoredSecret {
  /** null outside of any project. */
  readonly project_id: string | null
  readonly table: string
  /** The rest of the row's key; null if the secret is in the key itself. */
  readonly id: string | null
  /** The path of the field; `""` if several hold the secret together. */
  readonly field: string
  readonly kind: SecretKind
}

export interface ScanReport {
  readonly ok: boolean
  readonly rows: number
  readonly found: ReadonlyArray<StoredSecret>
  /** Whether there may be more than what was found: the scan ends at 1,000. */
  readonly more: boolean
}

export class Scan extends Context.Service<
  Scan,
  {
    /** Reads one project, or everything. */
    readonly scan: (
      project_id: string | undefined
    ) => Effect.Effect<ScanReport, SharedRefusal<"bridge_persistence_error">>
  }
>()("service/scan/Scan") {
  static readonly layer = Layer.effect(
    Scan,
    Effect.gen(function* () {
      const { dedicated } = yield* Database
      const clock = yield* DatabaseClock

      const scan = Effect.fn("Scan.scan")(function* (project_id: string | undefined) {
        const now = yield* clock.now
        const store = Store.make(yield* SqlClient.SqlClient)
        const found: Array<StoredSecret> = []
        let read = 0
        const tables = (yield* store.tables).filter((table) => project_id === undefined || table.of_project)
        yield* expect(
          Effect.map(
            Effect.forEach(tables, (table) => store.amount(table, project_id)),
            (counts) => counts.flat().reduce((sum, { rows }) => sum + rows, 0)
          )
        )
        for (const table of tables) {
          const limit = table.name === "pinned_document" ? documentsPerPage : pageSize
          let after: ReadonlyArray<string> | undefined = []
          while (after !== undefined && found.length < mostFound) {
            const page: ReadonlyArray<Store.Row> = yield* store.page(table, project_id, after, limit)
            for (const row of page) found.push(...secretsOf(table, row, now))
            read += page.length
            after = page.length === limit ? page.at(-1)!.key : undefined
            yield* done(page.length)
          }
        }
        const more = found.length >= mostFound
        return { ok: found.length === 0, rows: read, found: found.slice(0, mostFound), more }
      })

      return { scan: (project_id) => dedicated(scan(project_id)).pipe(longPersistence) }
    })
  )
}

/** One for each field that holds a secret, or one for those that hold it together. */
const secretsOf = ({ key, name }: Store.Table, { key: values, project_id, value }: Store.Row, now: Date) => {
  const id = values.filter((_, n) => key[n]!.column !== "project_id").join(" ")
  const found = Object.entries(value).flatMap(([field, content]) => findSecretIn({ [field]: content }, now) ?? [])
  const together = found.length > 0 ? undefined : findSecretIn(value, now)
  return [...found, ...(together === undefined ? [] : [together])].map(({ field, kind }): StoredSecret => ({
    project_id,
    table: name,
    id: findSecret(id, now) === undefined ? id : null,
    field,
    kind
  }))
}
