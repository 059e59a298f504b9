/** Checks the database: version, durability, schema, clock and audit log, and whether audited callers have addresses of their own. */
import { Effect, Layer, Option, Redacted, Result, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Audit } from "../../../src/platform/audit/Audit.ts"
import * as PartitionStore from "../../../src/platform/audit/PartitionStore.ts"
import { Backups } from "../../../src/platform/backups/Backups.ts"
import { Backup } from "../../../src/platform/backups/Backup.ts"
import { DatabaseClock } from "../../../src/platform/database/Clock.ts"
import {
  Database,
  durability,
  explainLasting,
  reachable,
  suitable,
  whole
} from "../../../src/platform/database/Database.ts"
import { review, tooNew } from "../../../src/platform/database/Migrations.ts"
import { longPersistence } from "../../../src/platform/database/Persistence.ts"
import { networks, trusts } from "../../../src/platform/edge/Addresses.ts"
import { parseDatabaseUrl } from "../../../src/platform/settings/DatabaseUrl.ts"
import { Settings } from "../../../src/platform/settings/Settings.ts"
import { rows } from "../../../src/platform/sql/Rows.ts"
import { PushTokens } from "../../../src/push/tokens/PushTokens.ts"
import { backups } from "./backups.ts"
import { check } from "./Check.ts"

const failed = ({ message }: { readonly message: string }) => Effect.succeed([check("database", "fail", message)])

/** The age of backups is known without the database. */
export const database = Effect.suspend(() => Effect.all([backups, checks.pipe(Effect.catch(failed))])).pipe(
  Effect.map((found) => found.flat()),
  Effect.provide(
    Layer.merge(Backups.layer, PushTokens.layer).pipe(
      Layer.provideMerge(Layer.merge(Audit.layer, Backup.layer)),
      Layer.provideMerge(DatabaseClock.layer),
      Layer.provideMerge(Database.layer)
    )
  ),
  Effect.catch(failed)
)

const checks = Effect.gen(function* () {
  const { dedicated } = yield* Database
  const clock = yield* DatabaseClock
  yield* reachable
  const inside = yield* dedicated(
    Effect.andThen(Effect.all([suitable, whole]), Effect.all([serverVersion, durable, migrations]))
  ).pipe(explainLasting, longPersistence)
  // Without the whole schema there may be no audit log to read.
  const isMigrated = inside.every(({ name, status }) => name !== "migrations" || status === "ok")
  return [
    ...inside,
    clockOf(yield* clock.offset),
    ...(isMigrated ? [...(yield* auditLog), ...(yield* forwarded), ...(yield* sealed)] : [])
  ]
})

/** Devices whose push tokens nobody can open, and browsers whose messages nobody can sign. */
const sealed = Effect.gen(function* () {
  const { dedicated } = yield* Database
  const { knows } = yield* PushTokens
  const used = yield* dedicated(
    Effect.flatMap(SqlClient.SqlClient, (sql) =>
      rows(Schema.Struct({ key: Schema.String, devices: Schema.Int }))(sql`
        select u.key, count(*)::int as devices
          from mobile_device d
          left join web_push_key k on k.web_push_key_id = d.web_push_key_id
         cross join lateral (select d.token_key_id union select k.token_key_id) u (key)
         where d.state = 'active'
           and u.key is not null
         group by u.key
         order by u.key`)
    )
  ).pipe(longPersistence)
  return used
    .filter(({ key }) => !knows(key))
    .map(({ devices, key }) =>
      check(
        "push_keys_used",
        "fail",
        `The key ${key} of push tokens is not configured, and ${devices} devices and channels depend on it: add it to SERVICE_PUSH_TOKEN_KEYS again, and run rekey-push-tokens before it is removed. Browsers keep the key with which they subscribed; they depend on it until they subscribe again.`
      )
    )
})

const serverVersion = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [server] = yield* rows(Schema.Struct({ version: Schema.String }))(
    sql`select current_setting('server_version') as version`
  )
  return check("database", "ok", `PostgreSQL ${server!.version} answers.`)
})

