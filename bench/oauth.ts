/**
 * Code and refresh grants (RFC 6749 4.1.3, 6), measured alternately with oidc-provider and an in-memory adapter. The peer
 * does no I/O and stores raw tokens: its rate shows what durability costs, its CPU time what our own code costs.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Context, Effect, Option, Redacted } from "effect"
import { ProjectTokens } from "../src/signin/access/ProjectTokens.ts"
import { uuid } from "../src/platform/crypto/Random.ts"
import * as Tokens from "../src/platform/crypto/Tokens.ts"
import { Clients } from "../src/signin/oauth/clients/Clients.ts"
import { challengeOf } from "../src/signin/oauth/Pkce.ts"
import * as harness from "./support/harness.ts"
import { oidcProvider } from "./peers/peers.ts"
import { figure, ratio, report } from "./support/report.ts"
import { redirect_uri, verifier } from "./support/seeds.ts"

const code_challenge = challengeOf(verifier)

/** A client of the service; `codes` creates one grant with one authorization code each. */
const clientWithCodes = Effect.fnUntraced(function* ({ context, project_id, sql, url }: harness.Bench) {
  const tokens = Context.get(context, ProjectTokens)
  const secret = yield* tokens.mint
  yield* tokens.issue({ project_id, role: "reader", scopes: [], ttl: Option.none() }, secret)
  const { client_id } = yield* Context.get(context, Clients).create({
    name: "Bench",
    redirect_uris: [redirect_uri],
    application_type: undefined,
    scopes: []
  })
  const code = Effect.gen(function* () {
    const minted = yield* Tokens.mint("sac")
    yield* sql`
      with granted as (
        insert into oauth_grant (grant_id, client_id, project_id, project_token_id, scopes, resource, instance_id,
                                 redirect_uri, created_at, expires_at)
        select ${yield* uuid}::uuid, ${client_id}, ${project_id}::uuid, ${secret.token_id}::uuid, '{context:read}',
               ${`${url}/mcp`}, instance_id::text, ${redirect_uri}, clock_timestamp(),
               clock_timestamp() + interval '1 day'
          from service_instance
        returning grant_id
      )
      insert into oauth_code (code_hash, grant_id, code_challenge, created_at, expires_at)
      select ${Tokens.hash(minted)}::bytea, grant_id, ${code_challenge}, clock_timestamp(),
             clock_timestamp() + interval '1 day'
        from granted`
    return Redacted.value(minted)
  })
  return { client_id, codes: (count: number) => Effect.replicateEffect(code, count) }
})

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
