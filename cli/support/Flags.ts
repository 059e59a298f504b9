/** The flags that commands share. Errors never echo the value: it could be a secret pasted in the wrong place. */
import { Config, DateTime, Duration, Effect, Option, Redacted, Schema, SchemaTransformation } from "effect"
import { Flag } from "effect/cli"
import { isPrefix } from "../../src/operator/IdPrefix.ts"
import { uuidHere } from "../../src/platform/crypto/Random.ts"
import * as Tokens from "../../src/platform/crypto/Tokens.ts"
import { noSecret } from "../../src/platform/secrets/Secrets.ts"
import { BridgeId, Uuid } from "../../src/wire/Ids.ts"
import { Instant } from "../../src/wire/Instant.ts"
import { Role, Scope, scopes } from "../../src/wire/Scopes.ts"
import { storedText, text } from "../../src/wire/Text.ts"

export const flag = <A>(name: string, schema: Schema.Codec<A, string>, expected: string, description: string) => {
  const decode = Schema.decodeOption(schema)
  return Flag.String(name).pipe(
    Flag.filterMap(decode, () => expected),
    Flag.withMetavar(name.toUpperCase()),
    Flag.withDescription(description)
  )
}

/** The default tells --help that the flag is not required. */
export const anyNumber = <A>(one: Flag.Flag<A>): Flag.Flag<ReadonlyArray<A>> =>
  one.pipe(Flag.atLeast(0), Flag.withDefault<ReadonlyArray<A>>([]))

/** One line of text. */
const line = (limit: number) => text(limit).check(noSecret)

const lineExpected = (limit: number) =>
  `expected 1 to ${limit} characters, none that controls, reorders or hides text, and no secret`

export const uuid = (name: string, description: string) => flag(name, Uuid, "expected a UUID", description)

export const label = (name: string, limit: number, description: string) =>
  flag(name, line(limit), lineExpected(limit), description)

/** The id of a thing that commands list, or enough of its beginning; wholeIds.ts completes it. */
export const id = (name: string, description: string) =>
  flag(
    name,
    Schema.String.check(Schema.makeFilter(isPrefix, { expected: "a UUID or its beginning" })).pipe(
      Schema.decode(SchemaTransformation.toLowerCase())
    ),
    "expected a UUID, or at least its first 4 characters",
    description
  )

/** wholeIds.ts makes an id of what is given. */
export const anyProject = (description: string) =>
  flag("project", line(120), "expected the id of a project, its first 4 characters or more, or its name", description)

/** For commands that nobody may run on a project by default. */
export const thatProject = anyProject("Id or name of the project; see list-projects")

/**
 * The id of what a command makes or sends. It is made where the command is typed, so that the command can be repeated when its
 * answer was lost, and does nothing twice.
 */
const newId = <A>(expected: string, schema: Schema.Codec<A, string>, fresh: Effect.Effect<A>) =>
  flag("id", schema, expected, "Its id, to repeat a command whose answer was lost; default: a new one").pipe(
    Flag.withDefault(fresh)
  )

export const newUuid = newId("expected a UUID", Uuid, uuidHere)

export const newOauthClient = newId(
  "expected a client id: sci_...",
  Schema.String.check(Schema.makeFilter((id) => Tokens.isToken("sci", id))),
  Effect.map(Tokens.mint("sci"), Redacted.value)
)

/** Stands for the only project; nobody can type it. */
export const onlyProject = ""

export const project = anyProject("Id or name of the project (default: SERVICE_PROJECT, or the only one)").pipe(
  Flag.withFallbackConfig(Config.NonEmptyString("SERVICE_PROJECT")),
  Flag.withDefault(onlyProject)
)

export const bridgeId = (name: string, description: string) =>
  flag(name, BridgeId, "expected a bridge_id: at most 128 letters, digits and ._:-", description)

const referenceDescription = "Name of a provider account, such as github:acme"
export const newReference = label("reference", 200, referenceDescription)

/** One that was approved, perhaps by a release that accepted more characters. */
export const reference = (name: string) =>
  flag(name, storedText(200).check(noSecret), lineExpected(200), referenceDescription)

/** Secrets that `--service` made at the caller: the service gets their ids and hashes. */
export const minted = Flag.String("minted").pipe(
  Flag.filterMap(
    (given) => {
      const [, id, hash] =
        /^([0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}):([0-9a-f]{64})$/.exec(given) ?? []
      return id === undefined || hash === undefined
        ? Option.none()
        : Option.some({ id, hash: Buffer.from(hash, "hex") })
    },
    () => "expected a UUID of version 7, a colon, and a SHA-256 in hexadecimal digits"
  ),
  Flag.withMetavar("ID:SHA256"),
  Flag.withDescription("Instead of --out: id and SHA-256 of a secret that was made elsewhere; --service sends this")
)

export const role = flag(
  "role",
  Role,
  "expected reader or contributor",
  "reader can read, contributor can also write"
).pipe(Flag.withMetavar("reader|contributor"))

export const scope = (description: string) =>
  flag("scope", Scope, `expected one of ${scopes.join(", ")}`, description).pipe(anyNumber)

export const redirectUri = flag("redirect-uri", line(2048), lineExpected(2048), "")

