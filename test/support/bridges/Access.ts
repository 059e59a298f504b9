/** The assertions of a Bridge, and access tokens for them (RFC 7523). */
import { Context, Effect } from "effect"
import { TestClock } from "effect/testing"
import { randomUUID } from "node:crypto"
import { Bridges } from "../../../src/bridges/identity/Bridges.ts"
import type { KeyPair } from "../../../src/client/Crypto.ts"
import { askToken } from "../agents/OAuthProofs.ts"
import type { Bridge } from "./Bridge.ts"
import { jwkOf, signed } from "./signatures/DpopProofs.ts"

export const issuer = "http://127.0.0.1:8787"
export const clientOf = ({ bridge_id, project_id }: Bridge) => `bridge:${project_id}:${bridge_id}`

export interface Changes {
  readonly claims?: Readonly<Record<string, unknown>>
  readonly header?: Readonly<Record<string, unknown>>
  readonly keys?: KeyPair
}

/** What the Bridge says now. */
export const claimsOf = (bridge: Bridge) =>
  Effect.map(
    TestClock.testClockWith((clock) => clock.currentTimeMillis),
    (millis) => {
      const now = Math.floor(millis / 1000)
      const sub = clientOf(bridge)
      return { iss: sub, sub, aud: issuer as unknown, iat: now, exp: now + 60, jti: randomUUID() as string }
    }
  )
export const assertionOf = (bridge: Bridge, { claims, header, keys = bridge.keys }: Changes = {}) =>
  Effect.map(claimsOf(bridge), (said) =>
    signed(keys, { alg: "EdDSA", typ: "JWT", jwk: jwkOf(keys), ...header }, { ...said, ...claims })
  )

export const fieldsFor = (client_assertion: string, more: Readonly<Record<string, string | undefined>> = {}) => ({
  grant_type: "client_credentials",
  client_assertion_type: "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
  client_assertion,
  ...more
})

/** A token for a Bridge that is enrolled; grants it the role. */
export const accessToken = Effect.fnUntraced(function* (
  on: { readonly url: string; readonly services: Context.Context<Bridges> },
  bridge: Bridge
) {
  yield* Context.get(on.services, Bridges).grantAccess(bridge.project_id, bridge.bridge_id, "contributor")
  const { body } = yield* askToken(on, fieldsFor(yield* assertionOf(bridge)))
  return body.access_token as string
})
