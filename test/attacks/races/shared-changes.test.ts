/**
 * Changes of different Bridges and grants share statements; each has its own outcome, and nobody waits for another's lock
 * (decisions.md, Changes that share a statement). Every race runs with sharing and without.
 */
import { assert, layer } from "@effect/vitest"
import { Deferred, Effect, Fiber, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import * as Tokens from "../../../src/platform/crypto/Tokens.ts"
import { callback, exchange, obtainCode, refresh, signIn } from "../../support/agents/Agent.ts"
import { invariants } from "../../support/attacks/Invariants.ts"
import { callers, outcomeOf, race, tally } from "../../support/attacks/Race.ts"
import { Bridge } from "../../support/bridges/Bridge.ts"
import { revokeIdentity, withNewCredential } from "../../support/bridges/Steps.ts"
import { holder, rotating, successorOf, tokens } from "../../support/bridges/Tokens.ts"
import type { Answer } from "../../support/network/Http.ts"
import { faultyDatabase } from "../../support/service/Faults.ts"
import { instance, Service } from "../../support/service/Service.ts"

/** An instance, and how many statements changed several Bridges at once. */
const counting = Effect.fnUntraced(function* (settings: Readonly<Record<string, string>> = {}) {
  let shared = 0
  const errors: Array<string> = []
  const count = (statement: string) => {
    if (statement.includes("select distinct on")) shared++
    return statement
  }
  const { layer } = faultyDatabase(count, (error) => errors.push(error))
  const on = yield* instance(settings, layer)
  return { ...on, ...tokens(on), errors, shared: () => shared }
})

const everyFifth = (answers: ReadonlyArray<Answer>, place: number) =>
  tally(answers.filter((_, caller) => caller % 5 === place))

const tokenOf = ({ client_id, refresh_token }: Readonly<Record<"client_id" | "refresh_token", string>>) => ({
  client_id,
  refresh_token
})
const successor = ({ body }: Answer): string => body.refresh_token

/** A code that may be exchanged, with what its exchange must send. */
const codeOf = (on: Parameters<typeof obtainCode>[0]) =>
  Effect.map(obtainCode(on), ({ client_id, code, verifier }) => ({ client_id, code, code_verifier: verifier }))

layer(Service.layer)("fifty changes at once", (it) => {
  for (const sharing of ["on", "off"]) {
    it.effect(`of many Bridges: each has its own outcome, with SERVICE_SHARED_LOOKUPS=${sharing}`, () =>
      Effect.gen(function* () {
        const settings = { SERVICE_SHARED_LOOKUPS: sharing }
        const on = [yield* counting(settings), yield* counting(settings)]
        const round = Effect.gen(function* () {
          const free = yield* Effect.replicateEffect(holder(), 10)
          const repeating = yield* holder()
          const rivals = yield* holder()
          const pending = yield* rotating()
          const revoked = yield* holder()
          yield* revokeIdentity(revoked.bridge)

          const prepared = yield* callers(on, 50, (at, caller) => {
            const n = Math.floor(caller / 5)
            return [
              at.prepare(free[n]!.token),
              at.prepare(repeating.token, "one"),
              at.prepare(rivals.token, `key-${n}`),
              at.prepare(pending.token, "another"),
              at.prepare(revoked.token)
            ][caller % 5]!
          })
          assert.deepStrictEqual(everyFifth(prepared, 0), { "201": 10 })
          assert.deepStrictEqual(everyFifth(prepared, 1), { "201": 1, "201 replayed": 9 })
          assert.deepStrictEqual(everyFifth(prepared, 2), { "201": 1, bridge_rotation_in_progress: 9 })
          assert.deepStrictEqual(everyFifth(prepared, 3), { bridge_rotation_in_progress: 10 })
          assert.deepStrictEqual(everyFifth(prepared, 4), { bridge_revoked: 10 })

          const successors = prepared.filter((_, caller) => caller % 5 === 0).map(successorOf)
          const repeated = successorOf(prepared[1]!)
          const confirmed = yield* callers(on, 50, (at, caller) => {
            const { rotation_id, successor } = successors[Math.floor(caller / 5)]!
            return [
              at.confirm(successor, rotation_id),
              at.confirm(repeated.successor, repeated.rotation_id, "one"),
              at.confirm(pending.successor, pending.rotation_id, `key-${caller}`),
              at.confirm(pending.successor, rotation_id),
              at.confirm(revoked.token, rotation_id)
            ][caller % 5]!
          })
          assert.deepStrictEqual(everyFifth(confirmed, 0), { "200": 10 })
          assert.deepStrictEqual(everyFifth(confirmed, 1), { "200": 1, "200 replayed": 9 })
          assert.deepStrictEqual(everyFifth(confirmed, 2), { "200": 1, bridge_rotation_confirmed: 9 })
          assert.deepStrictEqual(everyFifth(confirmed, 3), { bridge_rotation_not_found: 10 })
          assert.deepStrictEqual(everyFifth(confirmed, 4), { bridge_revoked: 10 })
          for (const { successor } of successors) assert.strictEqual((yield* on[0]!.self(successor)).status, 200)
        })
        yield* race(round, invariants)
        assert.deepStrictEqual(
          on.flatMap(({ errors }) => errors),
          []
        )
        for (const { shared } of on) assert.strictEqual(shared() > 0, sharing === "on")
      })
    )

    it.effect(`of Bridges that enroll: each has its own outcome, with SERVICE_SHARED_LOOKUPS=${sharing}`, () =>
      Effect.gen(function* () {
        const service = yield* Service
        const on = yield* counting({ SERVICE_SHARED_LOOKUPS: sharing })
        const round = Effect.gen(function* () {
          const fresh = yield* Effect.replicateEffect(Bridge.make(service), 10)
          const repeating = yield* Bridge.make(service)
          const enrolled = (yield* holder()).bridge
          const again = yield* withNewCredential(enrolled, { reenroll: enrolled.bridge_id })
          const spare = yield* Bridge.make(service)
          const rivals = [spare, yield* withNewCredential(spare)]

          const opened = yield* callers([on], 40, (at, caller) => {
            const n = Math.floor(caller / 4)
            return [
              fresh[n]!.askChallenge(at),
              repeating.askChallenge(at),
              again.askChallenge(at),
              rivals[n % 2]!.askChallenge(at)
            ][caller % 4]!
          })
          const kinds = [0, 1, 2, 3].map((kind) => opened.filter((_, caller) => caller % 4 === kind))
          assert.deepStrictEqual(tally(kinds[0]!), { "201": 10 })
          assert.deepStrictEqual(tally(kinds[1]!), { "201": 1, "201 replayed": 9 })
          assert.deepStrictEqual(tally(kinds[2]!), { "201": 1, "201 replayed": 9 })
          assert.deepStrictEqual(tally(kinds[3]!), { "201": 2, "201 replayed": 8 })

          const proved = yield* callers([on], 40, (at, caller) => {
            const n = Math.floor(caller / 4)
            const prover = [fresh[n]!, repeating, again, rivals[n % 2]!][caller % 4]!
            return prover.prove(at, opened[caller]!, { key: `proof-${caller % 4 === 3 ? n % 2 : 1}` })
          })
          const [each, one, renewed, either] = [0, 1, 2, 3].map((kind) =>
            tally(proved.filter((_, caller) => caller % 4 === kind))
          )
          assert.deepStrictEqual(each, { "200": 10 })
          assert.deepStrictEqual(one, { "200": 1, "200 replayed": 9 })
          assert.deepStrictEqual(renewed, { "200": 1, "200 replayed": 9 })
          assert.deepStrictEqual(either, { "200": 1, "200 replayed": 4, bridge_not_pending: 5 })
        })
        yield* race(round, invariants)
        assert.deepStrictEqual(on.errors, [])
        assert.strictEqual(on.shared() > 0, sharing === "on")
      })
    )

    it.effect(`of grants that are refreshed: each has its own outcome, with SERVICE_SHARED_LOOKUPS=${sharing}`, () =>
      Effect.gen(function* () {
        const service = yield* Service
        const sql = yield* SqlClient.SqlClient
        const settings = { SERVICE_SHARED_LOOKUPS: sharing }
        const on = [yield* counting(settings), yield* counting(settings)]
        const signedIn = Effect.map(signIn(service), (grant) => ({ ...grant }))
        const free = yield* Effect.replicateEffect(signedIn, 10)
        const [repeating, revoked] = [yield* signedIn, yield* signedIn]
        yield* sql`
          update oauth_grant
             set revoked_at = created_at, end_reason = 'test'
           where client_id = ${revoked.client_id}`
        const round = Effect.gen(function* () {
          const refreshed = yield* callers(on, 50, (at, caller) => {
            const n = Math.floor(caller / 5)
            return [
              refresh(at, { ...tokenOf(free[n]!), ...(n % 2 === 0 && { scope: "memory:read" }) }),
              refresh(at, tokenOf(repeating)),
              refresh(at, { ...tokenOf(free[n]!), client_id: repeating.client_id }),
              refresh(at, { ...tokenOf(repeating), scope: "tasks:write" }),
              refresh(at, tokenOf(revoked))
            ][caller % 5]!
          })
          const outcomes = refreshed.map(({ body, status }) => body.error ?? status)
          const expected = [200, 200, "invalid_grant", "invalid_scope", "invalid_grant"]
          assert.deepStrictEqual(
            outcomes,
            refreshed.map((_, caller) => expected[caller % 5])
          )
          assert.strictEqual(new Set(refreshed.filter((_, n) => n % 5 === 1).map(successor)).size, 1)
          repeating.refresh_token = successor(refreshed[1]!)
          for (const [n, grant] of free.entries()) {
            const { body } = refreshed[5 * n]!
            assert.strictEqual(body.scope, n % 2 === 0 ? "memory:read" : grant.scope)
            const hashes = [body.access_token, body.refresh_token].map((token) => Tokens.hash(Redacted.make(token)))
            const found = yield* sql`
              select a.scopes
                from oauth_grant g
                join oauth_access_token a using (grant_id)
                join oauth_refresh_token r using (grant_id)
               where g.client_id = ${grant.client_id}
                 and a.token_hash = ${hashes[0]}
                 and r.token_hash = ${hashes[1]}`
            assert.deepStrictEqual(found, [{ scopes: body.scope.split(" ") }])
            grant.refresh_token = successor(refreshed[5 * n]!)
          }
        })
        yield* race(round, Effect.void)
        assert.deepStrictEqual(
          on.flatMap(({ errors }) => errors),
          []
        )
        for (const { shared } of on) assert.strictEqual(shared() > 0, sharing === "on")
      })
    )

    it.effect(`of codes that are exchanged: each has its own outcome, with SERVICE_SHARED_LOOKUPS=${sharing}`, () =>
      Effect.gen(function* () {
        const service = yield* Service
        const sql = yield* SqlClient.SqlClient
        const settings = { SERVICE_SHARED_LOOKUPS: sharing }
        const on = [yield* counting(settings), yield* counting(settings)]
        const round = Effect.gen(function* () {
          const free = yield* Effect.replicateEffect(codeOf(service), 10)
          const [copied, revoked] = [yield* codeOf(service), yield* codeOf(service)]
          yield* sql`
            update oauth_grant
               set revoked_at = created_at, end_reason = 'test'
             where client_id = ${revoked.client_id}`
          const exchanged = yield* callers(on, 50, (at, caller) => {
            const n = Math.floor(caller / 5)
            return [
              exchange(at, { ...free[n]!, ...(n % 2 === 0 && { redirect_uri: callback }) }),
              exchange(at, copied),
              exchange(at, { ...free[n]!, code_verifier: copied.code_verifier }),
              exchange(at, { ...free[n]!, redirect_uri: "http://127.0.0.1/other" }),
              exchange(at, revoked)
            ][caller % 5]!
          })
          const outcomesOf = (place: number) =>
            exchanged.filter((_, caller) => caller % 5 === place).map(({ body, status }) => body.error ?? status)
          assert.deepStrictEqual(outcomesOf(0), Array(10).fill(200))
          assert.deepStrictEqual(outcomesOf(1).toSorted(), [200, ...Array(9).fill("invalid_grant")])
          for (const place of [2, 3, 4]) assert.deepStrictEqual(outcomesOf(place), Array(10).fill("invalid_grant"))
          for (const [n, { client_id }] of free.entries()) {
            const { body } = exchanged[5 * n]!
            const hashes = [body.access_token, body.refresh_token].map((token) => Tokens.hash(Redacted.make(token)))
            const found = yield* sql`
              select g.revoked_at
                from oauth_grant g
                join oauth_access_token a using (grant_id)
                join oauth_refresh_token r using (grant_id)
               where g.client_id = ${client_id}
                 and a.token_hash = ${hashes[0]}
                 and r.token_hash = ${hashes[1]}`
            assert.deepStrictEqual(found, [{ revoked_at: null }])
          }
          const ended = yield* sql`select end_reason from oauth_grant where client_id = ${copied.client_id}`
          assert.deepStrictEqual(ended, [{ end_reason: "code_replayed" }])
        })
        yield* race(round, Effect.void)
        assert.deepStrictEqual(
          on.flatMap(({ errors }) => errors),
          []
        )
        for (const { shared } of on) assert.strictEqual(shared() > 0, sharing === "on")
      })
    )
  }

  it.effect("of codes are refused if their answer was lost, and no grant ends", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const sql = yield* SqlClient.SqlClient
      const { fail, layer } = faultyDatabase((statement) => {
        if (statement.includes("select distinct on (code_hash)")) Effect.runSync(fail("disconnected after", 1))
        return statement
      })
      const on = yield* instance({}, layer)
      const codes = yield* Effect.replicateEffect(codeOf(service), 10)
      const answers = yield* Effect.forEach(codes, (code) => exchange(on, code), { concurrency: "unbounded" })
      assert.deepStrictEqual([...new Set(answers.map(({ status }) => status))].toSorted(), [200, 503])
      const ended = yield* sql`
        select end_reason
          from oauth_grant
         where client_id = any (${codes.map(({ client_id }) => client_id)})
           and revoked_at is not null`
      assert.deepStrictEqual(ended, [])
    })
  )

  it.effect("wait for no lock but their own Bridge's", () =>
    Effect.gen(function* () {
      const on = yield* counting()
      const sql = yield* SqlClient.SqlClient
      const [locked, ...others] = yield* Effect.replicateEffect(holder(), 10)
      const release = yield* Deferred.make<void>()
      const isLocked = yield* Deferred.make<void>()
      const lock = Effect.gen(function* () {
        yield* sql`select from bridge_identity where bridge_id = ${locked!.bridge.bridge_id} for update`
        yield* Deferred.succeed(isLocked, undefined)
        yield* Deferred.await(release)
      })
      const holding = yield* Effect.forkChild(sql.withTransaction(lock))
      yield* Deferred.await(isLocked)
      const waits = yield* Effect.forkChild(on.prepare(locked!.token))
      const answers = yield* callers([on], 9, (at, caller) => at.prepare(others[caller]!.token))
      assert.deepStrictEqual(tally(answers), { "201": 9 })
      yield* Deferred.succeed(release, undefined)
      assert.strictEqual(outcomeOf(yield* Fiber.join(waits)), "201")
      yield* Fiber.join(holding)
    })
  )
})
