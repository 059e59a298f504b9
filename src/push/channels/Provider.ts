/** The ports to push providers: APNs, or the log where none is configured; the push services of browsers; and channels. */
import { Context, type Effect, type Redacted } from "effect"
import type { SharedRefusal } from "../../wire/Errors.ts"
import type { Environment } from "../../wire/mobile/Notifications.ts"
import type { ChannelKind } from "../Channel.ts"
import type { Message } from "./Message.ts"
import type { Outcome } from "./Outcome.ts"

export interface Push {
  /** The same on every attempt, so that the phone shows a repeated notification once. */
  readonly delivery_id: string
  readonly topic: string
  readonly token: Redacted.Redacted<string>
  /** JSON. */
  readonly payload: string
  /** A later notification with the same id replaces the earlier one; at most 64 bytes. */
  readonly collapse_id: string
  /** Whether it should wake the phone. */
  readonly immediate: boolean
  readonly expires_at: Date
}

export interface Answer {
  /** Null when no answer came. */
  readonly status: number | null
  /** The provider's reason, or the provider module's own when no answer came. */
  readonly reason: string | null
  readonly outcome: Outcome
}

/** To a push environment of APNs. */
export interface AppPush extends Push {
  readonly environment: Environment
}

export class PushProvider extends Context.Service<
  PushProvider,
  {
    readonly name: "apns" | "log"
    /** Never fails: a lost connection is an answer as well. */
    readonly send: (push: AppPush) => Effect.Effect<Answer>
  }
>()("service/push/PushProvider") {}

export class BrowserPush extends Context.Service<
  BrowserPush,
  {
    /** Fails only if the database does not answer: the key that signs is made from a row. */
    readonly send: (push: Push) => Effect.Effect<Answer, SharedRefusal<"bridge_persistence_error">>
  }
>()("service/push/BrowserPush") {}

/** To a channel of a project. */
export interface ToChannel extends Pick<Push, "delivery_id" | "token"> {
  readonly kind: ChannelKind
  readonly message: Message
}

export class ChannelPush extends Context.Service<
  ChannelPush,
  {
    /** Never fails: a lost connection is an answer as well. */
    readonly send: (push: ToChannel) => Effect.Effect<Answer>
  }
>()("service/push/ChannelPush") {}
