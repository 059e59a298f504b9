/**
 * What a project may cost (decisions.md, Budgets of a project). Only the operator changes its limits.
 *
 * Agents reach a limit in `agents/budget` and in the statements that write; both take the maxima from the actor.
 */
import { Context, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { Audit } from "../../platform/audit/Audit.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import { CurrentOperator } from "../../platform/settings/Operator.ts"
import { type ProjectRefusal, refuse } from "../projects/Errors.ts"
import { type Changed, defaults, limitNames, maximumOf, type OwnLimits, storedMaxima } from "./LimitNames.ts"
import * as Store from "./LimitStore.ts"

export interface Limit {
  readonly limit: Changed | "index_bytes"
  /** What the project has stored, or has open; null for limits on calls, which each process counts by itself. */
  readonly value: number | null
  readonly maximum: number
  readonly default: number
}

type NoProject = ProjectRefusal<"project_not_found" | "bridge_persistence_error">

export class Limits extends Context.Service<
  Limits,
  {
    /** The maxima that differ from the defaults. */
    readonly own: (project_id: string) => Effect.Effect<OwnLimits, NoProject>
    readonly list: (project_id: string) => Effect.Effect<ReadonlyArray<Limit>, NoProject>
    /** Sets the named limits, null restores a default; returns all. A limit below the present use stops further writes. */
    readonly set: (
      project_id: string,
      changes: Readonly<Partial<Record<Changed, number | null>>>
    ) => Effect.Effect<ReadonlyArray<Limit>, NoProject>
  }
>()("service/limits/Limits") {
  static readonly layer = Layer.effect(
    Limits,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const audit = yield* Audit
      const store = Store.make(sql)

      const own = Effect.fn("Limits.own")(function* (project_id: string) {
        const found = yield* store.find(project_id, yield* clock.now)
        if (Option.isNone(found)) return yield* refuse("project_not_found")
        return found.value.limits
      }, persistence)

      const read = Effect.fnUntraced(function* (project_id: string) {
        const found = yield* store.find(project_id, yield* clock.now)
        if (Option.isNone(found)) return yield* refuse("project_not_found")
        const { limits, ...usage } = found.value
        const index_bytes: Limit = {
          limit: "index_bytes",
          value: usage.index_bytes,
          maximum: storedMaxima(limits).index_bytes,
          default: storedMaxima({}).index_bytes
        }
        const others = limitNames.map((limit) => ({
          limit,
          value: limit in usage ? usage[limit as keyof typeof usage] : null,
          maximum: maximumOf(limits, limit),
          default: defaults[limit]
        }))
        const set = (limit: Changed, usual: number): Limit => ({
          limit,
          value: null,
          maximum: limits[limit] ?? usual,
          default: usual
        })
        const switches = [set("embeddings", 1), set("memory_days", 0), set("receipt_days", 0)]
        return [others[0]!, index_bytes, ...others.slice(1), ...switches]
      })

      const set = Effect.fn("Limits.set")(
        function* (project_id: string, changes: Readonly<Partial<Record<Changed, number | null>>>) {
          const changed = yield* store.set(project_id, JSON.stringify(changes))
          if (Option.isNone(changed)) return yield* refuse("project_not_found")
          if (changed.value.changed) {
            const subject = Object.fromEntries(
              Object.entries(changes).map(([name, maximum]) => [name, String(maximum ?? "default")])
            )
            const now = yield* clock.now
            yield* audit.done(now, { action: "project.limits_set", project_id, actor: yield* CurrentOperator, subject })
          }
          return yield* read(project_id)
        },
        sql.withTransaction,
        persistence
      )

      return { own, list: Effect.fn("Limits.list")(read, persistence), set }
    })
  )
}
