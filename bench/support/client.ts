/** Seeds an OAuth client. */
import { Context, Effect, Option, Redacted } from "effect"
import { uuid } from "../../src/platform/crypto/Random.ts"
import * as Tokens from "../../src/platform/crypto/Tokens.ts"
import { ProjectTokens } from "../../src/signin/access/ProjectTokens.ts"
import { Clients } from "../../src/signin/oauth/clients/Clients.ts"
import { challengeOf } from "../../src/signin/oauth/Pkce.ts"
import type * as harness from "./harness.ts"
import { redirect_uri, verifier } from "./seeds.ts"

export const code_challenge = challengeOf(verifier)

/** A client of the service; `codes` creates one grant with one authorization code each. */
export const clientWithCodes = Effect.fnUntraced(function* ({ context, project_id, sql, url }: harness.Bench) {
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
