/** Sessions of the console at their service: what opens one, what ends one, and how many a project may have. */
import { assert, it as test, layer } from "@effect/vitest"
import { ConfigProvider, Context, Duration, Effect, Layer, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { Limits } from "../../src/operator/limits/Limits.ts"
import { Projects } from "../../src/operator/projects/Projects.ts"
import { ProjectTokens } from "../../src/signin/access/ProjectTokens.ts"
import { type Share, Shares } from "../../src/platform/database/Shares.ts"
import { Attempts } from "../../src/platform/edge/limits/Attempts.ts"
import { RateLimit } from "../../src/platform/edge/limits/RateLimit.ts"
import { Settings } from "../../src/platform/settings/Settings.ts"
import { openSessions } from "../../src/platform/sql/access/OpenSession.ts"
import { sessionCookie } from "../../src/signin/sessions/SessionCookie.ts"
import { Sessions } from "../../src/signin/sessions/Sessions.ts"
import { refuse } from "../../src/wire/Errors.ts"
import { Caller } from "../../src/wire/Headers.ts"
import { makeToken } from "../support/agents/Agent.ts"
import { firstPage } from "../support/database/Page.ts"
import { environment, instance, Service } from "../support/service/Service.ts"

const use = <A, E>(work: (sessions: Sessions["Service"]) => Effect.Effect<A, E>) =>
  Effect.flatMap(Service, ({ services }) => work(Context.get(services, Sessions)))

const token = (options: Parameters<typeof makeToken>[1] = {}) =>
  Effect.flatMap(Service, (service) => makeToken(service, options))
const signIn = (raw: string) => use((sessions) => sessions.signIn(Redacted.make(raw)))
const isOpen = (secret: Redacted.Redacted<string>) =>
  use((sessions) => Effect.map(sessions.find(secret), Option.isSome))
const codeOf = (url: Redacted.Redacted<string>) => Redacted.make(new URL(Redacted.value(url)).searchParams.get("code")!)
const operator = Effect.gen(function* () {
  const link = yield* use((sessions) => sessions.makeLink("operator", undefined))
  return yield* use((sessions) => sessions.enter(codeOf(link.url)))
})

layer(Service.layer)("a session", (it) => {
  it.effect("opens with a project token, and its secret is stored as a hash only", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { project_id, token: raw } = yield* token({ label: "Ada" })
      const caller = { address: "here", network: "here", userAgent: "Firefox" }
      const { secret } = yield* Effect.provideService(signIn(raw), Caller, caller)
      const listed = yield* use((sessions) => sessions.list(project_id, firstPage))
      assert.deepStrictEqual(
        listed.map(({ user_agent }) => user_agent),
        ["Firefox"]
      )
      const session = Option.getOrThrow(yield* use((sessions) => sessions.find(secret)))
      assert.strictEqual(session.token?.label, "Ada")
      const [row] = yield* sql<{ text: string }>`
        select console_session::text as text from console_session where session_id = ${session.session_id}::uuid`
      assert.notInclude(row!.text, Redacted.value(secret))
    })
  )

  it.effect("lasts for 7 days, an operator's for 8 hours, and no longer than its token", () =>
    Effect.gen(function* () {
      const ending = yield* token({ ttl: Option.some(Duration.hours(1)) })
      const lasting = yield* token({ ttl: Option.some(Duration.days(8)) })
      const opened = [yield* signIn(ending.token), yield* signIn(lasting.token), yield* operator]
      assert.deepStrictEqual(
        opened.map(({ lasts }) => lasts),
        [3_600, 604_800, 28_800]
      )
    })
  )

  it.effect("is audited when it opens and when it ends, once each", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { project_id, token: raw, token_id } = yield* token()
      const opened = [yield* signIn(raw), yield* signIn(raw)]
      const found = yield* Effect.forEach(opened, ({ secret }) => use((sessions) => sessions.find(secret)))
      const [first, second] = found.map(Option.getOrThrow)
      for (let again = 0; again < 2; again += 1) {
        yield* use((sessions) => sessions.signOut(first!))
        yield* use((sessions) => sessions.signOutEverywhere(first!))
      }
      const rows = yield* sql`
        select action, actor, subject->>'session_id' as session_id
          from audit_event
         where project_id = ${project_id}::uuid
           and action like 'console%'`
      assert.sameDeepMembers(
        [...rows],
        [first!, second!].flatMap(({ session_id }) =>
          ["opened", "ended"].map((what) => ({
            action: `console_session.${what}`,
            actor: `project_token:${token_id}`,
            session_id
          }))
        )
      )
    })
  )

  it.effect("writes when it was last used at most once a minute", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { token: raw } = yield* token()
      const { secret } = yield* signIn(raw)
      const { session_id } = Option.getOrThrow(yield* use((sessions) => sessions.find(secret)))
      const unusedFor = Effect.gen(function* () {
        const now = yield* Effect.clockWith(({ currentTimeMillis }) => currentTimeMillis)
        const [row] = yield* sql<{ last_used_at: Date }>`
          select last_used_at from console_session where session_id = ${session_id}::uuid`
        return now - row!.last_used_at.getTime()
      })
      yield* TestClock.adjust("59 seconds")
      assert.isTrue(yield* isOpen(secret))
      assert.strictEqual(yield* unusedFor, 59_000)
      yield* TestClock.adjust("1 second")
      assert.isTrue(yield* isOpen(secret))
      assert.strictEqual(yield* unusedFor, 0)
    })
  )

  /** Each condition alone ends the session for `find`, `list` and the count of the limit. */
  const ends: ReadonlyArray<
    readonly [string, (ids: { project_id: string; token_id: string }) => Effect.Effect<unknown, unknown, Service>]
  > = [
    [
      "its token is revoked",
      ({ token_id }) => Effect.flatMap(Service, ({ services }) => Context.get(services, ProjectTokens).revoke(token_id))
    ],
    ["its token expires", () => TestClock.adjust("1 hour")],
    [
      "its project is disabled",
      ({ project_id }) => Effect.flatMap(Service, ({ services }) => Context.get(services, Projects).disable(project_id))
    ],
    ["nobody uses it for 12 hours", () => TestClock.adjust("12 hours")]
  ]
  for (const [index, [why, end]] of ends.entries()) {
    it.effect(`ends when ${why}, and is neither listed nor counted any more`, () =>
      Effect.gen(function* () {
        const ttl = index === 1 ? Option.some(Duration.hours(1)) : Option.none()
        const made = yield* token({ ttl })
        const { secret } = yield* signIn(made.token)
        const { services } = yield* Service
        const seen = Effect.gen(function* () {
          const listed = yield* use((sessions) => sessions.list(made.project_id, firstPage))
          const limits = yield* Context.get(services, Limits).list(made.project_id)
          return [yield* isOpen(secret), listed.length, limits.find(({ limit }) => limit === "sessions")?.value]
        })
        assert.deepStrictEqual(yield* seen, [true, 1, 1])
        yield* end(made)
        assert.deepStrictEqual(yield* seen, [false, 0, 0])
      })
    )
  }

  it.effect("is counted without reading those that have ended", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const { project_id, token: raw, token_id } = yield* token()
      yield* signIn(raw)
      const now = new Date(yield* Effect.clockWith(({ currentTimeMillis }) => currentTimeMillis))
      yield* sql`
        insert into console_session (session_id, secret_hash, project_token_id, project_id, actor, user_agent, created_at,
                                     last_used_at, expires_at, ended_at)
        select gen_random_uuid(), sha256(n::text::bytea), ${token_id}::uuid, ${project_id}::uuid, 'a', '', ${now}, ${now},
               ${new Date(now.getTime() + 604_800_000)}, ${now}
          from generate_series(1, 20000) n`
      yield* sql`vacuum analyze console_session`.unprepared
      const read = sql<{ readonly tuples: number }>`
        select sum(seq_tup_read + idx_tup_fetch)::int as tuples
          from pg_stat_xact_user_tables
         where relname = 'console_session'`
      const tuples = yield* sql.withTransaction(
        Effect.gen(function* () {
          const [before] = yield* read
          assert.deepStrictEqual(yield* openSessions(sql, project_id, now), [{ open: 1 }])
          const [after] = yield* read
          return after!.tuples - before!.tuples
        })
      )
      assert.isBelow(tuples, 20)
    })
  )

  it.effect("ends after 7 days, however often it is used", () =>
    Effect.gen(function* () {
      const { token: raw } = yield* token()
      const { secret } = yield* signIn(raw)
      for (let hours = 0; hours < 7 * 24 - 8; hours += 8) {
        yield* TestClock.adjust("8 hours")
        assert.isTrue(yield* isOpen(secret))
      }
      yield* TestClock.adjust("8 hours")
      assert.isFalse(yield* isOpen(secret))
    })
  )

  it.effect("is not kept open by a page that refreshes itself", () =>
    Effect.gen(function* () {
      const { token: raw } = yield* token()
      const { secret } = yield* signIn(raw)
      yield* TestClock.adjust("11 hours")
      assert.isTrue(yield* use((sessions) => Effect.map(sessions.find(secret, false), Option.isSome)))
      yield* TestClock.adjust("1 hour")
      assert.isFalse(yield* isOpen(secret))
    })
  )

  it.effect("knows when the visit before this one ended", () =>
    Effect.gen(function* () {
      const { token: raw } = yield* token()
      const { secret } = yield* signIn(raw)
      const lastVisit = Effect.map(
        use((sessions) => sessions.find(secret)),
        (found) => Option.getOrThrow(found).last_visit_at?.getTime() ?? null
      )
      const start = yield* Effect.clockWith((clock) => clock.currentTimeMillis)
      assert.isNull(yield* lastVisit)
      yield* TestClock.adjust("30 minutes")
      for (let again = 0; again < 2; again += 1) assert.isNull(yield* lastVisit)
      yield* TestClock.adjust(30 * 60_000 + 1)
      for (let again = 0; again < 2; again += 1) assert.strictEqual(yield* lastVisit, start + 30 * 60_000)
    })
  )

  it.effect("of the same token ends everywhere, and no other", () =>
    Effect.gen(function* () {
      const mine = yield* token()
      const other = yield* token({ project_id: mine.project_id })
      const [first, second] = [yield* signIn(mine.token), yield* signIn(mine.token)]
      const [theirs, operators] = [yield* signIn(other.token), yield* operator]
      const session = Option.getOrThrow(yield* use((sessions) => sessions.find(first.secret)))
      yield* use((sessions) => sessions.signOutEverywhere(session))
      const open = yield* Effect.forEach([first, second, theirs, operators], ({ secret }) => isOpen(secret))
      assert.deepStrictEqual(open, [false, false, true, true])
    })
  )

  it.effect("cannot be opened with a token for agents only, or one that is none", () =>
    Effect.gen(function* () {
      const made = yield* token({ opens_console: false })
      for (const raw of [made.token, made.token.slice(0, -1), "spt_", ""]) {
        assert.strictEqual((yield* Effect.flip(signIn(raw)))._tag, "WrongCredential")
      }
    })
  )

  it.effect("over the limit ends the oldest one of the token that has the most, whoever signs in", () =>
    Effect.gen(function* () {
      const { services } = yield* Service
      const mine = yield* token()
      const other = yield* token({ project_id: mine.project_id })
      yield* Context.get(services, Limits).set(mine.project_id, { sessions: 3 })
      const opened = [] as Array<Effect.Success<ReturnType<typeof signIn>>>
      const next = Effect.fnUntraced(function* (raw: string) {
        opened.push(yield* signIn(raw))
        yield* TestClock.adjust("1 minute")
        return yield* Effect.forEach(opened, ({ secret }) => isOpen(secret))
      })
      yield* next(mine.token)
      yield* next(mine.token)
      assert.deepStrictEqual(yield* next(mine.token), [true, true, true])
      // A colleague gets in, and so does whoever had the most.
      assert.deepStrictEqual(yield* next(other.token), [false, true, true, true])
      assert.deepStrictEqual(yield* next(mine.token), [false, false, true, true, true])
      // One of two and one of one: the next of the second is the second's.
      assert.deepStrictEqual(yield* next(other.token), [false, false, false, true, true, true])
      // Two of the second and one of the first: the second's oldest ends, although the first's is older than the other.
      assert.deepStrictEqual(yield* next(other.token), [false, false, false, false, true, true, true])
      const sql = yield* SqlClient.SqlClient
      const [ended] = yield* sql<{ count: number }>`
        select count(*)::int as count
          from audit_event
         where project_id = ${mine.project_id}::uuid and action = 'console_session.ended'`
      assert.strictEqual(ended!.count, 4)
    })
  )

  it.effect("over the limit with one session for each token ends the one used least recently", () =>
    Effect.gen(function* () {
      const { services } = yield* Service
      const first = yield* token()
      const others = yield* Effect.forEach([1, 2], () => token({ project_id: first.project_id }))
      yield* Context.get(services, Limits).set(first.project_id, { sessions: 2 })
      const [older, newer] = [yield* signIn(first.token), yield* signIn(others[0]!.token)]
      yield* TestClock.adjust("1 minute")
      assert.isTrue(yield* isOpen(older.secret))
      const opened = [older, newer, yield* signIn(others[1]!.token)]
      const open = yield* Effect.forEach(opened, ({ secret }) => isOpen(secret))
      assert.deepStrictEqual(open, [true, false, true])
    })
  )

  it.effect(
    "over the limit of tokens with as many ends one of the token that signs in, though another's is older",
    () =>
      Effect.gen(function* () {
        const { services } = yield* Service
        const mine = yield* token()
        const other = yield* token({ project_id: mine.project_id })
        yield* Context.get(services, Limits).set(mine.project_id, { sessions: 2 })
        const opened = yield* Effect.forEach([other, mine, mine], ({ token: raw }) =>
          Effect.tap(signIn(raw), () => TestClock.adjust("1 minute"))
        )
        const open = yield* Effect.forEach(opened, ({ secret }) => isOpen(secret))
        assert.deepStrictEqual(open, [true, false, true])
      })
  )

  it.effect("is counted by sign-ins at the same time", () =>
    Effect.gen(function* () {
      const { services } = yield* Service
      const other = yield* instance()
      const made = yield* Effect.forEach([...Array(6).keys()], () => token()).pipe(
        Effect.flatMap(([first, ...rest]) =>
          Effect.forEach(rest, () => token({ project_id: first!.project_id })).pipe(
            Effect.map((others) => [first!, ...others])
          )
        )
      )
      yield* Context.get(services, Limits).set(made[0]!.project_id, { sessions: 2 })
      const tried = yield* Effect.forEach(
        made,
        ({ token: raw }, index) => {
          const at = index % 2 === 0 ? services : other.services
          return Context.get(at, Sessions).signIn(Redacted.make(raw))
        },
        { concurrency: "unbounded" }
      )
      const open = yield* Effect.forEach(tried, ({ secret }) => isOpen(secret))
      assert.strictEqual(open.filter((is) => is).length, 2)
    })
  )
})

