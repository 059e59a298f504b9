/**
 * Claims what is due in a lane. While more is due than fits, projects take turns (decisions.md, Fair delivery): half of
 * the claim is for projects that got nothing since the turn began, the rest for whatever is most urgent.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { persistence } from "../../platform/database/Persistence.ts"
import { type Lane, lanes } from "../../wire/mobile/Notifications.ts"
import * as LeaseStore from "./LeaseStore.ts"
import type { ClaimedDelivery, Lease } from "./LeaseStore.ts"

/** A turn ends after so many projects, because a claim compares each row with all of them. */
const mostServed = 100

export const make = Effect.gen(function* () {
  const leases = LeaseStore.make(yield* SqlClient.SqlClient)
  /** The projects that got something since the turn of the lane began. */
  const servedIn = new Map(lanes.map((lane) => [lane, new Set<string>()]))

  /** `busy`: devices of which this process still has deliveries in flight. */
  const claim = Effect.fnUntraced(function* (
    lane: Lane,
    limit: number,
    lease: Lease,
    now: Date,
    busy: ReadonlyArray<string> = []
  ) {
    const served = servedIn.get(lane)!
    const half = Math.ceil(limit / 2)
    // Each statement by itself: repeated together, the first would no longer find what it has leased.
    const others: ReadonlyArray<ClaimedDelivery> =
      served.size === 0
        ? []
        : yield* leases.claim(lane, half, lease, now, { devices: busy, projects: [...served] }).pipe(persistence)
    if (others.length < half || served.size > mostServed) served.clear()
    const rest = yield* leases.claim(lane, limit - others.length, lease, now, { devices: busy }).pipe(persistence)
    const claimed = [...others, ...rest]
    if (claimed.length === limit) for (const { project_id } of claimed) served.add(project_id)
    return claimed
  })

  return claim
})
