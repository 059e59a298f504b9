/**
 * Safe retries of mutations (spec 4.11): the same idempotency_key with the same request returns the original result.
 *
 * A key belongs to a project and a tool. Its row is inserted first, in the transaction of the mutation: another caller
 * with the same key waits for that transaction, and a mutation that fails leaves the key unused.
 */
import { Effect, Option, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { equal, sha256 } from "../../platform/crypto/Sha256.ts"
import { untilSettled } from "../../platform/database/Persistence.ts"
import { storedMaxima } from "../../operator/limits/LimitNames.ts"
import type { Actor } from "../../wire/Actor.ts"
import { withDetails } from "../../wire/Refusal.ts"
import { bytesOf, refuseFull } from "./Budget.ts"
import { refuse } from "./Errors.ts"
import * as Store from "./IdempotencyStore.ts"

export const make = (sql: SqlClient.SqlClient) => {
  const store = Store.make(sql)

  /**
   * Runs `work` once for a key. With a key, `work` and the key's row share a transaction; without one, `work` must be
   * atomic by itself.
   */
  const once = <A, E, R>(
    result: Schema.Codec<A, unknown>,
    { actor, tool }: { readonly actor: Actor; readonly tool: string },
    request: { readonly idempotency_key?: string },
    now: Date,
    work: Effect.Effect<A, E, R>
  ) => {
    const { idempotency_key, ...content } = request
    if (idempotency_key === undefined) return Effect.map(work, (answer) => ({ answer, replayed: false }))
    const key = { project_id: actor.project_id, tool, idempotency_key }
    const request_hash = sha256(canonical(content))
    const json = Schema.fromJsonString(Schema.toCodecJson(result))

    const attempt = Effect.gen(function* () {
      if ((yield* store.reserve(key, request_hash, now)).length === 0) return Option.none()
      const answer = yield* work
      const encoded = yield* Effect.orDie(Schema.encodeEffect(json)(answer))
      const stored_bytes = bytesOf(encoded)
      const completed = yield* store.complete(key, encoded, stored_bytes, storedMaxima(actor.limits))
      if (completed.length === 0) return yield* refuseFull(sql, actor, { stored_bytes })
      return Option.some({ answer, replayed: false })
    }).pipe(sql.withTransaction)

    const replay = Effect.gen(function* () {
      const earlier = yield* store.find(key)
      if (Option.isNone(earlier)) return Option.none()
      if (!equal(earlier.value.request_hash, request_hash)) return yield* refuse("idempotency_conflict")
      if (earlier.value.result === "") return yield* erased
      const answer = yield* Effect.orDie(Schema.decodeUnknownEffect(json)(earlier.value.result))
      return Option.some({ answer, replayed: true })
    })

    return untilSettled(attempt, replay)
  }

  return { once }
}

/** The operator has destroyed what the result named (decisions.md, Erasure). */
const erased = withDetails(
  refuse("idempotency_conflict"),
  {},
  "What this call returned was erased. Choose another idempotency_key to write anew."
)

/** JSON with sorted members: equal for equal requests, in whatever order a client or another release writes them. */
export const canonical = (value: unknown): string =>
  JSON.stringify(value, (_, member: unknown) =>
    typeof member === "object" && member !== null && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : member
  )
