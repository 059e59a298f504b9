/** The parts of this wing that the rest of the service uses. */
import { Layer } from "effect"
import { Channels } from "./channels/Channels.ts"
import { Subjects } from "./console/activity/Subjects.ts"
import { Erasures } from "./erasure/Erasures.ts"
import { Devices } from "./mobile/Devices.ts"
import { sweeps as mobileSweeps } from "./mobile/Sweeps.ts"
import { Contents } from "./operator/Contents.ts"
import { Gauges } from "./operator/Gauges.ts"
import { Losses } from "./operator/Losses.ts"
import { pushedGauges } from "./operator/Otlp.ts"
import { Overview } from "./operator/Overview.ts"
import { Samples } from "./operator/Samples.ts"
import { prometheus } from "./operator/Prometheus.ts"

export const layer = Layer.mergeAll(
  Channels.layer,
  Contents.layer,
  Devices.layer,
  Erasures.layer,
  Losses.layer,
  Overview.layer,
  Subjects.layer,
  Samples.layer
)

/** Metrics for scraping and for export, each if the settings enable it. */
export const metrics = Layer.merge(prometheus, pushedGauges).pipe(Layer.provide(Gauges.layer))

/** Work in the background. */
export { eraseForever } from "./erasure/Erasures.ts"

export const sweeps = mobileSweeps

/** The services that commands of service-admin use. */
export const forCommands = {
  channels: Channels,
  contents: Contents,
  devices: Devices,
  erasures: Erasures,
  losses: Losses,
  overview: Overview
}
