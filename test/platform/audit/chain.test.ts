/** The audit log is chained by hashes: what is changed in it afterwards is found (decisions.md, Evidence). */
import { assert, describe, it, layer } from "@effect/vitest"
import { Clock, Context, Deferred, Duration, Effect, Fiber, Layer, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { randomUUID } from "node:crypto"
import { Audit } from "../../../src/platform/audit/Audit.ts"
import { canonical, digestOf, headAfter } from "../../../src/platform/audit/ChainHash.ts"
import * as ChainStore from "../../../src/platform/audit/ChainStore.ts"
import { type KeptHead, keptHeads } from "../../../src/platform/audit/HeadsFile.ts"
import { linkOnce, newMemory } from "../../../src/platform/audit/Linker.ts"
import { Verification } from "../../../src/platform/audit/Verification.ts"
import { instance, Service } from "../../support/service/Service.ts"

type Replica = Effect.Success<ReturnType<typeof instance>>

/** Each test begins with an empty log. Times are real, because the log's rows must be older than ten seconds. */
const fresh = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  SqlClient.SqlClient.use((sql) =>
    Effect.forEach(
      [
        "truncate audit_event, audit_link, audit_chain, audit_chain_progress, audit_refusal_count, project cascade",
        "alter table audit_event enable trigger user"
      ],
      (statement) => sql.unsafe(statement).unprepared
    )
  ).pipe(Effect.andThen(self))

const ago = (seconds: number) => new Date(Date.now() - seconds * 1000)

/** Adds rows, a second apart; the last one is a minute old, or as old as told. Returns their ids, oldest first. */
const write = Effect.fnUntraced(function* (count: number, project_id: string | null = null, seconds = 60) {
  const { services } = yield* Service
  const audit = Context.get(services, Audit)
  const before = new Set(yield* eventIds)
  for (let i = count; i > 0; i--) {
    const event = { action: "project.created", actor: "operator", project_id, subject: { b: "2", a: "1" } }
    yield* Effect.provideContext(audit.done(ago(seconds + i), event), services)
  }
  return (yield* eventIds).filter((id) => !before.has(id))
})

const eventIds = SqlClient.SqlClient.use((sql) =>
  Effect.map(sql<{ id: string }>`select event_id as id from audit_event order by at, event_id`, (rows) =>
    rows.map(({ id }) => id)
  )
)

const makeProject = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const project_id = randomUUID()
  yield* sql`insert into project (project_id, name, created_at) values (${project_id}::uuid, 'p', now())`
  return project_id
})

const begin = Effect.flatMap(SqlClient.SqlClient, (sql) => ChainStore.make(sql).begin)

/** A turn of a replica, under the account that serves. */
const turn = ({ services }: Replica, memory = newMemory()) =>
  Effect.provideContext(Effect.andThen(begin, linkOnce(memory)), services)

const linkAll = Effect.flatMap(Service, (service) => turn(service))

const verify = Effect.fnUntraced(function* (
  asked: { project?: string; since?: Date; heads?: ReadonlyArray<KeptHead> } = {}
) {
  const { services } = yield* Service
  const { verify } = yield* Effect.provide(
    Effect.service(Verification),
    Verification.layer.pipe(Layer.provide(Layer.succeedContext(services))),
    { local: true }
  )
  return yield* verify({
    project: asked.project,
    since: asked.since,
    heads: Stream.fromIterable(asked.heads ?? [])
  }).pipe(Effect.updateService(Clock.Clock, looksAgainAtOnce))
})

/** A row without a link is looked for again three seconds later: here nobody links it meanwhile. */
const looksAgainAtOnce = (clock: Clock.Clock): Clock.Clock =>
  Object.assign(Object.create(clock), {
    sleep: (duration: Duration.Duration) => (Duration.toSeconds(duration) === 3 ? Effect.void : clock.sleep(duration))
  })

/** As the owner of the tables, whom nothing stops. */
const tamper = (...statements: ReadonlyArray<string>) =>
  SqlClient.SqlClient.use((sql) =>
    sql.withTransaction(
      Effect.forEach(["alter table audit_event disable trigger user", ...statements], (statement) =>
        Effect.orDie(sql.unsafe(statement).unprepared)
      )
    )
  )