const durable = Effect.map(durability, (settings) => {
  const off = settings.filter(({ setting }) => setting === "off").map(({ name }) => name)
  return off.length === 0
    ? check("durability", "ok", "Acknowledged changes survive a power cut.")
    : check("durability", "fail", `Turn on ${off.join(", ")} in PostgreSQL: a power cut can undo revocations.`)
})

const migrations = Effect.gen(function* () {
  const { changed, newer, pending, works } = yield* review()
  if (!works) return check("migrations", "fail", tooNew(newer))
  if (changed.length > 0) {
    const message = `These migrations were edited after they ran: ${changed.join(", ")}`
    return check("migrations", "fail", `${message}. Restore the files from the release.`)
  }
  if (pending.length === 0 && newer.length > 0) {
    const message = `The schema belongs to a newer release, which has migrations/${newer.at(-1)}`
    return check("migrations", "ok", `${message}. This release works on it, too.`)
  }
  if (pending.length === 0) return check("migrations", "ok", "The schema is up to date.")
  return (yield* mayCreateTables)
    ? check(
        "migrations",
        "warn",
        `Not run yet: ${pending.join(", ")}. service-admin migrate runs them, and so does the next start.`
      )
    : check(
        "migrations",
        "fail",
        "The account in DATABASE_URL may not create tables: make it the owner of the database."
      )
})

const mayCreateTables = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [right] = yield* rows(Schema.Struct({ given: Schema.Boolean }))(
    sql`select coalesce(has_schema_privilege(current_schema(), 'create'), false) as given`
  )
  return right!.given
})

/** `offset` in milliseconds: the database's time minus this machine's. */
const clockOf = (offset: number) => {
  const seconds = (Math.abs(offset) / 1000).toFixed(1)
  if (Math.abs(offset) <= 1000) return check("clock", "ok", "This machine and the database agree on the time.")
  const message = `The database's clock is ${seconds} s ${offset > 0 ? "ahead of" : "behind"} this machine's`
  return check("clock", "warn", `${message}. The service uses the database's: correct whichever is wrong.`)
}

/** Whether rows of the coming months have a partition, and whether the service itself could rewrite the log. */
const auditLog = Effect.gen(function* () {
  const { url } = (yield* Settings).database
  const store = PartitionStore.make(yield* SqlClient.SqlClient)
  const ahead = yield* store.state(yield* (yield* DatabaseClock).now)
  const months = Option.match(ahead, { onNone: () => 0, onSome: ({ months_ahead }) => months_ahead })
  const partitions =
    months >= 2
      ? check("audit_log", "ok", `There are partitions for the next ${months} months.`)
      : check(
          "audit_log",
          "warn",
          `There are partitions for the next ${months} months only: run service-admin maintain-audit-log, daily.`
        )
  if (url === undefined) return [partitions]
  const mayRewrite = yield* store.mayRewrite(Result.getOrThrow(parseDatabaseUrl(Redacted.value(url))).username ?? "")
  return [
    partitions,
    mayRewrite
      ? check(
          "audit_role",
          "warn",
          "The account in DATABASE_URL may change and delete audit rows: see deploy/roles.sql and run.md."
        )
      : check("audit_role", "ok", "The service may add audit rows, and neither change nor delete them.")
  ]
}).pipe(explainLasting, longPersistence)

/**
 * Behind a proxy that does not set X-Forwarded-For, every caller has the proxy's address.
 * One caller could then exhaust the rate limits of all.
 */
const forwarded = Effect.gen(function* () {
  const { baseUrl, http } = yield* Settings
  if (baseUrl.protocol !== "https:" || http.trustedProxies.length === 0) return []
  const trusted = yield* networks(http.trustedProxies)
  const audit = yield* Audit
  const addresses = (yield* audit.list(undefined, { after: undefined, limit: 200 }))
    .map(({ address }) => address)
    .filter((address) => address !== "")
  if (addresses.length === 0) return []
  return addresses.every((address) => trusts(trusted, address))
    ? [
        check(
          "forwarded",
          "warn",
          `All recent callers have the proxy's address, ${addresses[0]}: make the proxy set X-Forwarded-For.`
        )
      ]
    : [check("forwarded", "ok", "The proxy passes on the callers' addresses.")]
  // The check of the proxy already reports malformed networks.
}).pipe(Effect.catchTag("ConfigurationError", () => Effect.succeed([])))
