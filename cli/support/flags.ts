/** The flags that commands share. A refused value is never repeated: it could be a secret pasted in the wrong place. */
import { Duration, Option, Schema } from "effect"
import { Flag } from "effect/cli"
import { findToken } from "../../src/platform/crypto/Tokens.ts"
import { BridgeId, Uuid } from "../../src/wire/Ids.ts"
import { Role, Scope, scopes } from "../../src/wire/Scopes.ts"
import { text } from "../../src/wire/Text.ts"

export const flag = <A>(name: string, schema: Schema.Codec<A, string>, expected: string, description: string) => {
  const decode = Schema.decodeOption(schema)
  return Flag.String(name).pipe(
    Flag.filterMap(decode, () => expected),
    Flag.withMetavar(name.toUpperCase()),
    Flag.withDescription(description)
  )
}

const words = (limit: number) =>
  text(limit).check(Schema.makeFilter((kept: string) => findToken(kept) === undefined, { expected: "no secret" }))

const wordsExpected = (limit: number) =>
  `expected 1 to ${limit} characters, none of them a control character, and no secret`

export const uuid = (name: string, description: string) => flag(name, Uuid, "expected a UUID", description)

export const label = (name: string, limit: number, description: string) =>
  flag(name, words(limit), wordsExpected(limit), description)

export const project = uuid("project", "Id of the project; see list-projects")

export const bridgeId = (name: string, description: string) =>
  flag(name, BridgeId, "expected a bridge_id: letters, digits and ._:-, at most 128", description)

export const reference = (name: string) => label(name, 200, "Name of a provider's account, such as github:acme")

export const role = flag("role", Role, "expected reader or contributor", "reader reads, contributor also writes").pipe(
  Flag.withMetavar("reader|contributor")
)

export const scope = (description: string) =>
  flag("scope", Scope, `expected one of ${scopes.join(", ")}`, description).pipe(Flag.atLeast(0))

export const redirectUri = flag("redirect-uri", words(2048), wordsExpected(2048), "")

export const applicationType = flag(
  "application-type",
  Schema.Literals(["native", "web"]),
  "expected native or web",
  "web: https redirect URIs only"
).pipe(Flag.withMetavar("native|web"))

/** A client id looks like a secret and is none. */
export const oauthClient = flag(
  "client",
  Schema.String.check(Schema.isPattern(/^(sci_[0-9A-Za-z]{49}|https:\/\/[\x21-\x7e]{1,492})$/)),
  "expected a client id: sci_... or the https address of a document",
  "Id of the client (see list-oauth-clients), or the address of a document to keep out"
)

export const path = (name: string, description: string) =>
  flag(name, Schema.NonEmptyString.check(Schema.isPattern(/^[^\0]+$/)), "expected a path", description)

export const count = (name: string, most: number, description: string) =>
  Flag.String(name).pipe(
    Flag.filterMap(
      (digits) =>
        /^[1-9]\d{0,8}$/.test(digits) && Number(digits) <= most ? Option.some(Number(digits)) : Option.none(),
      () => `expected a whole number from 1 to ${most}`
    ),
    Flag.withMetavar("N"),
    Flag.withDescription(description)
  )

/** `45s`, `30m`, `1h`, `7d`: whole, from one second to ten years. */
export const lifetime = (description: string) =>
  Flag.String("ttl").pipe(
    Flag.filterMap(lifetimeOf, () => "expected a lifetime such as 45s, 30m, 1h or 7d, at most 3650d"),
    Flag.withMetavar("45s|30m|1h|7d"),
    Flag.withDescription(description)
  )

const units = { s: 1, m: 60, h: 3600, d: 86_400 } as const

const lifetimeOf = (said: string) => {
  const [, digits, unit] = /^(\d{1,9})([smhd])$/.exec(said) ?? []
  const seconds = Number(digits) * units[unit as keyof typeof units]
  return seconds >= 1 && seconds <= 315_360_000 ? Option.some(Duration.seconds(seconds)) : Option.none()
}
