/** Which service a command is for: the database here, or with --service or a profile a service elsewhere. */
import { Config, Data, Effect, Option, Redacted, Schema } from "effect"
import { Flag, GlobalFlag } from "effect/cli"
import { readFileSync } from "node:fs"
import { isToken } from "../../../src/platform/crypto/Tokens.ts"
import { fileError } from "../files/SecretFiles.ts"
import { readProfiles } from "./Profiles.ts"

/** Of a service. Without TLS the token could be read on the way, so http is for this machine only. */
export const ServiceUrl = Schema.String.check(
  Schema.makeFilter((text) => originOf(text) !== undefined, {
    expected: "an https address, or http on this machine"
  })
)

const originOf = (text: string): string | undefined => {
  if (!URL.canParse(text)) return undefined
  const { hostname, origin, pathname, protocol, search, username } = new URL(text)
  const isLocal = hostname === "localhost" || hostname === "[::1]" || /^127(\.\d{1,3}){3}$/.test(hostname)
  const isPlain = pathname === "/" && search === "" && username === ""
  return isPlain && (protocol === "https:" || (protocol === "http:" && isLocal)) ? origin : undefined
}

const optional = (name: string, metavar: string, description: string) =>
  Flag.String(name).pipe(Flag.withMetavar(metavar), Flag.withDescription(description), Flag.optional)

export const ServiceFlag = GlobalFlag.Setting("service")({
  flag: optional("service", "URL", "Run the command at the service of this address, with an operator token")
})
export const TokenFileFlag = GlobalFlag.Setting("operator-token-file")({
  flag: optional("operator-token-file", "FILE", "File with the operator token (default: SERVICE_OPERATOR_TOKEN_FILE)")
})
export const ProfileFlag = GlobalFlag.Setting("profile")({
  flag: optional(
    "profile",
    "NAME",
    "Run the command at the service of a profile (default: SERVICE_PROFILE); see set-profile"
  )
})

export const targetFlags = [ServiceFlag, TokenFileFlag, ProfileFlag] as const

export interface Target {
  readonly origin: string
  readonly token: Redacted.Redacted<string>
  /** The project of the profile. */
  readonly project: string | undefined
}

class TargetError extends Data.TaggedError("TargetError")<{ readonly message: string }> {}

const fromEnvironment = (name: string) =>
  Effect.map(Effect.orElseSucceed(Config.option(Config.NonEmptyString(name)), Option.none), Option.getOrUndefined)

/** Undefined: the database here. */
export const target: Effect.Effect<
  Target | undefined,
  { readonly _tag: string; readonly message: string },
  Effect.Services<typeof ServiceFlag> | Effect.Services<typeof TokenFileFlag> | Effect.Services<typeof ProfileFlag>
> = Effect.gen(function* () {
  const service = Option.getOrUndefined(yield* ServiceFlag)
  const tokenFile = Option.getOrUndefined(yield* TokenFileFlag)
  const given = Option.getOrUndefined(yield* ProfileFlag)
  if (service !== undefined && given !== undefined)
    return yield* new TargetError({ message: "Pass --service or --profile, not both." })
  if (service !== undefined) {
    const file = tokenFile ?? (yield* fromEnvironment("SERVICE_OPERATOR_TOKEN_FILE"))
    if (file === undefined)
      return yield* new TargetError({
        message: "--service needs --operator-token-file FILE, or SERVICE_OPERATOR_TOKEN_FILE."
      })
    return yield* at(service, file, undefined)
  }
  const name = given ?? (yield* fromEnvironment("SERVICE_PROFILE"))
  if (name === undefined) {
    if (tokenFile === undefined) return undefined
    return yield* new TargetError({ message: "--operator-token-file goes with --service or --profile." })
  }
  const profiles = yield* readProfiles
  const profile = Object.hasOwn(profiles, name) ? profiles[name] : undefined
  if (profile === undefined)
    return yield* new TargetError({ message: `There is no profile ${JSON.stringify(name)}; see list-profiles.` })
  return yield* at(profile.url, tokenFile ?? profile.token_file, profile.project ?? undefined)
})

const at = Effect.fnUntraced(function* (url: string, file: string, project: string | undefined) {
  const origin = originOf(url)
  if (origin === undefined)
    return yield* new TargetError({
      message: "The address of a service begins with https:// and has no path; http:// is for this machine only."
    })
  const token = yield* Effect.try({
    try: () => readFileSync(file, "utf8").trim(),
    catch: (error) => fileError(file, "read", error)
  })
  if (!isToken("sop", token)) return yield* new TargetError({ message: `${file} does not hold an operator token.` })
  return { origin, token: Redacted.make(token), project }
})
