/** The port to a push provider: APNs, or the log where none is configured. */
import { Context, type Effect, type Redacted } from "effect"
import type { Environment } from "../../wire/mobile/Notifications.ts"
import type { Outcome } from "./Outcome.ts"

export interface Push {
  /** The same on every attempt, so that the phone shows a repeated notification once. */
  readonly delivery_id: string
  readonly environment: Environment
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

export class PushProvider extends Context.Service<
  PushProvider,
  {
    readonly name: "apns" | "log"
    /** Never fails: a lost connection is an answer as well. */
    readonly send: (push: Push) => Effect.Effect<Answer>
  }
>()("service/push/PushProvider") {}
