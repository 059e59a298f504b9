/** Seven days after their call: idempotency keys. What agents wrote is never swept. */
import { Duration } from "effect"
import type { Sweep } from "../../platform/database/Sweeper.ts"
import { after } from "../../wire/Instant.ts"
import * as Store from "./IdempotencyStore.ts"

/** How long a retry is recognised (at least). */
const kept = Duration.days(7)

export const sweeps: ReadonlyArray<Sweep> = [
  {
    name: "purge idempotency keys",
    run: (sql, now, limit) => Store.make(sql).purge(after(now, Duration.negate(kept)), limit)
  }
]
