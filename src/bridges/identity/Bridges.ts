/** Bridges as their operator sees them (spec 2.4), and emergency revocation (spec 3.1). */
import { Context, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { Audit } from "../../platform/audit/Audit.ts"
import { uuidAt } from "../../platform/crypto/Random.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import { Outbox } from "../../push/outbox/Outbox.ts"
import { type OperatorRefusal, refuseOperator as refuse } from "./Errors.ts"
import * as Store from "./BridgeStore.ts"

export type Bridge = typeof Store.Bridge.Type
export type Token = typeof Store.Token.Type
type Lost = OperatorRefusal<"bridge_persistence_error">

export class Bridges extends Context.Service<
  Bridges,
  {
    readonly list: (
      project_id: string
    ) => Effect.Effect<ReadonlyArray<Bridge>, Lost | OperatorRefusal<"project_not_found">>
    /** With its last 20 tokens, newest first. */
    readonly show: (
      project_id: string,
      bridge_id: string
    ) => Effect.Effect<Bridge & { readonly tokens: ReadonlyArray<Token> }, Lost | OperatorRefusal<"bridge_not_found">>
    /** Identity, tokens, successor and open challenges, in one transaction; final. May be repeated. */
    readonly revoke: (
      project_id: string,
      bridge_id: string
    ) => Effect.Effect<{ readonly revoked_at: Date }, Lost | OperatorRefusal<"bridge_not_found">>
  }
>()("service/bridge/Bridges") {
  static readonly layer = Layer.effect(
    Bridges,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const audit = yield* Audit
      const outbox = yield* Outbox
      const store = Store.make(sql)

      const list = Effect.fn("Bridges.list")(function* (project_id: string) {
        if ((yield* store.projectExists(project_id)).length === 0) return yield* refuse("project_not_found")
        return yield* store.list(project_id)
      }, persistence)

      const show = Effect.fn("Bridges.show")(function* (project_id: string, bridge_id: string) {
        const bridge = yield* store.find(project_id, bridge_id)
        if (Option.isNone(bridge)) return yield* refuse("bridge_not_found")
        return { ...bridge.value, tokens: yield* store.listTokens(project_id, bridge_id) }
      }, persistence)

      const revoke = Effect.fn("Bridges.revoke")(
        function* (project_id: string, bridge_id: string) {
          const now = yield* clock.now
          const revoked = yield* store.revokeIdentity(project_id, bridge_id, now)
          if (Option.isNone(revoked)) return yield* refuse("bridge_not_found")
          const { first, identity_id } = revoked.value
          yield* store.endEverything(identity_id, now)
          if (first) {
            const event_id = yield* uuidAt(now)
            yield* outbox.enqueue(now, { kind: "bridge.revoked", event_id, project_id, about: identity_id })
            yield* audit.done(now, { action: "bridge.revoked", project_id, actor: "operator", subject: { bridge_id } })
          }
          return { revoked_at: revoked.value.revoked_at }
        },
        sql.withTransaction,
        persistence
      )

      return { list, show, revoke }
    })
  )
}
