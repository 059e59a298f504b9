/** The kinds of settings: how a value is written in the environment, and what the operator is told about any other. */
import { Config, ConfigProvider, Duration, Effect, Option, Redacted, Result } from "effect"
import { resolve } from "node:path"
import { parseDatabaseUrl } from "./DatabaseUrl.ts"

export const invalid = (message: string) =>
  Effect.fail(new Config.ConfigError(new ConfigProvider.SourceError({ message })))

/** `message` for every other text, too: the library's own names neither unit nor bounds. */
export const wholeNumber = (name: string, isWithin: (value: number) => boolean, message: string) =>
  Config.NonEmptyString(name).pipe(
    Config.mapEffect((text) => {
      const value = Number(text)
      return Number.isInteger(value) && isWithin(value) ? Effect.succeed(value) : invalid(message)
    })
  )

export const integer = (name: string, unit: string, fallback: number, min: number, max: number) =>
  wholeNumber(
    name,
    (value) => value >= min && value <= max,
    `${name} is a whole number of ${unit} from ${min} to ${max}.`
  ).pipe(Config.withDefault(fallback))

export const seconds = (name: string, fallback: number, { min = 1, max = 315_360_000 } = {}) =>
  integer(name, "seconds", fallback, min, max).pipe(Config.map(Duration.seconds))

export const commaSeparated = (name: string) =>
  Config.String(name).pipe(
    Config.map((list) =>
      list
        .split(",")
        .map((entry) => entry.trim())
        .filter((entry) => entry !== "")
    )
  )

export const optionalText = (name: string) =>
  Config.option(Config.NonEmptyString(name)).pipe(Config.map(Option.getOrUndefined))

const secret = (name: string) =>
  Config.Redacted(name).pipe(
    Config.mapEffect((value: Redacted.Redacted<string>) =>
      Buffer.byteLength(Redacted.value(value)) >= 32
        ? Effect.succeed(value)
        : invalid(`${name} needs at least 32 bytes.`)
    )
  )

export const optionalSecret = (name: string) => Config.option(secret(name)).pipe(Config.map(Option.getOrUndefined))
export const requiredSecret = (name: string) =>
  optionalSecret(name).pipe(
    Config.mapEffect((value) =>
      value === undefined
        ? invalid(`${name} is not set: 32 bytes or more, such as the output of openssl rand -base64 32.`)
        : Effect.succeed(value)
    )
  )

export const hosts = (name: string, fallback: ReadonlyArray<string>, example: string) =>
  commaSeparated(name).pipe(
    Config.withDefault(fallback),
    Config.mapEffect((hosts) =>
      hosts.every((host) => /^[a-z0-9-]+(\.[a-z0-9-]+)+$/.test(host))
        ? Effect.succeed<ReadonlySet<string>>(new Set(hosts))
        : invalid(`${name} lists host names in lower case, such as ${example}.`)
    )
  )

/** Hosts that may be in a private network, where a name may be a single word, or there is none. */
export const privateHosts = (name: string, example: string) =>
  commaSeparated(name).pipe(
    Config.withDefault([]),
    Config.mapEffect((hosts) =>
      hosts.every((host) => /^[a-z0-9.:[\]_-]{1,253}$/.test(host) && hostOf(`http://${host}`) === host)
        ? Effect.succeed<ReadonlySet<string>>(new Set(hosts))
        : invalid(`${name} lists names in lower case or addresses of hosts, without port, such as ${example}.`)
    )
  )
const hostOf = (url: string) => (URL.canParse(url) ? new URL(url).hostname : undefined)

export const onOff = (name: string, fallback: "on" | "off") =>
  Config.Literals(["on", "off"], name).pipe(
    Config.withDefault(fallback),
    Config.map((value) => value === "on")
  )

export const httpsOrigin = (name: string, fallback: string) =>
  Config.NonEmptyString(name).pipe(
    Config.withDefault(fallback),
    Config.mapEffect((text) =>
      URL.canParse(text) && new URL(text).origin === text && text.startsWith("https://")
        ? Effect.succeed(text)
        : invalid(`${name} is an https origin such as ${fallback}.`)
    )
  )

export const port = (name: string, min: number) =>
  wholeNumber(name, (port) => port >= min && port <= 65_535, `${name} is a port from ${min} to 65535.`)

/** A recursive mkdir of a relative path never returns if the working directory was deleted. */
export const absolute = (name: string, path: string) =>
  Effect.try(() => resolve(path)).pipe(
    Effect.catch(() => invalid(`${name} is relative to a working directory that no longer exists.`))
  )

export const postgresUrl = (name: string) =>
  Config.option(Config.Redacted(name)).pipe(
    Config.map(Option.getOrUndefined),
    Config.mapEffect((url) =>
      url === undefined
        ? Effect.undefined
        : Result.match(parseDatabaseUrl(Redacted.value(url)), {
            onFailure: (problem) => invalid(`${name} ${problem}.`),
            onSuccess: () => Effect.succeed(url)
          })
    )
  )
