/** Seals every push token under the current key. Safe to repeat, and to run while the service works. */
import { Effect, Option } from "effect"
import { SqlClient } from "effect/sql"
import { Audit } from "../../platform/audit/Audit.ts"
import { equal } from "../../platform/crypto/Sha256.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import { operator } from "../../platform/settings/Operator.ts"
import { nil } from "../../wire/Ids.ts"
import { PushTokens } from "./PushTokens.ts"
import * as Store from "./RekeyStore.ts"

export interface Rekeyed {
  readonly resealed: number
  /** Tokens that no configured key opens. */
  readonly unreadable: number
  /** Active devices by key id. */
  readonly token_keys: Readonly<Record<string, number>>
}

export const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const clock = yield* DatabaseClock
  const audit = yield* Audit
  const tokens = yield* PushTokens
  const store = Store.make(sql)

  const tokenKeys = Effect.map(store.countKeys, (found) =>
    Object.fromEntries(found.map(({ devices, token_key_id }) => [token_key_id, devices]))
  )

  const reseal = Effect.fnUntraced(function* (isFirst: boolean, now: Date, ...change: Parameters<typeof store.reseal>) {
    const isDone = (yield* store.reseal(...change)).length > 0
    if (isDone && isFirst) {
      yield* audit.done(now, {
        action: "push.tokens_rekeyed",
        project_id: null,
        actor: operator,
        subject: {}
      })
    }
    return isDone
  }, sql.withTransaction)

  const rekeyOne = Effect.fnUntraced(function* (device: Store.SealedDevice, isFirst: boolean, now: Date) {
    const token = tokens.open(device, device.device_id)
    if (Option.isNone(token)) return "unreadable"
    const [token_lookup] = tokens.lookups({ ...device, token: token.value })
    // The derived key keeps its id when its secret is rotated, so that id alone does not prove the token is current.
    const isCurrent = device.token_key_id === tokens.currentKey && tokens.currentKey !== "derived"
    if (isCurrent && equal(token_lookup, device.token_lookup)) return "current"
    const sealed = yield* tokens.seal(token.value, device.device_id)
    return (yield* reseal(isFirst, now, device, { ...sealed, token_lookup })) ? "resealed" : "current"
  }, persistence)

  /** Each token has its own transaction. The first one writes the audit row, so an interrupted run is audited too. */
  const rekey: Effect.Effect<Rekeyed, Effect.Error<ReturnType<typeof rekeyOne>>> = Effect.gen(function* () {
    const now = yield* clock.now
    const counts = { resealed: 0, unreadable: 0, current: 0 }
    let after = nil
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

  return { rekey, tokenKeys }
})
