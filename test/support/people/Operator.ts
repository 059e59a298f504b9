/** An operator elsewhere: a token, and requests with it. */
import { Context, Duration, Effect, Redacted } from "effect"
import { OperatorTokens } from "../../../src/operator/tokens/OperatorTokens.ts"
import { operatorScopes, type OperatorScope } from "../../../src/operator/tokens/Scopes.ts"
import { send } from "../network/Http.ts"
import type { World } from "../attacks/Targets.ts"

export const makeOperatorToken = Effect.fnUntraced(function* (
  { services }: Pick<World, "services">,
  scopes: ReadonlyArray<OperatorScope> = operatorScopes,
  ttl: Duration.Duration = Duration.days(1)
) {
  const tokens = Context.get(services, OperatorTokens)
  const minted = yield* tokens.mint
  yield* tokens.issue({ label: "Ada", scopes, ttl }, minted)
  return Redacted.value(minted.token)
}, Effect.orDie)

/** Sends a command as the CLI does. */
export const command = ({ url }: Pick<World, "url">, bearer: string, name: string, flags: object = {}) =>
  send(`${url}/operator/v1/commands/${name}`, { method: "POST", bearer, body: flags })
