/** Delivery as its operator sees it: what waits and why, what was given up, and under which keys the tokens lie. */
import { Context, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { Audit } from "../../platform/audit/Audit.ts"
import { equal } from "../../platform/crypto/Sha256.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import type { SharedRefusal } from "../../wire/Errors.ts"
import * as Store from "./DeliveriesStore.ts"
import { PushKeys } from "../PushKeys.ts"
import { Outbox } from "./Outbox.ts"

export type DeadLetter = typeof Store.DeadLetter.Type
type Lost = SharedRefusal<"bridge_persistence_error">

export interface PushStatus {
  /** How many deliveries are in each state. */
  readonly deliveries: Readonly<Record<string, number>>
  /** Since when the longest waiting delivery could have been sent. */
  readonly due_since: Date | null
  /** Environments that fail, and until when they are left alone. */
  readonly pauses: ReadonlyArray<typeof Store.Provider.Type>
  readonly token_keys: Readonly<Record<string, number>>
  readonly current_key: string
}

export interface Rekeyed {
  readonly resealed: number
  /** Under a key that is not configured, or altered. */
  readonly unreadable: number
  readonly token_keys: Readonly<Record<string, number>>
}

export class Deliveries extends Context.Service<
  Deliveries,
  {
    readonly status: Effect.Effect<PushStatus, Lost>
    /** Newest first. */
    readonly listDead: (limit: number) => Effect.Effect<ReadonlyArray<DeadLetter>, Lost>
    /** Those that have not expired, from the first attempt; answers how many. */
    readonly retryDead: Effect.Effect<number, Lost>
    /** Seals every token under the current key, and looks it up by the current one. May be repeated, also under load. */
    readonly rekey: Effect.Effect<Rekeyed, Lost>
  }
>()("service/push/Deliveries") {
  static readonly layer = Layer.effect(
    Deliveries,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const audit = yield* Audit
      const keys = yield* PushKeys
      const outbox = yield* Outbox
      const store = Store.make(sql)

      const tokenKeys = Effect.map(store.countKeys, (found) =>
        Object.fromEntries(found.map(({ devices, token_key_id }) => [token_key_id, devices]))
      )

      const status = Effect.gen(function* () {
        const states = yield* store.countStates
        const due = yield* store.oldestDue(yield* clock.now)
        return {
          deliveries: Object.fromEntries(states.map(({ count, state }) => [state, count])),
          due_since: Option.match(due, { onNone: () => null, onSome: ({ due_since }) => due_since }),
          pauses: yield* store.providers,
          token_keys: yield* tokenKeys,
          current_key: keys.current
        }
      })

      const retryDead = Effect.gen(function* () {
        const now = yield* clock.now
        const retried = yield* store.retryDead(now)
        if (retried.length > 0) {
          yield* audit.done(now, {
            action: "push.dead_letters_retried",
            project_id: null,
            actor: "operator",
            subject: {}
          })
        }
        yield* outbox.ring
        return retried.length
      })

      const reseal = Effect.fnUntraced(function* (
        isFirst: boolean,
        now: Date,
        ...change: Parameters<typeof store.reseal>
      ) {
        const isDone = (yield* store.reseal(...change)).length > 0
        if (isDone && isFirst) {
          yield* audit.done(now, {
            action: "push.tokens_rekeyed",
            project_id: null,
            actor: "operator",
            subject: {}
          })
        }
        return isDone
      }, sql.withTransaction)

      const rekeyOne = Effect.fnUntraced(function* (device: typeof Store.Sealed.Type, isFirst: boolean, now: Date) {
        const token = keys.open(device, device.device_id)
        if (Option.isNone(token)) return "unreadable"
        const [token_lookup] = keys.lookups({ ...device, token: token.value })
        // One id may stand for two secrets: the derived key keeps its name when the secret it comes from is rotated.
        const isCurrent = device.token_key_id === keys.current && keys.current !== "derived"
        if (isCurrent && equal(token_lookup, device.token_lookup)) return "current"
        const sealed = yield* keys.seal(token.value, device.device_id)
        return (yield* reseal(isFirst, now, device, { ...sealed, token_lookup })) ? "resealed" : "current"
      }, persistence)

      /** Token by token. A run that breaks off has its audit row all the same: it comes with the first token. */
      const rekey = Effect.gen(function* () {
        const now = yield* clock.now
        const counts = { resealed: 0, unreadable: 0, current: 0 }
        let after = "00000000-0000-0000-0000-000000000000"
        for (;;) {
          const devices = yield* store.sealedAfter(after, 100).pipe(persistence)
          for (const device of devices) counts[yield* rekeyOne(device, counts.resealed === 0, now)]++
          const last = devices.at(-1)
          if (last === undefined) break
          after = last.device_id
        }
        const { resealed, unreadable } = counts
        return { resealed, unreadable, token_keys: yield* tokenKeys.pipe(persistence) }
      })

      return {
        status: status.pipe(persistence, Effect.withSpan("Deliveries.status")),
        listDead: Effect.fn("Deliveries.listDead")(store.listDead, persistence),
        retryDead: retryDead.pipe(sql.withTransaction, persistence, Effect.withSpan("Deliveries.retryDead")),
        rekey: Effect.withSpan(rekey, "Deliveries.rekey")
      }
    })
  )
}
