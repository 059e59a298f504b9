/** The parts of this wing that the rest of the service uses. */
import { Effect, Layer } from "effect"
import { Settings } from "../platform/settings/Settings.ts"
import { apnsProvider } from "./channels/apns/Apns.ts"
import { makeChannelPush } from "./channels/Channels.ts"
import { BrowserPush, ChannelPush } from "./channels/Provider.ts"
import { makeWebPush } from "./channels/webpush/WebPush.ts"
import { logProvider } from "./channels/LogProvider.ts"
import { Worker } from "./delivery/Worker.ts"
import { PushAdmin } from "./admin/PushAdmin.ts"
import { Outbox } from "./outbox/Outbox.ts"
import { PushTokens } from "./tokens/PushTokens.ts"
import { WebPushKeys } from "./tokens/WebPushKeys.ts"

export { sweeps } from "./Sweeps.ts"

/** Browsers need no provider of their own: each subscription names its push service. */
const browserPush = Layer.effect(
  BrowserPush,
  Effect.flatMap(WebPushKeys, ({ signing }) => makeWebPush(signing))
)

const channelPush = Layer.effect(ChannelPush, makeChannelPush)

export const layer = Layer.mergeAll(PushAdmin.layer, browserPush, channelPush).pipe(
  Layer.provideMerge(Layer.mergeAll(Outbox.layer, PushTokens.layer, WebPushKeys.layer))
)

/** Delivers to APNs where it is configured, else to the log. */
export const worker = Worker.layer.pipe(
  Layer.provide(
    Layer.unwrap(Effect.map(Settings, ({ push }) => (push.apns === undefined ? logProvider : apnsProvider)))
  )
)

/** The services that commands of service-admin use. */
export const forCommands = { pushAdmin: PushAdmin }
