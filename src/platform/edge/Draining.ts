/** Tells requests that wait for something that the process has begun to stop: they answer at once. */
import { Context, type Effect } from "effect"

export class Draining extends Context.Service<Draining, { readonly began: Effect.Effect<void> }>()(
  "service/edge/Draining"
) {}
