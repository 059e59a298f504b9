/** Secrets that are made on this machine for a service elsewhere, which gets only their ids and hashes. */
import { Clock, Effect } from "effect"
import { uuidAt } from "../../../src/platform/crypto/Random.ts"
import * as Tokens from "../../../src/platform/crypto/Tokens.ts"

/** The id sorts by time, as this machine tells it. */
export const mintHere = Effect.fnUntraced(function* (kind: Tokens.TokenKind) {
  const secret = yield* Tokens.mint(kind)
  return { id: yield* uuidAt(new Date(yield* Clock.currentTimeMillis)), secret, hash: Tokens.hash(secret) }
})

/** The value of --minted. */
export const asMinted = (id: string, hash: Uint8Array) => `${id}:${Buffer.from(hash).toString("hex")}`
