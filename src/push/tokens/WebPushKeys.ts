/**
 * The keys that identify this service to push services (VAPID, RFC 8292). Browsers subscribe with the public key, and a
 * subscription accepts only messages that are signed with the private one.
 *
 *     private key = HKDF-SHA-256(key for push tokens, salt = the row's, info = "web-push/v1/vapid"), as a P-256 scalar
 *
 * A new salt is a new key (`rotate`). Earlier keys stay for the subscriptions that were made with them, so a key for push
 * tokens may go only when no subscription depends on it: `list` says which do.
 */
import { Array, Context, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { Audit } from "../../platform/audit/Audit.ts"
import { deriveKey, type P256Key } from "../../platform/crypto/P256.ts"
import { salt, uuidAt } from "../../platform/crypto/Random.ts"
import { equal } from "../../platform/crypto/Sha256.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import { CurrentOperator } from "../../platform/settings/Operator.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import type { SharedRefusal } from "../../wire/Errors.ts"
import { tokenKeys } from "./tokenKeys.ts"
import * as Store from "./WebPushKeyStore.ts"

export interface CurrentKey {
  readonly web_push_key_id: string
  /** The uncompressed P-256 point in base64url. */
  readonly public_key: string
}

export interface ListedKey extends CurrentKey {
  /** The key for push tokens that this one is derived from. */
  readonly token_key_id: string
  /** Whether that key is configured: without it nothing can be sent to the subscriptions. */
  readonly usable: boolean
  /** Active devices that subscribed with it. */
  readonly subscriptions: number
  readonly created_at: Date
  readonly replaced_at: Date | null
}

type Unavailable = SharedRefusal<"bridge_persistence_error">

export class WebPushKeys extends Context.Service<
  WebPushKeys,
  {
    /** The key with which browsers subscribe now. The first call makes it. */
    readonly current: Effect.Effect<CurrentKey, Unavailable>
    /** None: this service has never had that key. */
    readonly find: (public_key: string) => Effect.Effect<Option.Option<CurrentKey>, Unavailable>
    /** To sign with. None: never had, or its key for push tokens is not configured. */
    readonly signing: (public_key: string) => Effect.Effect<Option.Option<P256Key>, Unavailable>
    /** For the operator: browsers subscribe with a new key from now on. Can be repeated with the same id. */
    readonly rotate: (web_push_key_id: string) => Effect.Effect<CurrentKey, Unavailable>
    /** For the operator: newest first, at most 100. */
    readonly list: Effect.Effect<ReadonlyArray<ListedKey>, Unavailable>
  }
>()("service/push/WebPushKeys") {
  static readonly layer = Layer.effect(
    WebPushKeys,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const audit = yield* Audit
      const store = Store.make(sql)
      const ring = tokenKeys(yield* Settings)
      /** By public key; there are as many as rotations. */
      const derived = new Map<string, P256Key>()

      const derive = ({ public_key, salt, token_key_id }: Omit<Store.WebPushKey, "web_push_key_id">) =>
        // Two keys may have the id `derived`, so that the public key tells which one is meant.
        Array.findFirst(ring, ({ id, key }) =>
          Option.filter(id === token_key_id ? Option.some(deriveKey(key, salt, info)) : Option.none(), ({ point }) =>
            equal(point, public_key)
          )
        )

      const insert = Effect.fnUntraced(function* (web_push_key_id: string, now: Date) {
        const [{ id, key }] = ring
        const made = yield* salt
        const public_key = deriveKey(key, made, info).point
        return yield* store.insert({ web_push_key_id, public_key, salt: made, token_key_id: id }, now)
      })

      const current = Effect.gen(function* () {
        const found = yield* store.findCurrent
        if (Option.isSome(found)) return shown(found.value)
        const now = yield* clock.now
        yield* insert(yield* uuidAt(now), now)
        // Another replica may have been faster: its key is the one.
        return shown(Option.getOrThrow(yield* store.findCurrent))
      }).pipe(persistence, Effect.withSpan("WebPushKeys.current"))

      const find = Effect.fn("WebPushKeys.find")(
        (public_key: string) => Effect.map(store.find(Buffer.from(public_key, "base64url")), Option.map(shown)),
        persistence
      )

      const signing = Effect.fnUntraced(function* (public_key: string) {
        const known = derived.get(public_key)
        if (known !== undefined) return Option.some(known)
        const key = Option.flatMap(yield* store.find(Buffer.from(public_key, "base64url")), derive)
        if (Option.isSome(key)) derived.set(public_key, key.value)
        return key
      }, persistence)

      const rotate = Effect.fn("WebPushKeys.rotate")(
        function* (web_push_key_id: string) {
          const now = yield* clock.now
          yield* store.replace(web_push_key_id, now)
          if ((yield* insert(web_push_key_id, now)).length > 0)
            yield* audit.done(now, {
              action: "push.web_push_key_rotated",
              project_id: null,
              actor: yield* CurrentOperator,
              subject: {}
            })
          const made = yield* store.findById(web_push_key_id)
          // Of two rotations at once, both get the key of the faster one.
          return shown(Option.getOrThrow(Option.isSome(made) ? made : yield* store.findCurrent))
        },
        sql.withTransaction,
        persistence
      )

      const list = Effect.map(
        store.list,
        Array.map((row) => ({
          ...shown(row),
          token_key_id: row.token_key_id,
          usable: Option.isSome(derive(row)),
          subscriptions: row.subscriptions,
          created_at: row.created_at,
          replaced_at: row.replaced_at
        }))
      ).pipe(persistence, Effect.withSpan("WebPushKeys.list"))

      return { current, find, signing, rotate, list }
    })
  )
}

const info = "web-push/v1/vapid"

const shown = ({ public_key, web_push_key_id }: Store.WebPushKey): CurrentKey => ({
  web_push_key_id,
  public_key: Buffer.from(public_key).toString("base64url")
})
