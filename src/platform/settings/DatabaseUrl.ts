/**
 * The address of a PostgreSQL as libpq reads it, with one host or several:
 * `postgres://user:password@host1:5432,host2:5432/database?sslmode=verify-full`
 *
 * The driver knows one host, and ignores parameters that it does not know. Here those are refused: an operator would
 * believe in a protection that is not there.
 */
import { Result } from "effect"

export interface DatabaseUrl {
  /** At least one. A host that begins with a slash is the folder of a unix socket. */
  readonly hosts: ReadonlyArray<{ readonly host: string; readonly port: number }>
  readonly username: string | undefined
  readonly password: string | undefined
  readonly database: string | undefined
  /** `prefer`: TLS without being sure of it. `verify-ca`: the certificate may name another host. */
  readonly tls: "disable" | "prefer" | "verify-ca" | "verify-full"
  /** Paths of PEM files. Without a root, Node's list of authorities counts. */
  readonly rootCertificate: string | undefined
  readonly certificate: string | undefined
  readonly key: string | undefined
  readonly options: string | undefined
  /** In seconds. */
  readonly connectTimeout: number | undefined
}

/** A failure completes the sentence "DATABASE_URL …", and holds no value: any part may be a piece of a password. */
export const parseDatabaseUrl = (text: string): Result.Result<DatabaseUrl, string> =>
  Result.gen(function* () {
    const [scheme, rest] = cut(text, "://")
    if (rest === undefined || !["postgres", "postgresql"].includes(scheme)) return yield* malformed
    const [place, query = ""] = cut(rest, "?")
    const [authority, path = ""] = cut(place, "/")
    // Each of these stands for a part of its own, so it was meant as a character of a password.
    if (text.includes("#") || path.includes("/") || path.includes("@") || query.includes("@")) return yield* malformed
    const at = authority.lastIndexOf("@")
    const [username, password] = cut(authority.slice(0, Math.max(at, 0)), ":")
    const parameters = yield* parametersOf(query)
    const hosts = yield* hostsOf(authority.slice(at + 1), parameters)
    const rootCertificate = parameters.get("sslrootcert")
    const tls = yield* tlsOf(parameters.get("sslmode"), rootCertificate !== undefined)
    const certificate = parameters.get("sslcert")
    const key = parameters.get("sslkey")
    if ((certificate === undefined) !== (key === undefined)) return yield* wrong("needs sslcert and sslkey together")
    if (certificate !== undefined && !tls.startsWith("verify")) {
      return yield* wrong("has sslcert and needs sslmode=verify-full with it")
    }
    const session = parameters.get("target_session_attrs") ?? "read-write"
    if (session !== "read-write" && session !== "primary") {
      return yield* wrong("can have target_session_attrs=read-write only: the service writes")
    }
    const seconds = parameters.get("connect_timeout")
    const connectTimeout = seconds === undefined ? undefined : Number(seconds)
    if (
      connectTimeout !== undefined &&
      !(Number.isInteger(connectTimeout) && 1 <= connectTimeout && connectTimeout <= 60)
    ) {
      return yield* wrong("has a connect_timeout that is not a whole number of seconds from 1 to 60")
    }
    return {
      hosts,
      username: parameters.get("user") ?? present(yield* decoded(username)),
      password: parameters.get("password") ?? present(yield* decoded(password ?? "")),
      database: parameters.get("dbname") ?? present(yield* decoded(path)),
      tls,
      rootCertificate: rootCertificate === "system" ? undefined : rootCertificate,
      certificate,
      key,
      options: parameters.get("options"),
      connectTimeout
    }
  })

const wrong = (what: string) => Result.fail(what)

const shape =
  "is an address such as postgres://user:password@host:5432/database, with several hosts postgres://user:password@host1:5432,host2:5432/database; in a password / is %2F, ? is %3F, # is %23, @ is %40 and % is %25"
const malformed = wrong(shape)

/** The text before the first separator, and after it. */
const cut = (text: string, separator: string): readonly [string, string | undefined] => {
  const at = text.indexOf(separator)
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + separator.length)]
}

const present = (text: string) => (text === "" ? undefined : text)

const decoded = (text: string): Result.Result<string, string> =>
  Result.mapError(
    Result.try(() => decodeURIComponent(text)),
    () => shape
  )

const known = [
  "host",
  "port",
  "user",
  "password",
  "dbname",
  "connect_timeout",
  "options",
  "sslmode",
  "sslrootcert",
  "sslcert",
  "sslkey",
  "target_session_attrs"
]

const parametersOf = (query: string) =>
  Result.gen(function* () {
    const parameters = new Map<string, string>()
    for (const pair of query.split("&").filter((pair) => pair !== "")) {
      const [name, value] = cut(pair, "=")
      if (!known.includes(name)) {
        const shown = /^[a-z_]{1,40}$/.test(name) ? `the parameter ${name}` : "a parameter"
        return yield* wrong(`has ${shown}, which the service does not know: it knows ${known.join(", ")}`)
      }
      if (parameters.has(name)) return yield* wrong(`has the parameter ${name} twice`)
      if (value === undefined || value === "") return yield* wrong(`has the parameter ${name} without a value`)
      parameters.set(name, yield* decoded(value))
    }
    return parameters
  })

/** The parameters `host` and `port` replace those of the address, as with libpq; one port is that of every host. */
const hostsOf = (authority: string, parameters: ReadonlyMap<string, string>) =>
  Result.gen(function* () {
    const places = []
    for (const place of authority.split(",")) {
      const colon = place.endsWith("]") ? -1 : place.lastIndexOf(":")
      const name = colon < 0 ? place : place.slice(0, colon)
      const isBracketed = name.startsWith("[") && name.endsWith("]")
      if (!isBracketed && name.includes(":")) return yield* malformed
      places.push([yield* decoded(isBracketed ? name.slice(1, -1) : name), colon < 0 ? "" : place.slice(colon + 1)])
    }
    const names = parameters.get("host")?.split(",") ?? places.map(([name]) => name!)
    const ports = parameters.get("port")?.split(",") ?? places.map(([, port]) => port!)
    if (ports.length !== 1 && ports.length !== names.length) return yield* wrong("has not as many ports as hosts")
    const hosts = []
    for (const [index, name] of names.entries()) {
      const port = Number((ports.length === 1 ? ports[0] : ports[index]) || 5432)
      if (!Number.isInteger(port) || port < 1 || port > 65_535) return yield* malformed
      if (name === "" && names.length > 1) return yield* malformed
      hosts.push({ host: name || "localhost", port })
    }
    return hosts
  })

/** `require` verifies too: TLS with anybody protects from nobody. */
const tlsOf = (mode: string | undefined, hasRoot: boolean): Result.Result<DatabaseUrl["tls"], string> => {
  switch (mode ?? (hasRoot ? "verify-full" : "disable")) {
    case "require":
    case "verify-full":
      return Result.succeed("verify-full")
    case "verify-ca":
      return Result.succeed("verify-ca")
    case "disable":
    case "allow":
    case "prefer":
      if (hasRoot) return wrong("has sslrootcert and needs sslmode=verify-full or verify-ca with it")
      return Result.succeed(mode === undefined || mode === "disable" ? "disable" : "prefer")
    default:
      return wrong("has an unknown sslmode: it is disable, allow, prefer, require, verify-ca or verify-full")
  }
}
