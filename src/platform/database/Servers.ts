/** The servers that a setting such as DATABASE_URL names, as the driver wants them. */
import type { PgClient } from "@effect/sql-pg"
import { Effect, Redacted, Result } from "effect"
import { readFileSync } from "node:fs"
import { type DatabaseUrl, parseDatabaseUrl } from "../settings/DatabaseUrl.ts"
import { ConfigurationError } from "../settings/Settings.ts"

export type Server = Pick<
  PgClient.PgClientConfig,
  "connectTimeout" | "database" | "host" | "password" | "port" | "ssl" | "startupOptions" | "url" | "username"
>

/** With several hosts, one that does not answer is given up within the deadline of an operation. */
const connectTimeout = ({ connectTimeout, hosts }: DatabaseUrl) =>
  `${connectTimeout ?? (hosts.length > 1 ? 2 : 5)} seconds` as const

export const serversIn = Effect.fnUntraced(function* (text: string) {
  const url = Result.getOrThrow(parseDatabaseUrl(text))
  const ssl = yield* tlsOf(url)
  return url.hosts.map(({ host, port }): Server => ({
    host,
    port,
    username: url.username,
    password: url.password === undefined ? undefined : Redacted.make(url.password),
    database: url.database,
    startupOptions: url.options,
    connectTimeout: connectTimeout(url),
    // Only an address tells the driver to do without TLS where the server has none.
    ...(url.tls === "prefer" ? { url: Redacted.make("postgres://?sslmode=prefer") } : { ssl })
  }))
})

const tlsOf = Effect.fnUntraced(function* ({ certificate, key, rootCertificate, tls }: DatabaseUrl) {
  if (tls === "disable" || tls === "prefer") return false
  const [ca, cert, secret] = yield* Effect.forEach([rootCertificate, certificate, key], (path) =>
    path === undefined ? Effect.undefined : pem(path)
  )
  return {
    ...(ca !== undefined && { ca }),
    ...(cert !== undefined && { cert, key: secret }),
    ...(tls === "verify-ca" && { checkServerIdentity: () => undefined })
  }
})

const pem = (path: string) =>
  Effect.try({
    try: () => readFileSync(path, "utf8"),
    catch: (error) =>
      new ConfigurationError({
        message: `DATABASE_URL names ${path}, which cannot be read: ${(error as NodeJS.ErrnoException).code}.`
      })
  })