export const applicationType = flag(
  "application-type",
  Schema.Literals(["native", "web"]),
  "expected native or web",
  "web allows https redirect URIs only"
).pipe(Flag.withMetavar("native|web"))

/** A client id has the form of a token but is not secret, so it must not go through `label`. */
export const oauthClient = (name: string, description: string) =>
  flag(
    name,
    Schema.String.check(Schema.isPattern(/^(sci_[0-9A-Za-z]{49}|https:\/\/[\x21-\x7e]{1,492})$/)),
    "expected a client id: sci_... or the https address of a metadata document",
    description
  )

/** An instant, or how long ago it was. */
export const since = Flag.String("since").pipe(
  Flag.filterMap(
    (given) => Option.orElse(Schema.decodeOption(Instant)(given), () => lifetimeOf(given)),
    () => "expected an instant such as 2026-11-23T00:00:00Z, or how long ago, such as 24h or 7d"
  ),
  Flag.mapEffect((given) =>
    Duration.isDuration(given)
      ? Effect.map(DateTime.now, (now) => DateTime.toDateUtc(DateTime.subtractDuration(now, given)))
      : Effect.succeed(given)
  ),
  Flag.withMetavar("INSTANT|24h"),
  Flag.withDescription("Only what happened since then")
)

export const state = <const States extends ReadonlyArray<string>>(states: States) =>
  Flag.Literals("state", states).pipe(Flag.withDescription("Only those in this state"), Flag.optional)

export const action = flag(
  "action",
  Schema.String.check(Schema.isPattern(/^[a-z_]{1,60}\.[a-z_]{1,60}$/)),
  "expected an audit action such as bridge.revoked",
  "Only events of this action; repeatable"
).pipe(anyNumber)

/** The names of the flags that name files of this machine: an operator elsewhere may not use them. */
export const pathFlags = new Set<string>()

export const path = (name: string, description: string) => {
  pathFlags.add(name)
  return flag(name, Schema.NonEmptyString.check(Schema.isPattern(/^[^\0]+$/)), "expected a path", description)
}

export const count = (name: string, max: number, description: string) =>
  Flag.String(name).pipe(
    Flag.filterMap(
      (digits) =>
        /^[1-9]\d{0,8}$/.test(digits) && Number(digits) <= max ? Option.some(Number(digits)) : Option.none(),
      () => `expected a whole number from 1 to ${max}`
    ),
    Flag.withMetavar("N"),
    Flag.withDescription(description)
  )

/** A limit of a project; `default` removes the project's own. */
export const maximum = (name: string, description: string) =>
  Flag.String(name).pipe(
    Flag.filterMap(
      (given) =>
        given === "default"
          ? Option.some(null)
          : /^[1-9]\d{0,14}$/.test(given)
            ? Option.some(Number(given))
            : Option.none(),
      () => "expected a whole number from 1 to 999999999999999, or default"
    ),
    Flag.withMetavar("N|default"),
    Flag.withDescription(description),
    Flag.optional
  )

/** The flags of a command that nothing undoes; see irreversible.ts. */
export const yes = Flag.Boolean("yes").pipe(
  Flag.withDescription("Do it without asking on a terminal"),
  Flag.withDefault(false)
)
export const dryRun = Flag.Boolean("dry-run").pipe(
  Flag.withDescription("Only say what it would end"),
  Flag.withDefault(false)
)

/** How long something of a project is kept; `default` is for ever. A week at least: retries are recognised for so long. */
export const days = (name: string, description: string) =>
  Flag.String(name).pipe(
    Flag.filterMap(
      (given) =>
        given === "default"
          ? Option.some(null)
          : /^\d{1,5}$/.test(given) && Number(given) >= 7 && Number(given) <= 36_500
            ? Option.some(Number(given))
            : Option.none(),
      () => "expected a whole number from 7 to 36500, or default"
    ),
    Flag.withMetavar("N|default"),
    Flag.withDescription(description),
    Flag.optional
  )

/** A whole number and a unit: `45s`, `30m`, `1h`, `7d`; from one second to ten years. */
export const lifetime = (description: string) =>
  Flag.String("ttl").pipe(
    Flag.filterMap(lifetimeOf, () => "expected a lifetime such as 45s, 30m, 1h or 7d, at most 3650d"),
    Flag.withMetavar("45s|30m|1h|7d"),
    Flag.withDescription(description)
  )

/** A lifetime, or `never`. */
export const lifetimeOrNever = (description: string) =>
  Flag.String("ttl").pipe(
    Flag.filterMap(
      (given) => (given === "never" ? Option.some(Option.none()) : Option.map(lifetimeOf(given), Option.some)),
      () => "expected a lifetime such as 30m, 1h or 7d, at most 3650d, or never"
    ),
    Flag.withMetavar("30m|1h|7d|never"),
    Flag.withDescription(description)
  )

const units = { s: 1, m: 60, h: 3600, d: 86_400 } as const

const lifetimeOf = (text: string) => {
  const [, digits, unit] = /^(\d{1,9})([smhd])$/.exec(text) ?? []
  const seconds = Number(digits) * units[unit as keyof typeof units]
  return seconds >= 1 && seconds <= 315_360_000 ? Option.some(Duration.seconds(seconds)) : Option.none()
}