layer(Service.layer)("a link of open-console", (it) => {
  it.effect("opens one operator's session, which ends after 8 hours", () =>
    Effect.gen(function* () {
      const { project_id } = yield* token()
      const link = yield* use((sessions) => sessions.makeLink("operator", project_id))
      const code = codeOf(link.url)
      const { secret } = yield* use((sessions) => sessions.enter(code))
      const sql = yield* SqlClient.SqlClient
      assert.deepStrictEqual(
        yield* sql`select actor from audit_event where project_id = ${project_id}::uuid and action = 'console_link.made'`,
        [{ actor: "operator" }]
      )
      assert.strictEqual((yield* Effect.flip(use((sessions) => sessions.enter(code))))._tag, "WrongCredential")
      yield* TestClock.adjust("479 minutes")
      assert.isTrue(yield* isOpen(secret))
      yield* TestClock.adjust("1 minute")
      assert.isFalse(yield* isOpen(secret))
    })
  )

  it.effect("opens one session, however many try at once", () =>
    Effect.gen(function* () {
      const link = yield* use((sessions) => sessions.makeLink("operator", undefined))
      const tried = yield* Effect.forEach(
        [1, 2, 3, 4, 5],
        () => Effect.option(use((sessions) => sessions.enter(codeOf(link.url)))),
        { concurrency: "unbounded" }
      )
      assert.strictEqual(tried.filter(Option.isSome).length, 1)
    })
  )

  it.effect("works for five minutes, and only for a project that exists", () =>
    Effect.gen(function* () {
      const used = yield* use((sessions) => sessions.makeLink("operator", undefined))
      const link = yield* use((sessions) => sessions.makeLink("operator", undefined))
      yield* TestClock.adjust("299999 millis")
      yield* use((sessions) => sessions.enter(codeOf(used.url)))
      yield* TestClock.adjust("1 millis")
      assert.strictEqual(
        (yield* Effect.flip(use((sessions) => sessions.enter(codeOf(link.url)))))._tag,
        "WrongCredential"
      )
      const unknown = yield* Effect.flip(use((sessions) => sessions.makeLink("operator", crypto.randomUUID())))
      assert.strictEqual(unknown._tag, "project_not_found")
    })
  )

  it.effect("is not made while the console is switched off", () =>
    Effect.gen(function* () {
      const { services } = yield* instance({ SERVICE_CONSOLE: "off" })
      const refused = yield* Effect.flip(Context.get(services, Sessions).makeLink("operator", undefined))
      assert.strictEqual(refused._tag, "console_off")
    })
  )
})

test.effect("no cookie counts as wrong while the database is away", () =>
  Effect.gen(function* () {
    const { sessionOf } = yield* sessionCookie
    const codes = yield* Effect.forEach(Array.from({ length: 300 }), (_, n) =>
      Effect.map(Effect.flip(sessionOf({ cookies: { console_8787: `scs_${n}` } })), ({ _tag }) => _tag)
    )
    assert.deepStrictEqual([...new Set(codes)], ["bridge_persistence_error"])
  }).pipe(
    Effect.provideService(Caller, { address: "here", network: "here", userAgent: "" }),
    Effect.provide(
      Layer.mergeAll(
        Attempts.layer,
        Layer.mock(Sessions, { find: () => Effect.fail(refuse("bridge_persistence_error")) })
      ).pipe(
        Layer.provideMerge(RateLimit.layer),
        Layer.provide(
          Layer.sync(Shares, () => {
            const shareOf = () =>
              ({ connection: (one) => one, lookup: (one) => one, change: (one) => one }) satisfies Share
            return { known: shareOf, unknown: shareOf }
          })
        ),
        Layer.provideMerge(Settings.layer),
        Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({ ...environment, SERVICE_RATE_LIMITS: "on" })))
      )
    )
  )
)
