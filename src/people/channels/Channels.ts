/**
 * Channels of a project: ntfy topics and webhooks that the operator sets (decisions.md, Channels). They get
 * what phones get about tasks, by the same queue. A channel is a row of `mobile_device` without an owner; its address and
 * secrets are sealed as its push token.
 */
import { Context, Effect, Layer, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Audit } from "../../platform/audit/Audit.ts"
import { uuidAt } from "../../platform/crypto/Random.ts"
import { defaults } from "../../operator/limits/LimitNames.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import { CurrentOperator } from "../../platform/settings/Operator.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import type { Page } from "../../platform/sql/Page.ts"
import { projectExists } from "../../platform/sql/ProjectExists.ts"
import { asToken, type ChannelKind, isAllowedTarget, ofToken, type Target } from "../../push/Channel.ts"
import { Outbox } from "../../push/outbox/Outbox.ts"
import { PushTokens } from "../../push/tokens/PushTokens.ts"
import * as AnyDeviceStore from "../AnyDeviceStore.ts"
import { outcomeOf, type TestOutcome } from "../DeviceTest.ts"
import { type ChannelRefusal, refuse } from "./Errors.ts"
import * as Store from "./ChannelStore.ts"

export interface NewChannel {
  readonly project_id: string
  readonly kind: ChannelKind
  readonly url: string
  /** Webhook: what signs. ntfy: the access token, if the topic needs one. */
  readonly secret: Redacted.Redacted<string> | undefined
  readonly titles: boolean
}

export type Created = typeof Store.Made.Type

export interface Tested extends TestOutcome {
  readonly channel_id: string
}

export class Channels extends Context.Service<
  Channels,
  {
    /** Can be repeated with the same id. */
    readonly create: (channel: NewChannel, id?: string) => Effect.Effect<Created, ChannelRefusal<"create">>
    /** Newest first. */
    readonly list: (
      project_id: string,
      page: Page
    ) => Effect.Effect<ReadonlyArray<Store.Listed>, ChannelRefusal<"list">>
    /** Sends a test, and waits up to eight seconds for what becomes of it. Repeated with its event, it sends none again. */
    readonly test: (channel_id: string, event_id: string) => Effect.Effect<Tested, ChannelRefusal<"test">>
    /**
     * From now on `secret` signs beside the one so far; without `secret`, the newest alone. If two sign already, a third
     * is refused unless it replaces the newest, which the receiver never got: the receiver may know only the older one.
     */
    readonly rotate: (
      channel_id: string,
      secret: Redacted.Redacted<string> | undefined,
      replacing?: "newest"
    ) => Effect.Effect<{ readonly channel_id: string; readonly signs: number }, ChannelRefusal<"rotate">>
    /** May be repeated. */
    readonly revoke: (channel_id: string) => Effect.Effect<{ readonly revoked_at: Date }, ChannelRefusal<"revoke">>
  }
