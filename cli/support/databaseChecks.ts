/** What the database says of itself, of its schema, and of who called. */
import { Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Audit } from "../../src/platform/audit/Audit.ts"
import { Settings } from "../../src/platform/settings/Settings.ts"
import { DatabaseClock } from "../../src/platform/database/Clock.ts"
import { explainForbidden, Database, durability, reachable } from "../../src/platform/database/Database.ts"
import { review } from "../../src/platform/database/Migrations.ts"
import { longPersistence } from "../../src/platform/database/Persistence.ts"
import { networks, trusts } from "../../src/platform/edge/Addresses.ts"
import { rows } from "../../src/platform/sql/Rows.ts"
import { check } from "./check.ts"

export const database = Effect.suspend(() => asked).pipe(
  Effect.provide(Audit.layer.pipe(Layer.provideMerge(DatabaseClock.layer), Layer.provideMerge(Database.layer))),
  Effect.catch((error) => Effect.succeed([check("database", "fail", error.message)]))
)

const asked = Effect.gen(function* () {
  const { dedicated } = yield* Database
  const clock = yield* DatabaseClock
  yield* reachable
  const inside = yield* dedicated(Effect.all([serverVersion, durable, migrations])).pipe(
    explainForbidden,
    longPersistence
  )
  const isComplete = inside.every(({ name, status }) => name !== "migrations" || status === "ok")
  return [...inside, timeOf(yield* clock.offset), ...(isComplete ? yield* forwarded : [])]
})

const serverVersion = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [server] = yield* rows(Schema.Struct({ number: Schema.Int, name: Schema.String }))(
    sql`select current_setting('server_version_num')::int as number, current_setting('server_version') as name`
  )
  return server!.number >= 140_000
    ? check("database", "ok", `PostgreSQL ${server!.name} answers.`)
    : check("database", "fail", `PostgreSQL ${server!.name} is too old: use 14 or newer.`)
})

const durable = Effect.map(durability, (settings) => {
  const off = settings.filter(({ setting }) => setting === "off").map(({ name }) => name)
  return off.length === 0
    ? check("durability", "ok", "What was acknowledged survives a power cut.")
    : check("durability", "fail", `Turn on ${off.join(", ")}: a power cut can undo revocations.`)
})

const migrations = Effect.gen(function* () {
  const { changed, pending } = yield* review()
  if (changed.length > 0)
    return check("migrations", "fail", `Changed after they ran: ${changed.join(", ")}; restore them.`)
  if (pending.length === 0) return check("migrations", "ok", "The schema is up to date.")
  return (yield* mayCreate)
    ? check("migrations", "warn", `Not run yet: ${pending.join(", ")}; service-admin migrate, or the next start, does.`)
    : check("migrations", "fail", "The account in DATABASE_URL may not create tables there: let it own the database.")
})

const mayCreate = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [right] = yield* rows(Schema.Struct({ given: Schema.Boolean }))(
    sql`select coalesce(has_schema_privilege(current_schema(), 'create'), false) as given`
  )
  return right!.given
})

const timeOf = (offset: number) => {
  const seconds = (Math.abs(offset) / 1000).toFixed(1)
  return Math.abs(offset) <= 1000
    ? check("clock", "ok", "This machine and the database agree on the time.")
    : check(
        "clock",
        "warn",
        `The database is ${seconds} s ${offset > 0 ? "ahead" : "behind"}: its time counts; set this machine's.`
      )
}

/** A proxy that does not say who asks gives every caller its own address: one of them can use up the limits of all. */
const forwarded = Effect.gen(function* () {
  const { baseUrl, http } = yield* Settings
  if (baseUrl.protocol !== "https:" || http.trustedProxies.length === 0) return []
  const trusted = yield* networks(http.trustedProxies)
  const audit = yield* Audit
  const addresses = (yield* audit.list(undefined, 200))
    .map(({ address }) => address)
    .filter((address) => address !== "")
  if (addresses.length === 0) return []
  return addresses.every((address) => trusts(trusted, address))
    ? [
        check(
          "forwarded",
          "warn",
          `All callers of late had the proxy's address, ${addresses[0]}: it has to set X-Forwarded-For.`
        )
      ]
    : [check("forwarded", "ok", "The proxy says who asks.")]
  // Of networks that are none, the check of the proxy speaks.
}).pipe(Effect.catchTag("ConfigurationError", () => Effect.succeed([])))