/** Links the one row that has no link, and gives it a head: the account that serves may do so. */
const forge = Effect.fnUntraced(function* (at: Date) {
  const { services } = yield* Service
  const store = ChainStore.make(Context.get(services, SqlClient.SqlClient))
  const [row] = yield* store.unlinked({ at: "-infinity", event_id: noId }, { at: "infinity", event_id: noId })
  const [last] = yield* store.lastHeads(["all"])
  const [text, seq] = [canonical(row), last!.seq + 1]
  const hash = headAfter(last!.head)
  hash.add(text)
  yield* store.insertLinks([{ event_id: row!.event_id, at: row!.at, scope: "all", seq, digest: digestOf(text) }])
  yield* store.insertHeads([{ scope: "all", seq, head: hash.head(), at }], at)
})

const noId = "00000000-0000-0000-0000-000000000000"

/** The first finding, without what the test does not know. */
const found = Effect.fnUntraced(function* (asked?: Parameters<typeof verify>[0]) {
  const { broken, ok } = yield* verify(asked)
  assert.strictEqual(ok, broken.length === 0)
  const [first] = broken
  return first && [first.problem, first.seq, first.event_id]
})

const heads = SqlClient.SqlClient.use((sql) =>
  Effect.map(
    sql<{ scope: string; at: Date; count: number; head: string }>`
      select scope, at, seq::int as count, encode(head, 'hex') as head from audit_chain order by seq`,
    (rows) => rows as ReadonlyArray<KeptHead>
  )
)

