/** Secrets that are made on this machine for a service elsewhere, which gets only their ids and hashes. */
import { Effect } from "effect"
import { uuidHere } from "../../../src/platform/crypto/Random.ts"
import * as Tokens from "../../../src/platform/crypto/Tokens.ts"

export const mintHere = Effect.fnUntraced(function* (kind: Tokens.TokenKind) {
  const secret = yield* Tokens.mint(kind)
  return { id: yield* uuidHere, secret, hash: Tokens.hash(secret) }
})

/** The value of --minted. */
export const asMinted = (id: string, hash: Uint8Array) => `${id}:${Buffer.from(hash).toString("hex")}`
