/** What one claim took: deliveries of one environment under one lease. */
import type * as Store from "./DeliveryStore.ts"
import type { Environment } from "../../wire/mobile/Notifications.ts"

export interface Batch {
  readonly environment: Environment
  readonly lease: Store.Lease
  /** Set as soon as one delivery shows that the others need not be tried. */
  paused: boolean
  /** Deliveries whose token the provider does not know: judged together, at the end. */
  readonly unknown: Array<readonly [Store.Claimed, Store.Said]>
}