layer(Service.layer, { excludeTestServices: true })("the audit log", (it) => {
  it.effect("is chained as a whole and per project, and verifies", () =>
    Effect.gen(function* () {
      const project = yield* makeProject
      yield* write(3)
      yield* write(2, project)
      assert.strictEqual(yield* linkAll, 5)
      // A deleted project keeps its chain.
      const sql = yield* SqlClient.SqlClient
      yield* sql`update project set disabled_at = now(), deleted_at = now() where project_id = ${project}::uuid`
      yield* write(1, project)
      assert.strictEqual(yield* linkAll, 1)
      assert.strictEqual(yield* linkAll, 0)
      const report = yield* verify()
      assert.deepStrictEqual(report, { ok: true, chains: 2, rows: 9, heads: 0, expired_heads: 0, broken: [] })
      // Of kept heads those of the chain are compared.
      const ofProject = yield* verify({ project, heads: yield* heads })
      assert.deepStrictEqual(ofProject, { ok: true, chains: 1, rows: 3, heads: 2, expired_heads: 0, broken: [] })
      assert.deepStrictEqual(
        (yield* heads).map(({ count, scope }) => [scope === "all", count]),
        [
          [false, 2],
          [false, 3],
          [true, 5],
          [true, 6]
        ]
      )
    }).pipe(fresh)
  )

  it.effect("names a row that was changed", () =>
    Effect.gen(function* () {
      const ids = yield* write(5)
      yield* linkAll
      yield* tamper(`update audit_event set actor = 'bridge:b' where event_id = '${ids[2]}'`)
      assert.deepStrictEqual(yield* found(), ["changed", 3, ids[2]!])
    }).pipe(fresh)
  )

  it.effect("names a row that was removed", () =>
    Effect.gen(function* () {
      const ids = yield* write(5)
      yield* linkAll
      yield* tamper(`delete from audit_event where event_id = '${ids[1]}'`)
      assert.deepStrictEqual(yield* found(), ["removed", 2, ids[1]!])
    }).pipe(fresh)
  )

  it.effect("says which row was removed together with its link", () =>
    Effect.gen(function* () {
      const ids = yield* write(5)
      yield* linkAll
      const remove = (id: string) =>
        tamper(`delete from audit_event where event_id = '${id}'`, `delete from audit_link where event_id = '${id}'`)
      yield* remove(ids[1]!)
      assert.deepStrictEqual(yield* found(), ["removed", 2, null])
    }).pipe(fresh)
  )

  it.effect("says that the last rows were removed together with their links", () =>
    Effect.gen(function* () {
      const ids = yield* write(5)
      yield* linkAll
      yield* tamper(
        `delete from audit_event where event_id = '${ids[4]}'`,
        `delete from audit_link where event_id = '${ids[4]}'`
      )
      assert.deepStrictEqual(yield* found(), ["removed", 5, null])
    }).pipe(fresh)
  )

  it.effect("names a row that was inserted without a link", () =>
    Effect.gen(function* () {
      const ids = yield* write(3)
      yield* linkAll
      const forged = randomUUID()
      yield* tamper(
        `insert into audit_event select '${forged}', at - interval '1 second', project_id, actor, action, outcome, code,
         subject, address, user_agent from audit_event where event_id = '${ids[0]}'`
      )
      assert.deepStrictEqual(yield* found(), ["unlinked", null, forged])
    }).pipe(fresh)
  )

  it.effect("names a row that was inserted with a link, among the others or after them", () =>
    Effect.gen(function* () {
      const ids = yield* write(3)
      yield* linkAll
      const forge = (id: string, seq: number) =>
        tamper(
          `insert into audit_event select '${id}', at, project_id, actor, action, outcome, code, subject, address,
           user_agent from audit_event where event_id = '${ids[1]}'`,
          `insert into audit_link select '${id}', at, scope, ${seq}, digest from audit_link where event_id = '${ids[1]}'`
        )
      const last = "ffffffff-0000-7000-8000-000000000000"
      yield* forge(last, 2)
      // Its digest is that of the row that it was copied from.
      assert.deepStrictEqual(yield* found(), ["changed", 2, last])
      yield* tamper(
        `update audit_link set digest = substring(sha256('') for 8) where event_id = '${last}'`,
        `delete from audit_event where event_id = '${last}'`
      )
      assert.deepStrictEqual(yield* found(), ["removed", 2, last])
      yield* tamper(`delete from audit_link where event_id = '${last}'`)
      assert.isUndefined(yield* found())
      yield* tamper(`update audit_link set seq = 4 where event_id = '${ids[2]}'`)
      assert.deepStrictEqual(yield* found(), ["removed", 3, null])
    }).pipe(fresh)
  )

  it.effect("names a link that has the number of another one", () =>
    Effect.gen(function* () {
      const ids = yield* write(3)
      yield* linkAll
      yield* tamper(`update audit_link set seq = 1 where event_id = '${ids[1]}'`)
      assert.deepStrictEqual(yield* found(), ["inserted", 1, ids[1]!])
    }).pipe(fresh)
  )

  it.effect("names a link that no head covers", () =>
    Effect.gen(function* () {
      const ids = yield* write(3)
      yield* linkAll
      yield* tamper("delete from audit_chain where seq = 3")
      assert.deepStrictEqual(yield* found(), ["inserted", 1, ids[0]!])
    }).pipe(fresh)
  )

  it.effect("names a row that was moved to another place, within a block and between blocks", () =>
    Effect.gen(function* () {
      const ids = yield* write(3)
      yield* linkAll
      yield* tamper("update audit_link set seq = case seq when 2 then 3 when 3 then 2 else seq end")
      assert.deepStrictEqual(yield* found(), ["reordered", 3, ids[1]!])
      yield* tamper("update audit_link set seq = case seq when 2 then 3 when 3 then 2 else seq end")
      assert.isUndefined(yield* found())
      const later = yield* write(3)
      yield* linkAll
      yield* tamper("update audit_link set seq = case seq when 1 then 4 when 4 then 1 else seq end")
      assert.deepStrictEqual(yield* found(), ["head_differs", 1, later[0]!])
    }).pipe(fresh)
  )

  it.effect("says which block was changed together with its links", () =>
    Effect.gen(function* () {
      yield* write(3)
      yield* linkAll
      const ids = yield* write(3)
      yield* linkAll
      yield* tamper("update audit_chain set head = sha256(head) where seq = 6")
      assert.deepStrictEqual(yield* found(), ["head_differs", 4, ids[0]!])
    }).pipe(fresh)
  )

  it.effect("shows by heads that somebody else kept that it was recomputed as a whole", () =>
    Effect.gen(function* () {
      const ids = yield* write(4)
      yield* linkAll
      const kept = yield* heads
      assert.deepInclude(yield* verify({ heads: kept }), { ok: true, heads: 1 })
      const beforeRetention = kept.map((head) => ({ ...head, at: ago(401 * 86_400) }))
      const recompute = tamper(
        "truncate audit_link, audit_chain",
        "update audit_chain_progress set linked_before = null"
      ).pipe(Effect.andThen(linkAll))

      yield* tamper(`update audit_event set actor = 'bridge:b' where event_id = '${ids[2]}'`)
      yield* recompute
      assert.isUndefined(yield* found())
      assert.deepStrictEqual(yield* found({ heads: kept }), ["head_differs", 4, null])
      // Retention drops whole months, so the rows of an older head may still be here.
      assert.deepInclude(yield* verify({ heads: beforeRetention }), { ok: false, heads: 1, expired_heads: 0 })

      yield* tamper(`delete from audit_event where event_id = '${ids[2]}'`)
      yield* recompute
      assert.isUndefined(yield* found())
      assert.deepStrictEqual(yield* found({ heads: kept }), ["head_missing", 4, null])
      assert.deepInclude(yield* verify({ heads: beforeRetention }), { ok: true, heads: 0, expired_heads: 1 })
    }).pipe(fresh)
  )

  it.effect("is verified from the last head before an instant", () =>
    Effect.gen(function* () {
      const ids = yield* write(3)
      yield* linkAll
      yield* tamper("update audit_chain set at = at - interval '40 seconds'")
      yield* write(2)
      yield* linkAll
      assert.deepInclude(yield* verify({ since: ago(30) }), { ok: true, rows: 2 })
      yield* tamper(`update audit_event set actor = 'bridge:b' where event_id = '${ids[0]}'`)
      assert.isUndefined(yield* found({ since: ago(30) }))
      assert.deepStrictEqual(yield* found(), ["changed", 1, ids[0]!])
    }).pipe(fresh)
  )

  it.effect("links a row that was committed long after its neighbours in a later block", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const sql = yield* SqlClient.SqlClient
      const memory = newMemory()
      const [written, commit] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const late = randomUUID()
      const slow = yield* sql
        .withTransaction(
          Effect.gen(function* () {
            yield* sql`
              insert into audit_event (event_id, at, actor, action, outcome, subject, address, user_agent)
              values (${late}::uuid, ${ago(300)}, 'operator', 'project.imported', 'done', '{}', '', '')`
            yield* Deferred.succeed(written, undefined)
            yield* Deferred.await(commit)
          })
        )
        .pipe(Effect.forkChild)
      yield* Deferred.await(written)
      yield* write(3)
      assert.strictEqual(yield* turn(service, memory), 3)
      yield* write(2)
      assert.strictEqual(yield* turn(service, memory), 2)
      yield* Deferred.succeed(commit, undefined)
      yield* Fiber.join(slow)
      assert.strictEqual(yield* turn(service, memory), 1)
      assert.isUndefined(yield* found())
      assert.deepStrictEqual(yield* sql`select seq::int from audit_link where event_id = ${late}::uuid`, [{ seq: 6 }])
    }).pipe(fresh)
  )

  it.effect("names a row of a project whose chain is gone", () =>
    Effect.gen(function* () {
      const project = yield* makeProject
      const [id] = yield* write(1, project)
      yield* linkAll
      yield* tamper("delete from audit_link where scope <> 'all'", "delete from audit_chain where scope <> 'all'")
      assert.deepStrictEqual(yield* found(), ["unlinked", null, id!])
    }).pipe(fresh)
  )

  it.effect("gives heads away once an hour, and although they are said to be given away in the future", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* write(1)
      yield* linkAll
      yield* sql`update audit_chain_progress set heads_logged_at = now() + interval '1 year'`
      yield* linkAll
      assert.deepStrictEqual(
        yield* sql`select heads_logged_at < now() + interval '1 hour' as again from audit_chain_progress`,
        [{ again: true }]
      )

      // After the first turn of a process they are due once an hour.
      const [service, memory] = [yield* Service, newMemory()]
      yield* turn(service, memory)
      for (const [minutes, again] of [
        [59, false],
        [60, true]
      ] as const) {
        yield* sql`update audit_chain_progress set heads_logged_at = now() - ${minutes} * interval '1 minute'`
        yield* turn(service, memory)
        const given =
          yield* sql`select heads_logged_at > now() - interval '1 minute' as again from audit_chain_progress`
        assert.deepStrictEqual(given, [{ again }])
      }
    }).pipe(fresh)
  )

  it.effect("does not link a row that was dated back, whatever the account that serves says", () =>
    Effect.gen(function* () {
      const { services } = yield* Service
      yield* write(3)
      yield* linkAll
      const [old] = yield* write(1, null, 86_400)
      const serving = Context.get(services, SqlClient.SqlClient)
      yield* serving`update audit_chain_progress set linked_before = null`
      assert.strictEqual(yield* linkAll, 0)
      assert.deepStrictEqual(yield* found(), ["unlinked", null, old!])
    }).pipe(fresh)
  )

  it.effect("names a linked row whose time is before that of rows linked earlier, or after its head", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const day = 86_400
      yield* write(3, null, 3 * day)
      yield* linkAll
      // Linked late, but in the order of their time, as after an upgrade that was interrupted.
      yield* write(3, null, day)
      yield* sql`update audit_chain_progress set linked_before = null`
      yield* linkAll
      assert.isUndefined(yield* found())
      const old = yield* write(1, null, 2 * day)
      yield* forge(new Date())
      assert.deepStrictEqual(yield* found(), ["misdated", 7, old[0]!])
      yield* tamper(
        "delete from audit_chain where seq = 7",
        "delete from audit_link where seq = 7",
        `delete from audit_event where event_id = '${old[0]}'`
      )
      const ahead = yield* write(1, null, -2 * day)
      yield* forge(new Date())
      assert.deepStrictEqual(yield* found(), ["misdated", 7, ahead[0]!])
      yield* tamper("update audit_chain set at = at - interval '1 hour' where seq = 6")
      const fourth = yield* sql<{ id: string }>`select event_id as id from audit_link where seq = 4`
      assert.deepStrictEqual(yield* found(), ["misdated", 4, fourth[0]!.id])
    }).pipe(fresh)
  )

  it.effect("is linked by one of two replicas at a time, each row once", () =>
    Effect.gen(function* () {
      const one = yield* Service
      const other = yield* instance()
      const sql = yield* SqlClient.SqlClient
      yield* turn(one)
      // While one has the turn, the other does not wait.
      const held = yield* sql.withTransaction(
        Effect.andThen(sql`select from audit_chain_progress for update`, turn(other))
      )
      assert.isUndefined(held)
      const memories = [newMemory(), newMemory()]
      for (let round = 0; round < 10; round++) {
        yield* Effect.all([write(20, null, -20), turn(one, memories[0]), turn(other, memories[1])], {
          concurrency: "unbounded"
        })
      }
      yield* turn(one, memories[0])
      assert.deepInclude(yield* verify(), { ok: true, rows: 200 })
    }).pipe(fresh)
  )

  it.effect("is linked after the migration in bounded pieces, oldest first, and each turn ends soon", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const sql = yield* SqlClient.SqlClient
      const rows = 30_000
      yield* sql`
        insert into audit_event (event_id, at, actor, action, outcome, subject, address, user_agent)
        select gen_random_uuid(), now() - interval '1 hour' * i, 'operator', 'project.created', 'done', '{}', '', ''
          from generate_series(1, ${rows}::int) i`
      const memory = newMemory()
      let linked = 0
      let turns = 0
      while (linked < rows) {
        const started = performance.now()
        linked += (yield* turn(service, memory)) ?? 0
        assert.isBelow(performance.now() - started, 5000)
        assert.isBelow(++turns, 100)
      }
      const order = yield* sql`
        select count(*)::int as swapped
          from (select at < lag(at) over (order by seq) as earlier from audit_link where scope = 'all') l
         where earlier`
      assert.deepStrictEqual(order, [{ swapped: 0 }])
      assert.deepInclude(yield* verify(), { ok: true, rows })
    }).pipe(fresh)
  )

  it.effect("survives a turn whose transaction fails", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const memory = newMemory()
      yield* write(3)
      yield* tamper("alter table audit_chain add constraint no_more check (seq < 3) not valid")
      assert.isTrue((yield* Effect.exit(turn(service, memory)))._tag === "Failure")
      yield* tamper("alter table audit_chain drop constraint no_more")
      assert.strictEqual(yield* turn(service, memory), 3)
      assert.isUndefined(yield* found())
    }).pipe(fresh)
  )
})

