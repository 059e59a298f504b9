/** The way to a phone: whoever can carry a payload to a token. APNs (Apns.ts), or the log where none is configured. */
import { Context, type Effect, type Redacted } from "effect"
import type { Environment } from "../../wire/mobile/Notifications.ts"
import type { Response } from "./Outcome.ts"

export interface Push {
  /** The same on every attempt: the phone shows a repeated one once. */
  readonly delivery_id: string
  readonly environment: Environment
  readonly topic: string
  readonly token: Redacted.Redacted<string>
  /** JSON. */
  readonly payload: string
  /** A later one with the same id takes the earlier one's place; at most 64 bytes. */
  readonly collapse_id: string
  /** Whether it should wake the phone. */
  readonly immediate: boolean
  readonly expires_at: Date
}

export class PushProvider extends Context.Service<
  PushProvider,
  {
    readonly name: "apns" | "log"
    /** Never fails: what became of it is the response, a lost connection too. */
    readonly send: (push: Push) => Effect.Effect<Response>
  }
>()("service/push/PushProvider") {}
