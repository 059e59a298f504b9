/**
 * Code and refresh grants (RFC 6749 4.1.3, 6), measured alternately with oidc-provider on the same PostgreSQL, and in memory.
 * The peer writes no audit row, and its raw tokens are its keys.
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
  const provider = yield* oidcProvider(on.database)
  const inMemory = yield* oidcProvider()
  const seconds = Math.max(1, Math.floor((harness.seconds - 25) / (harness.rounds * 6)))

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

  for (const target of [service, provider, inMemory]) {
    yield* exchange(target, 300)
    yield* refresh(target, 2)
  }
  yield* on.sql`analyze`
  const { code, codeInMemory, codePeer, refreshed, refreshedInMemory, refreshedPeer } = yield* harness.inTurns({
    code: () => exchange(service),
    codePeer: () => exchange(provider),
    codeInMemory: () => exchange(inMemory),
    refreshed: () => refresh(service),
    refreshedPeer: () => refresh(provider),
    refreshedInMemory: () => refresh(inMemory)
  })
  const aim = { most: 0.8 }
  report("oauth", [
    figure("refresh grant", refreshed),
    figure("oidc-provider on PostgreSQL, the same", refreshedPeer, {
      ratio: ratio("CPU", refreshed, refreshedPeer, aim)
    }),
    figure("the same two, rate", [], { ratio: ratio("rate", refreshed, refreshedPeer) }),
    figure("oidc-provider in memory, the same", refreshedInMemory, {
      ratio: ratio("CPU", refreshed, refreshedInMemory)
    }),
    figure("code grant", code),
    figure("oidc-provider on PostgreSQL, the same", codePeer, { ratio: ratio("CPU", code, codePeer, aim) }),
    figure("the same two, rate", [], { ratio: ratio("rate", code, codePeer) }),
    figure("oidc-provider in memory, the same", codeInMemory, { ratio: ratio("CPU", code, codeInMemory) })
  ])
})

NodeRuntime.runMain(Effect.scoped(main))