layer(Service.layer, { excludeTestServices: true })("the account that serves", (it) => {
  it.effect("adds audit rows, links and heads, and neither changes nor deletes any", () =>
    Effect.gen(function* () {
      const { services } = yield* Service
      yield* write(2)
      yield* linkAll
      const sql = Context.get(services, SqlClient.SqlClient)
      const refused = Effect.fnUntraced(function* (statement: string) {
        const { reason } = yield* Effect.flip(sql.unsafe(statement).unprepared)
        assert.strictEqual(reason._tag, "AuthorizationError", statement)
      })
      const [row] = yield* sql<{ partition: string }>`
        select tableoid::regclass::text as partition from audit_event limit 1`
      const { partition } = row!
      for (const table of ["audit_event", "audit_link", "audit_chain", partition]) {
        yield* refused(`delete from ${table}`)
        yield* refused(`truncate ${table}`)
        yield* refused(`drop table ${table}`)
        yield* refused(`alter table ${table} disable trigger all`)
      }
      yield* refused("update audit_event set actor = ''")
      yield* refused("update audit_link set seq = 9")
      yield* refused("update audit_chain set seq = 9")
      yield* refused(`insert into ${partition} select * from audit_event`)
      yield* refused("select extend_audit_log('2100-01-01')")
      assert.lengthOf(yield* eventIds, 2)
    }).pipe(fresh)
  )

  it.effect("of a service that owns its tables cannot change a row by mistake either", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* write(1)
      for (const statement of ["update audit_event set actor = ''", "delete from audit_event"]) {
        assert.strictEqual((yield* Effect.flip(sql.unsafe(statement))).reason._tag, "AuthorizationError")
      }
    }).pipe(fresh)
  )
})