>()("service/channels/Channels") {
  static readonly layer = Layer.effect(
    Channels,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const audit = yield* Audit
      const tokens = yield* PushTokens
      const outbox = yield* Outbox
      const { channelPrivateHosts } = (yield* Settings).push
      const store = Store.make(sql)
      const devices = AnyDeviceStore.make(sql)

      const audited = Effect.fnUntraced(function* (action: string, project_id: string, channel_id: string, now: Date) {
        yield* audit.done(now, { action, project_id, actor: yield* CurrentOperator, subject: { channel_id } })
      })

      const sealed = Effect.fnUntraced(function* (kind: ChannelKind, target: Target) {
        const token = asToken(target)
        const installation = { provider: kind, environment: "channel", topic: new URL(target.url).host, token }
        return { ...(yield* tokens.seal(token, target.id)), token_lookup: tokens.lookups(installation)[0] }
      })

      const create = Effect.fn("Channels.create")(
        function* ({ kind, project_id, secret, titles, url }: NewChannel, id?: string) {
          const now = yield* clock.now
          if (!isAllowedTarget(url, channelPrivateHosts)) return yield* refuse("channel_target_not_allowed")
          if (!(yield* projectExists(sql, project_id))) return yield* refuse("project_not_found")
          const channel_id = id ?? (yield* uuidAt(now))
          const { host } = new URL(url)
          const secrets = secret === undefined ? [] : [Redacted.value(secret)]
          const channel = { channel_id, project_id, kind, host, titles }
          const row = { ...channel, ...(yield* sealed(kind, { id: channel_id, url, secrets })) }
          if ((yield* store.insert(row, defaults.channels, now)).length === 0) {
            const made = yield* store.findMade(channel_id)
            return Option.isSome(made) ? made.value : yield* refuse("channel_limit_reached")
          }
          yield* audited("channel.created", project_id, channel_id, now)
          return channel
        },
        sql.withTransaction,
        persistence
      )

      const list = Effect.fn("Channels.list")(function* (project_id: string, page: Page) {
        if (!(yield* projectExists(sql, project_id))) return yield* refuse("project_not_found")
        return yield* store.list(project_id, page)
      }, persistence)

      const lockActive = Effect.fnUntraced(function* (channel_id: string) {
        const found = yield* store.lock(channel_id)
        if (Option.isNone(found)) return yield* refuse("channel_not_found")
        const { token_key_id, token_sealed } = found.value
        if (token_key_id === null || token_sealed === null) return yield* refuse("channel_revoked")
        return { ...found.value, token_key_id, token_sealed }
      })

      const enqueueTest = Effect.fnUntraced(
        function* (channel_id: string, event_id: string) {
          const now = yield* clock.now
          const { project_id } = yield* lockActive(channel_id)
          if (Option.isSome(yield* devices.findDelivery(event_id, channel_id))) return
          const only = store.isChannel(channel_id)
          yield* outbox.enqueue(now, { kind: "device.test", event_id, project_id, about: channel_id, only })
        },
        sql.withTransaction,
        persistence
      )

      const test = Effect.fn("Channels.test")(function* (channel_id: string, event_id: string) {
        yield* enqueueTest(channel_id, event_id)
        return { channel_id, ...(yield* outcomeOf(sql, event_id, channel_id)) }
      })

      const rotate = Effect.fn("Channels.rotate")(
        function* (channel_id: string, secret: Redacted.Redacted<string> | undefined, replacing?: "newest") {
          const now = yield* clock.now
          const channel = yield* lockActive(channel_id)
          if (channel.kind !== "webhook") return yield* refuse("channel_has_no_secret")
          const token = tokens.open(channel, channel_id)
          // Its key is not configured: the channel cannot ring either, so another one is to be created.
          if (Option.isNone(token)) return yield* refuse("channel_revoked")
          const target = ofToken(token.value)
          if (secret !== undefined && replacing === undefined && target.secrets.length > 1)
            return yield* refuse("channel_rotation_pending")
          const secrets =
            secret === undefined ? target.secrets.slice(0, 1) : [Redacted.value(secret), ...target.secrets.slice(-1)]
          yield* store.reseal(channel_id, yield* sealed(channel.kind, { ...target, secrets }), now)
          yield* audited("channel.secret_rotated", channel.project_id, channel_id, now)
          return { channel_id, signs: secrets.length }
        },
        sql.withTransaction,
        persistence
      )

      const revoke = Effect.fn("Channels.revoke")(
        function* (channel_id: string) {
          const now = yield* clock.now
          const found = yield* store.lock(channel_id)
          if (Option.isNone(found)) return yield* refuse("channel_not_found")
          const { ended_at, project_id } = found.value
          if ((yield* devices.revoke(channel_id, "revoked_by_operator", now)).length > 0) {
            yield* audited("channel.revoked", project_id, channel_id, now)
          }
          return { revoked_at: ended_at ?? now }
        },
        sql.withTransaction,
        persistence
      )

      return { create, list, test, rotate, revoke }
    })
  )
}
