/**
 * Spent tokens are worth nothing (decisions.md, How long a salt is kept). Somebody holds a backup file and every token
 * and signature that was ever used, with or without the server's secrets, and tries each derivation of the service until
 * nothing new results.
 */
import { assert, layer } from "@effect/vitest"
import { Context, Duration, Effect, Layer, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { sweeps as bridgeSweeps } from "../../src/bridges/Wing.ts"
import { deriveFrom, KeyRing } from "../../src/platform/crypto/Derivation.ts"
import * as Tokens from "../../src/platform/crypto/Tokens.ts"
import { Backup } from "../../src/platform/backups/Backup.ts"
import { DatabaseClock } from "../../src/platform/database/Clock.ts"
import { sweepOnce } from "../../src/platform/database/Sweeper.ts"
import { Settings } from "../../src/platform/settings/Settings.ts"
import { sweeps as signinSweeps } from "../../src/signin/Wing.ts"
import { refresh, signIn } from "../support/agents/Agent.ts"
import { Bridge } from "../support/bridges/Bridge.ts"
import { rotate, successorOf, tokens } from "../support/bridges/Tokens.ts"
import { environment, instance } from "../support/service/Service.ts"
import { TestDatabase } from "../support/database/TestDatabase.ts"

/** Tokens of Bridges that live for longer than a proof can be replayed. */
const longLived = instance({
  SERVICE_BRIDGE_TOKEN_TTL_SECONDS: "864000",
  SERVICE_BACKUP_KEY: "t4ZsHq8LxWv2NcRy6JmEb0UaKf7GdPoT"
})
type On = Effect.Success<typeof longLived>

type Row = Readonly<Record<string, string | null>>

/** The rows of a backup file by table. */
const backupOf = Effect.fnUntraced(function* (on: On) {
  let text = ""
  const { save } = Context.get(
    yield* Layer.build(Layer.provide(Backup.layer, Layer.succeedContext(on.services))),
    Backup
  )
  yield* save((piece) => Effect.sync(() => void (text += piece)))
  const [header, ...lines] = text.trimEnd().split("\n")
  const columns = new Map<string, ReadonlyArray<string>>(
    JSON.parse(header!).tables.map((table: { name: string; columns: ReadonlyArray<string> }) => [
      table.name,
      table.columns
    ])
  )
  const rows = new Map<string, Array<Row>>([...columns.keys()].map((name) => [name, []]))
  for (const line of lines.slice(0, -1)) {
    const [table, ...values] = JSON.parse(line)
    rows.get(table)!.push(Object.fromEntries(columns.get(table)!.map((name, at) => [name, values[at]])))
  }
  return (table: string): ReadonlyArray<Row> => rows.get(table)!
})
type Rows = Effect.Success<ReturnType<typeof backupOf>>

const bytes = (text: string) => Buffer.from(text.slice(2), "hex")

/** The server's secrets, or others if they did not leak. */
const rings = ({ leaked }: { readonly leaked: boolean }) => {
  const ring = (purpose: Parameters<typeof KeyRing.make>[0]["purpose"], secret: string) =>
    KeyRing.make({
      purpose,
      current: Redacted.make(leaked ? secret : "a guess that is as long as a secret"),
      previous: Option.none()
    }).current
  return {
    bridge: ring("bridge/v1/access-token", environment.SERVICE_BRIDGE_TOKEN_SECRET),
    oauth: ring("oauth/v1/refresh-successor", environment.SERVICE_OAUTH_SECRET)
  }
}

/** Every token that results from the rows, the spent tokens and the signatures, and from those results in turn. */
const derived = (
  rows: Rows,
  spent: ReadonlyArray<string>,
  signatures: ReadonlyArray<Uint8Array>,
  { bridge, oauth }: ReturnType<typeof rings>
) => {
  const found = new Set<string>()
  const salts = new Map(
    rows("bridge_token").flatMap(({ derivation_salt, token_id }) =>
      derivation_salt === null ? [] : [[token_id!, bytes(derivation_salt!)] as const]
    )
  )
  for (const { identity_id, token_id } of rows("bridge_token")) {
    const salt = salts.get(token_id!)
    if (salt === undefined) continue
    for (const signature of signatures)
      found.add(
        Redacted.value(Tokens.format("sbt", bridge.derive("proof", [token_id!, identity_id!, salt, signature])))
      )
  }
  const from = (text: string) => {
    const token = Redacted.make(text)
    return [
      ...rows("bridge_rotation").flatMap(({ rotation_id, successor_id }) => {
        const salt = salts.get(successor_id!)
        if (salt === undefined) return []
        return [Tokens.format("sbt", bridge.derive("rotate", [successor_id!, rotation_id!, salt, token]))]
      }),
      ...rows("oauth_refresh_token").flatMap(({ successor_salt }) => {
        if (successor_salt === null) return []
        const salt = bytes(successor_salt!)
        return [
          Tokens.format("srt", oauth.derive("successor", [salt, token])),
          // As the release before derived it, without a secret.
          Tokens.format("srt", deriveFrom(token, "oauth/v1/refresh-successor", [salt]))
        ]
      })
    ].map(Redacted.value)
  }
  const known = new Set(
    rows("bridge_token")
      .concat(rows("oauth_refresh_token"))
      .map(({ token_hash }) => token_hash)
  )
  let tokens = [...spent, ...found]
  while (tokens.length > 0) {
    tokens = tokens.flatMap(from).filter((token) => !found.has(token) && known.has(hashOf(token)))
    for (const token of tokens) found.add(token)
  }
  return found
}

const hashOf = (token: string) => `\\x${Buffer.from(Tokens.hash(Redacted.make(token))).toString("hex")}`

/** How many of the tokens give access, now or after a confirm. */
const liveAmong = Effect.fnUntraced(function* (found: ReadonlySet<string>) {
  const sql = yield* SqlClient.SqlClient
  const live = yield* sql<{ hash: string }>`
    select token_hash::text as hash from bridge_token where state in ('pending', 'active')
     union all
    select token_hash::text from oauth_refresh_token where used_at is null
     union all
    select token_hash::text from oauth_access_token where revoked_at is null`
  const hashes = new Set(live.map(({ hash }) => hash))
  return [...found].filter((token) => hashes.has(hashOf(token))).length
})

const sweep = (on: On) =>
  Effect.provideContext(
    sweepOnce([...bridgeSweeps, ...signinSweeps]),
    Context.pick(DatabaseClock, Settings)(on.services)
  )

/** What a Bridge and an agent have used up, with backups from within and after every window. */
const history = Effect.gen(function* () {
  const on = yield* longLived
  const at = tokens(on)
  const enrolled = Effect.gen(function* () {
    const bridge = yield* Bridge.make(on)
    const challenge = yield* bridge.askChallenge(on)
    const { signature_b64 } = yield* bridge.proofBody(challenge)
    const proof = yield* bridge.prove(on, challenge)
    return { bridge, signature_b64, token: proof.body.access_token as string }
  })
  const rotating = yield* enrolled
  const resting = yield* enrolled
  const signatures = [rotating, resting].map(({ signature_b64 }) => Buffer.from(signature_b64, "base64url"))
  const spent = [rotating.token]
  for (const key of ["one", "two"]) spent.push(yield* rotate(at, spent.at(-1)!, key))
  const prepared = successorOf(yield* at.prepare(spent.at(-1)!, "three"))

  const agent = yield* signIn(on)
  const use = (refresh_token: string) =>
    Effect.map(refresh(on, { client_id: agent.client_id, refresh_token }), ({ body }) => body.refresh_token as string)
  spent.push(agent.refresh_token)
  spent.push(yield* use(spent.at(-1)!))
  yield* use(spent.at(-1)!)

  const during = yield* backupOf(on)
  yield* at.confirm(prepared.successor, prepared.rotation_id)
  yield* TestClock.adjust(Duration.hours(24))
  yield* sweep(on)
  return { on, spent, signatures, during, later: yield* backupOf(on) }
})

layer(TestDatabase.sql, { timeout: "1 minute" })("spent tokens", (it) => {
  it.effect("with a backup and the server's secrets derive no live token once their windows are over", () =>
    Effect.gen(function* () {
      const { during, later, signatures, spent } = yield* history
      const secrets = rings({ leaked: true })
      assert.strictEqual(yield* liveAmong(derived(later, spent, signatures, secrets)), 0)
      // Within the windows an exact retry must get its answer, so the same attempt finds all three live tokens.
      assert.strictEqual(yield* liveAmong(derived(during, spent, signatures, secrets)), 3)
    }).pipe(Effect.scoped)
  )

  it.effect("with a backup from within their windows derive nothing without the server's secrets", () =>
    Effect.gen(function* () {
      const { during, signatures, spent } = yield* history
      const found = derived(during, spent, signatures, rings({ leaked: false }))
      assert.strictEqual(yield* liveAmong(found), 0)
    }).pipe(Effect.scoped)
  )

  it.effect("leave no salt behind a confirm, before any sweep", () =>
    Effect.gen(function* () {
      const on = yield* longLived
      const sql = yield* SqlClient.SqlClient
      const bridge = yield* Bridge.make(on)
      const salted = sql`
        select 1 from bridge_token join bridge_identity using (identity_id)
         where bridge_id = ${bridge.bridge_id} and derivation_salt is not null`
      const token = yield* bridge.enroll(on)
      assert.lengthOf(yield* salted, 1)
      yield* rotate(tokens(on), token, "one")
      assert.lengthOf(yield* salted, 0)
    }).pipe(Effect.scoped)
  )
})
