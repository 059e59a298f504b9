/** Push delivery for the operator: its status, dead letters, and new keys. */
import { Context, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { Audit } from "../../platform/audit/Audit.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import type { SharedRefusal } from "../../wire/Errors.ts"
import { Outbox } from "../outbox/Outbox.ts"
import { PushTokens } from "../tokens/PushTokens.ts"
import { type ListedKey, WebPushKeys } from "../tokens/WebPushKeys.ts"
import * as Rekey from "../tokens/rekey.ts"
import * as Store from "./PushAdminStore.ts"
import type { Page } from "../../platform/sql/Page.ts"
import { CurrentOperator } from "../../platform/settings/Operator.ts"

export { dueSince, mostCounted } from "./PushAdminStore.ts"

export type DeadLetter = typeof Store.DeadLetter.Type
export type Pause = Store.Pause
type Unavailable = SharedRefusal<"bridge_persistence_error">

export interface PushStatus {
  /** How many deliveries are in each state, of `mostCounted` that wait and the last `mostCounted` of the others. */
  readonly deliveries: Readonly<Record<string, number>>
  /** When the oldest waiting delivery became due; null when none is due. */
  readonly due_since: Date | null
  readonly pauses: ReadonlyArray<Pause>
  /** Active devices by the key that seals their push token. */
  readonly token_keys: Readonly<Record<string, number>>
  readonly current_key: string
  /** The keys that identify this service to push services, newest first. */
  readonly web_push_keys: ReadonlyArray<ListedKey>
}

export class PushAdmin extends Context.Service<
  PushAdmin,
  {
    readonly status: Effect.Effect<PushStatus, Unavailable>
    /** Environments that have failed since their last success. */
    readonly pauses: Effect.Effect<ReadonlyArray<Pause>, Unavailable>
    /** Newest first. */
    readonly listDead: (page: Page, since?: Date) => Effect.Effect<ReadonlyArray<DeadLetter>, Unavailable>
    /** Queues unexpired dead letters again, with their attempts reset; returns how many. */
    readonly retryDead: Effect.Effect<number, Unavailable>
    readonly rekey: Effect.Effect<Rekey.Rekeyed, Unavailable>
    readonly rotateWebPushKey: WebPushKeys["Service"]["rotate"]
  }
>()("service/push/PushAdmin") {
  static readonly layer = Layer.effect(
    PushAdmin,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const audit = yield* Audit
      const tokens = yield* PushTokens
      const outbox = yield* Outbox
      const webPushKeys = yield* WebPushKeys
      const { rekey, tokenKeys } = yield* Rekey.make
      const store = Store.make(sql)

      const status = Effect.gen(function* () {
        const states = yield* store.countStates
        const due = yield* store.oldestDue(yield* clock.now)
        return {
          deliveries: Object.fromEntries(states.map(({ count, state }) => [state, count])),
          due_since: Option.match(due, { onNone: () => null, onSome: ({ due_since }) => due_since }),
          pauses: yield* store.pauses,
          token_keys: yield* tokenKeys,
          current_key: tokens.currentKey,
          web_push_keys: yield* webPushKeys.list
        }
      })

      const retryDead = Effect.gen(function* () {
        const now = yield* clock.now
        const retried = yield* store.retryDead(now)
        if (retried.length > 0) {
          yield* audit.done(now, {
            action: "push.dead_letters_retried",
            project_id: null,
            actor: yield* CurrentOperator,
            subject: {}
          })
        }
        yield* outbox.wake
        return retried.length
      })

      return {
        status: status.pipe(persistence, Effect.withSpan("PushAdmin.status")),
        pauses: store.pauses.pipe(persistence, Effect.withSpan("PushAdmin.pauses")),
        listDead: Effect.fn("PushAdmin.listDead")(store.listDead, persistence),
        retryDead: retryDead.pipe(sql.withTransaction, persistence, Effect.withSpan("PushAdmin.retryDead")),
        rekey: Effect.withSpan(rekey, "PushAdmin.rekey"),
        rotateWebPushKey: webPushKeys.rotate
      }
    })
  )
}
