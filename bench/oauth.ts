/**
 * Code and refresh grants (RFC 6749 4.1.3, 6), measured alternately with oidc-provider and an in-memory adapter. The peer
 * does no I/O and stores raw tokens: its rate shows what durability costs, its CPU time what our own code costs.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect } from "effect"
import * as harness from "./support/harness.ts"
import { oidcProvider } from "./peers/peers.ts"
import { figure, ratio, report } from "./support/report.ts"
import { clientWithCodes, code_challenge } from "./support/client.ts"

const main = Effect.gen(function* () {
  const on = yield* harness.start
  const service = { ...on, ...(yield* clientWithCodes(on)) }
  const provider = yield* oidcProvider
  const seconds = Math.max(1, Math.floor((harness.seconds - 25) / (harness.rounds * 4)))

  const exchange = Effect.fnUntraced(function* (target: typeof service | typeof provider, count = 1000) {
    const codes = yield* target.codes(count, code_challenge)
    return yield* harness.measure(on, target, {
      operation: "exchange",
      seconds: 60,
      count,
      first: 0,
      client_id: target.client_id,
      codes
    })
  })
  const refresh = Effect.fnUntraced(function* (target: typeof service | typeof provider, time = seconds) {
    const codes = yield* target.codes(harness.connections, code_challenge)
    const load = {
      operation: "refresh",
      seconds: time,
      count: 1_000_000,
      first: 0,
      client_id: target.client_id,
      codes
    } as const
    return yield* harness.measure(on, target, load)
  })

  for (const target of [service, provider]) {
    yield* exchange(target, 300)
    yield* refresh(target, 2)
  }
  yield* on.sql`analyze`
  const { code, codePeer, refreshed, refreshedPeer } = yield* harness.inTurns({
    code: () => exchange(service),
    codePeer: () => exchange(provider),
    refreshed: () => refresh(service),
    refreshedPeer: () => refresh(provider)
  })
  report("oauth", [
    figure("refresh grant", refreshed),
    figure("oidc-provider in memory, the same", refreshedPeer, {
      ratio: ratio("CPU", refreshed, refreshedPeer, { most: 1 })
    }),
    figure("code grant", code),
    figure("oidc-provider in memory, the same", codePeer, { ratio: ratio("CPU", code, codePeer) })
  ])
})

NodeRuntime.runMain(Effect.scoped(main))