describe("a file of heads", () => {
  const head = "ab".repeat(32)
  const at = "2026-11-23T00:00:00.000Z"
  const attribute = (key: string, value: object) => ({ key, value })
  const lines = [
    JSON.stringify({ message: "Audit head", level: "INFO", annotations: { scope: "all", at, count: 7, head } }),
    `Nov 23 00:00:00 host bridge[1]: ${JSON.stringify({ annotations: { scope: "all", at, count: 8, head } })}`,
    JSON.stringify({
      resourceLogs: [
        {
          scopeLogs: [
            {
              logRecords: [
                {
                  attributes: [
                    attribute("scope", { stringValue: "all" }),
                    attribute("at", { stringValue: at }),
                    attribute("count", { intValue: "9" }),
                    attribute("head", { stringValue: head })
                  ]
                }
              ]
            }
          ]
        }
      ]
    }),
    JSON.stringify({ message: "Ready", annotations: { head: "no head" } }),
    "head {not JSON",
    ""
  ]

  it.effect("may be lines of the log, of the journal, or of an OpenTelemetry collector; others are skipped", () =>
    Effect.gen(function* () {
      const found = yield* Stream.runCollect(keptHeads(Stream.make(Buffer.from(lines.join("\n")))))
      assert.deepStrictEqual(
        [...found].map(({ count, scope }) => [scope, count]),
        [
          ["all", 7],
          ["all", 8],
          ["all", 9]
        ]
      )
    })
  )
})
