/** Used where no provider is configured: logs each notification, without its recipient. */
import { Effect, Layer } from "effect"
import { PushProvider } from "./Provider.ts"

export const logProvider = Layer.effect(
  PushProvider,
  Effect.as(Effect.logWarning("No push provider is configured: notifications are only logged. Set SERVICE_APNS_*."), {
    name: "log" as const,
    send: ({ delivery_id, payload }) =>
      Effect.logInfo("Would notify a phone").pipe(
        Effect.annotateLogs({ delivery_id, kind: (JSON.parse(payload) as { k: string }).k }),
        Effect.as({ status: 200, reason: null, outcome: { _tag: "Delivered" as const } })
      )
  })
)
