/**
 * Limits what needs no credential and looks nothing up: pages, and paths that do not exist (decisions.md, Rate limits).
 * Probes are not limited: they are as cheap, and a load balancer must not be refused.
 */
import { Context, Effect, Layer } from "effect"
import { limitedTo, RateLimit } from "./RateLimit.ts"

export class PageLimit extends Context.Service<PageLimit, ReturnType<typeof limitedTo>>()("service/edge/PageLimit") {
  static readonly layer = Layer.effect(
    PageLimit,
    Effect.map(RateLimit, ({ networks }) => limitedTo(networks({ perSecond: 20, burst: 200 })))
  )
}
