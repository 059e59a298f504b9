/**
 * What a page of the console reads does not depend on how much is stored: its lists are read by index, page by page.
 * What a rotation reads does not depend on how many others there are, nor the search beside a write on how many entries
 * are alike. Counted by PostgreSQL on a filled database.
 */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import * as DocumentStore from "../../../src/agents/documents/DocumentStore.ts"
import { searchText } from "../../../src/agents/memory/Search.ts"
import * as SearchStore from "../../../src/agents/memory/SearchStore.ts"
import * as TaskStore from "../../../src/agents/tasks/TaskStore.ts"
import * as CredentialStore from "../../../src/bridges/enrollment/CredentialStore.ts"
import * as BridgeStore from "../../../src/bridges/identity/BridgeStore.ts"
import * as ConfirmOrAbortStore from "../../../src/bridges/rotation/ConfirmOrAbortStore.ts"
import * as PrepareStore from "../../../src/bridges/rotation/PrepareStore.ts"
import * as ProjectStore from "../../../src/operator/projects/ProjectStore.ts"
import * as ChannelStore from "../../../src/people/channels/ChannelStore.ts"
import * as SubjectStore from "../../../src/people/console/activity/SubjectStore.ts"
import { sentences } from "../../../src/people/console/activity/Sentences.ts"
import * as ErasureStore from "../../../src/people/erasure/ErasureStore.ts"
import * as GaugesStore from "../../../src/people/operator/GaugesStore.ts"
import * as DeviceStore from "../../../src/people/mobile/DeviceStore.ts"
import * as AuditStore from "../../../src/platform/audit/AuditStore.ts"
import { sha256 } from "../../../src/platform/crypto/Sha256.ts"
import * as PushAdminStore from "../../../src/push/admin/PushAdminStore.ts"
import * as DeviceFeedbackStore from "../../../src/push/delivery/DeviceFeedbackStore.ts"
import * as LeaseStore from "../../../src/push/delivery/LeaseStore.ts"
import * as OutboxStore from "../../../src/push/outbox/OutboxStore.ts"
import * as ProjectTokenStore from "../../../src/signin/access/ProjectTokenStore.ts"
import * as ClientStore from "../../../src/signin/oauth/clients/ClientStore.ts"
import * as GrantStore from "../../../src/signin/oauth/grants/GrantStore.ts"
import * as SessionStore from "../../../src/signin/sessions/SessionStore.ts"
import { asJson, initialPreferences } from "../../../src/wire/mobile/Notifications.ts"
import { bigProject, fill } from "../../support/database/Fill.ts"
import { TestDatabase } from "../../support/database/TestDatabase.ts"

const now = new Date()
const page = { after: undefined, limit: 51 }
/** Its tasks are closed but for a few. */
const other = "00000000-0001-7000-8000-000000000001"
const actions = Object.keys(sentences)
const [oldTask, oldToken] = ["0f0f0000-0000-7000-8000-000000000001", "0f0f0000-0000-7000-8000-000000000002"]
const oldChannel = "0f0f0000-0000-7000-8000-000000000007"
/** The first one of the second token. */
const [oldGrant, grantsToken] = ["00000000-0001-7000-8000-00000000000d", "00000000-0002-7000-8000-000000000002"]

/** Of the project of all identities. */
const rungChannel = "00000000-0001-7000-8000-00000000001a"
const [rungPhone, rungProject] = ["00000000-0001-7000-8000-000000000012", "00000000-0002-7000-8000-000000000001"]
const [crowdedPhone, crowdedProject] = ["00000000-0002-7000-8000-000000000012", "00000000-0003-7000-8000-000000000001"]
const [loudBrowser, loudProject] = ["00000000-0005-7000-8000-000000000014", "00000000-0006-7000-8000-000000000001"]
const quietBrowser = "00000000-0006-7000-8000-000000000014"

/** Old rows that a filter has to find behind everything that is newer. */
const filled = Layer.effectDiscard(
  Effect.gen(function* () {
    yield* fill(20_000, { projects: 20_000, audit: 40_000, entries: 2_000 })
    const sql = yield* SqlClient.SqlClient
    yield* sql`
      insert into audit_event (event_id, at, project_id, actor, action, outcome, subject, address, user_agent)
      select gen_random_uuid(), clock_timestamp() - interval '10 days' - i * interval '1 second', ${bigProject}::uuid,
             ${`project_token:${oldToken}`}, (array['task.created', 'task.updated'])[i % 2 + 1], 'done',
             jsonb_build_object('task_id', ${oldTask}::text), '127.0.0.1', 'test'
        from generate_series(1, 100) i`
    yield* sql`
      insert into audit_event (event_id, at, project_id, actor, action, outcome, subject, address, user_agent)
      select gen_random_uuid(), clock_timestamp() - interval '10 days' - i * interval '1 second', ${bigProject}::uuid,
             'operator:' || i, 'channel.created', 'done',
             jsonb_build_object('channel_id', case when i % 20 = 0 then ${oldChannel}::text else i::text end), '127.0.0.1',
             'test'
        from generate_series(1, 2000) i`
    yield* sql`
      insert into task (project_id, id, title, body, status, priority, tags, version, created_by, created_at, updated_at)
      select ${bigProject}::uuid, gen_random_uuid(), 'Task ' || i, '', 'open', i % 5, '{}', 1, 'operator', clock_timestamp(),
             clock_timestamp() - i * interval '1 second'
        from generate_series(1, 20000) i`
    yield* sql`
      insert into task (project_id, id, title, body, status, priority, tags, version, created_by, created_at, updated_at,
                        closed_at)
      select ${other}::uuid, gen_random_uuid(), 'Task ' || i, '', case when i % 1000 = 0 then 'open' else 'done' end, i % 5,
             '{}', 1, 'operator', clock_timestamp(), clock_timestamp() - i * interval '1 second',
             case when i % 1000 > 0 then clock_timestamp() end
        from generate_series(1, 20000) i`
    yield* sql`
      insert into memory_entry (project_id, id, kind, title, body, tags, actor, role, created_at)
      select ${bigProject}::uuid, gen_random_uuid(), 'note', 'Note ' || i, 'Text', '{}', 'operator', 'operator',
             clock_timestamp() - i * interval '1 second'
        from generate_series(1, 20000) i`
    yield* sql`
      insert into memory_posting (project_id, lexeme, entry_id, tf, dl)
      select project_id, unnest(array['text', id::text]), id, 1, 2
        from memory_entry
       where project_id = ${bigProject}::uuid
         and body = 'Text'`
    // Of one token and one client: half of them ended, and to the others no client came.
    yield* sql`
      insert into oauth_grant (
        grant_id, client_id, project_id, project_token_id, scopes, resource, instance_id, redirect_uri, created_at,
        activated_at, expires_at, revoked_at, end_reason)
      select gen_random_uuid(), client_id, project_id, project_token_id, scopes, resource, instance_id, redirect_uri,
             created_at, case when i % 2 = 0 then activated_at end, expires_at, case when i % 2 = 0 then created_at end,
             case when i % 2 = 0 then 'test' end
        from oauth_grant
       cross join generate_series(1, 5000) i
       where grant_id = ${oldGrant}::uuid`
    // A phone that has often been told about one task.
    yield* sql`
      update mobile_device
         set preferences = '{"kinds": {}, "minimum_priority": "low"}'
       where device_id = ${rungPhone}::uuid`
    yield* sql`
      insert into push_outbox (delivery_id, event_id, device_id, project_id, kind, reference, priority, collapse_key, state,
                               not_before, expires_at, created_at, settled_at)
      select gen_random_uuid(), gen_random_uuid(), ${rungPhone}::uuid, ${rungProject}::uuid, 'task.blocked', ${oldTask}::uuid, 1,
             't:' || ${oldTask}::text, 'delivered', at, at, at, at
        from generate_series(clock_timestamp() - interval '3 days', clock_timestamp(), interval '5 seconds') at`
    // A channel that has often been told of something else.
    yield* sql`
      insert into push_outbox (delivery_id, event_id, device_id, project_id, kind, priority, collapse_key, state, not_before,
                               expires_at, created_at, settled_at)
      select gen_random_uuid(), gen_random_uuid(), ${rungChannel}::uuid, ${bigProject}::uuid, 'task.blocked', 1, 't:' || at,
             'delivered', at, at, at, at
        from generate_series(clock_timestamp() - interval '3 days', clock_timestamp(), interval '1 minute') at`
    yield* sql`vacuum analyze`.unprepared
  })
)

type Run = (sql: SqlClient.SqlClient) => Effect.Effect<unknown, unknown>
const audit = (project_id: string | undefined, filter: AuditStore.Filter, found: number) =>
  ((sql) =>
    Effect.map(AuditStore.make(sql).list(project_id, page, filter), ({ length }) =>
      assert.strictEqual(length, found)
    )) satisfies Run

const lists: Readonly<Record<string, Run>> = {
  "activity of all": audit(undefined, {}, 51),
  "activity of all, refused": audit(undefined, { refused: true }, 51),
  "activity of all in a week": audit(
    undefined,
    { from: new Date(now.getTime() - 864e6), until: new Date(now.getTime() - 600e6) },
    51
  ),
  activity: audit(bigProject, {}, 51),
  "activity by kind": audit(bigProject, { actions: ["task.created", "task.updated"] }, 51),
  "activity by a kind that never happened": audit(bigProject, { actions: ["document.pinned"] }, 0),
  "activity of an actor": audit(bigProject, { actions, about: oldToken }, 51),
  "activity of a task": audit(bigProject, { actions, about: oldTask }, 51),
  "activity of a task by kind": audit(bigProject, { actions: ["task.answered"], about: oldTask }, 0),
  "activity of a channel": audit(bigProject, { actions, about: oldChannel }, 51),
  "activity of nobody": audit(bigProject, { actions, about: "nobody" }, 0),
  "activity that was refused": audit(bigProject, { refused: true }, 51),
  tasks: (sql) => TaskStore.make(sql).list(bigProject, {}, { order: "priority", keys: undefined }, 50),
  "tasks by their last change": (sql) =>
    TaskStore.make(sql).list(bigProject, {}, { order: "updated", keys: undefined }, 50),
  "open tasks": (sql) =>
    TaskStore.make(sql).list(bigProject, { status: ["open"] }, { order: "priority", keys: undefined }, 20),
  "tasks in progress, of which there are few": (sql) =>
    TaskStore.make(sql).list(bigProject, { status: ["in_progress"] }, { order: "priority", keys: undefined }, 20),
  "tasks that were closed lately": (sql) =>
    TaskStore.make(sql).list(bigProject, { status: ["done", "cancelled"] }, { order: "updated", keys: undefined }, 20),
  "unfinished tasks, of which there are few": (sql) =>
    TaskStore.make(sql).list(
      other,
      { status: ["open", "in_progress", "blocked"] },
      { order: "priority", keys: undefined },
      50
    ),
  "tasks at work, of which there are few": (sql) =>
    TaskStore.make(sql).list(other, { status: ["in_progress"] }, { order: "updated", keys: undefined }, 10),
  memory: (sql) => SearchStore.make(sql).recent(bigProject, {}, undefined, 25),
  documents: (sql) => DocumentStore.make(sql).list(bigProject, page),
  "project tokens": (sql) => ProjectTokenStore.make(sql).list(bigProject, page, now),
  "sign-ins of a project": (sql) => GrantStore.make(sql).list(bigProject, page, now),
  "sign-ins": (sql) => GrantStore.make(sql).list(undefined, page, now),
  clients: (sql) => ClientStore.make(sql).list(page, now),
  channels: (sql) =>
    Effect.map(ChannelStore.make(sql).list(bigProject, page), (channels) => {
      assert.lengthOf(channels, 10)
      assert.strictEqual(channels.at(-1)!.last_state, "delivered")
    }),
  phones: (sql) => DeviceStore.make(sql).list(bigProject, page),
  Bridges: (sql) => BridgeStore.make(sql).listByEnd(bigProject, page),
  "Bridges in the middle": (sql) => BridgeStore.make(sql).listByEnd(bigProject, { ...page, after: "bridge-9999" }),
  "Bridges that enroll, behind all others": (sql) =>
    BridgeStore.make(sql).listByEnd(bigProject, { ...page, after: "bridge-1000" }),
  "Bridges of all": (sql) => BridgeStore.make(sql).listAllByEnd(page),
  "Bridges of all in the middle": (sql) =>
    BridgeStore.make(sql).listAllByEnd({ ...page, after: "00000000-270f-7000-8000-000000000004" }),
  "Bridges that end soon, of which there are none": (sql) =>
    BridgeStore.make(sql).listEnding(bigProject, 0.8, now, new Date(now.getTime() + 36e6), 11),
  "waiting credentials": (sql) => CredentialStore.make(sql).listWaiting(page, now),
  browsers: (sql) => SessionStore.make(sql).list(undefined, page, now),
  "dead letters": (sql) => PushAdminStore.make(sql).listDead(page),
  projects: (sql) => ProjectStore.make(sql).list(page),
  "account references": (sql) => ProjectStore.make(sql).listReferences(bigProject, page),
  titles: (sql) => SubjectStore.make(sql).titles([bigProject], [oldTask])
}

const trace = { event_id: "0f0f0000-0000-7000-8000-000000000003", at: now, address: "127.0.0.1", user_agent: "test" }
const successor = {
  rotation_id: "0f0f0000-0000-7000-8000-000000000004",
  successor_id: "0f0f0000-0000-7000-8000-000000000005",
  successor_hash: sha256("successor"),
  derivation_salt: sha256("salt"),
  key_id: "k",
  confirmation_expires_at: new Date(now.getTime() + 300_000)
}
const acted = Effect.map(([result]: ReadonlyArray<Option.Option<unknown>>) => assert.isTrue(Option.isSome(result!)))

/** The hundred-and-first Bridge has a pending successor, as 199 others have; the third has none. */
const changes: Readonly<Record<string, Run>> = {
  "a prepare": (sql) => {
    const allowed = { rotations: 60, since: new Date(now.getTime() - 3_600_000) }
    const keys = { presented_hash: sha256("3 token 2"), prepare_key_hash: sha256("key") }
    return acted(PrepareStore.make(sql).prepare([{ ...keys, successor, allowed, trace }], "skip locked"))
  },
  "a confirm": (sql) => {
    const request = { token_hash: sha256("101 token 3"), rotation_id: "00000000-0065-7000-8000-00000000000c" }
    const own = { ...trace, event_id: "0f0f0000-0000-7000-8000-000000000006" }
    const ending = { ...request, key_hash: sha256("key"), expires_at: now, trace: own }
    return acted(ConfirmOrAbortStore.make(sql).confirm([ending], "skip locked"))
  },
  "room for a sign-in": (sql) =>
    Effect.map(GrantStore.make(sql).endBeyond(grantsToken, 9, now), (ended) => assert.lengthOf(ended, 1))
}

layer(filled.pipe(Layer.provideMerge(TestDatabase.sql)), { timeout: 180_000 })("on a filled database", (it) => {
  const readSoFar = Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const [read] = yield* sql<{ scanned: number; entries: number }>`
      select (select sum(seq_tup_read)::int from pg_stat_xact_user_tables) as scanned,
             (select sum(pg_stat_get_xact_tuples_returned(indexrelid))::int from pg_stat_user_indexes) as entries`
    return read!
  })

  const readBy = Effect.fnUntraced(function* (run: Run) {
    const sql = yield* SqlClient.SqlClient
    const read = Effect.gen(function* () {
      const before = yield* readSoFar
      yield* run(sql)
      const { entries, scanned } = yield* readSoFar
      return { scanned: scanned - before.scanned, entries: entries - before.entries }
    })
    return yield* sql.withTransaction(read)
  })

  it.effect.each(Object.entries(lists))("%s are read by index, a page at a time", ([name, run]) =>
    Effect.gen(function* () {
      const { entries, scanned } = yield* readBy(run)
      assert.isAtMost(scanned, 100, name)
      assert.isAtMost(entries, 1000, name)
    })
  )

  it.effect.each(Object.entries(changes))("%s reads what belongs to its token, and nothing else", ([name, run]) =>
    Effect.gen(function* () {
      const { entries, scanned } = yield* readBy(run)
      assert.isAtMost(scanned, 10, name)
      assert.isAtMost(entries, 60, name)
    })
  )

  it.effect("a notification reads the phones of its project, and the last ones about its task", () =>
    Effect.gen(function* () {
      const event_id = "0f0f0000-0000-7000-8000-000000000008"
      const notice = { kind: "task.blocked", event_id, project_id: rungProject, about: oldTask } as const
      const { entries, scanned } = yield* readBy((sql) =>
        Effect.map(OutboxStore.make(sql).enqueue(now, notice), (notified) => assert.lengthOf(notified, 1))
      )
      assert.isAtMost(scanned, 10)
      assert.isAtMost(entries, 200)
    })
  )

  it.effect("the state of notifications is counted among the last ones, in the order of an index", () =>
    Effect.gen(function* () {
      const { entries, scanned } = yield* readBy((sql) =>
        Effect.map(PushAdminStore.make(sql).countStates, (states) => {
          const settled = states.filter(({ state }) => state !== "pending")
          assert.strictEqual(
            settled.reduce((sum, { count }) => sum + count, 0),
            PushAdminStore.mostCounted
          )
        })
      )
      assert.isAtMost(scanned, 100)
      assert.isAtMost(entries, 11_000)
    })
  )

  it.effect("the oldest notification that is due is found in the order of an index", () =>
    Effect.gen(function* () {
      const { entries, scanned } = yield* readBy((sql) => PushAdminStore.make(sql).oldestDue(now))
      assert.isAtMost(scanned, 10)
      assert.isAtMost(entries, 10)
    })
  )

  it.effect("answers of an environment that gets none are looked for among the last deliveries", () =>
    Effect.gen(function* () {
      const { entries, scanned } = yield* readBy((sql) =>
        Effect.map(DeviceFeedbackStore.make(sql).countBadTokens("production"), (counted) =>
          assert.deepStrictEqual(Option.getOrThrow(counted), { devices: 0, bad: 0 })
        )
      )
      assert.isAtMost(scanned + entries, 15_000)
    })
  )

  it.effect("the entries that are similar to a new one are found among the newest, however many have its word", () =>
    Effect.gen(function* () {
      const { entries, scanned } = yield* readBy((sql) =>
        Effect.map(
          SearchStore.make(sql).similar(
            bigProject,
            { beginning: searchText("Text"), replaced: null, whole: searchText("Text") },
            4
          ),
          ({ length }) => assert.strictEqual(length, 4)
        )
      )
      assert.isAtMost(scanned, 100)
      assert.isAtMost(entries, 5000)
    })
  )

  it.effect("the gauges read what each project uses, and nothing else as a whole", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const scanned = sql<{ readonly table: string; readonly read: number }>`
        select relname as table, seq_tup_read::int as read from pg_stat_xact_user_tables where seq_tup_read > 100`
      const gauges = Effect.andThen(GaugesStore.make(sql).measure(now, now), scanned)
      const tables = (yield* sql.withTransaction(gauges)).map(({ table }) => table)
      assert.deepStrictEqual(tables, ["project_usage"])
    })
  )

  it.effect("a notification for a phone for which thousands wait reads 400 of them, and supersedes a hundred", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        update mobile_device
           set preferences = '{"kinds": {}, "minimum_priority": "low"}'
         where device_id = ${crowdedPhone}::uuid`
      yield* sql`
        insert into push_outbox (delivery_id, event_id, device_id, project_id, kind, priority, collapse_key, state, not_before,
                                 expires_at, created_at)
        select gen_random_uuid(), gen_random_uuid(), ${crowdedPhone}::uuid, ${crowdedProject}::uuid, 'task.blocked', 2,
               't:' || gen_random_uuid()::text, 'pending', at + interval '1 day', at + interval '1 day', at
          from generate_series(clock_timestamp() - interval '20 hours', clock_timestamp(), interval '20 seconds') at`
      const event_id = "0f0f0000-0000-7000-8000-000000000009"
      const notice = { kind: "task.blocked", event_id, project_id: crowdedProject, about: oldTask } as const
      const { entries, scanned } = yield* readBy((sql) => OutboxStore.make(sql).enqueue(now, notice))
      assert.isAtMost(scanned, 10)
      assert.isAtMost(entries, 1000)
      assert.lengthOf(yield* sql`select from push_outbox where state = 'superseded'`, 100)
    })
  )

  it.effect("a claim reads what it takes, and one index entry for each notification that it leaves out", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        update mobile_device
           set preferences = ${asJson(initialPreferences)}::jsonb
         where device_id in (${loudBrowser}::uuid, ${quietBrowser}::uuid)`
      yield* sql`
        insert into push_outbox (delivery_id, event_id, device_id, project_id, kind, priority, collapse_key, state, not_before,
                                 expires_at, created_at)
        select gen_random_uuid(), gen_random_uuid(), d.device_id, d.project_id, 'task.needs_decision', 3, 't:' || i, 'pending',
               at, at + interval '1 day', at
          from mobile_device d
         cross join generate_series(1, 15000) i
         cross join lateral (select clock_timestamp() - interval '1 hour' - i * interval '1 second' as at) written
         where d.device_id = ${loudBrowser}::uuid
            or (d.device_id = ${quietBrowser}::uuid and i = 1)`
      yield* sql`analyze push_outbox`.unprepared
      const lease = { token: "0f0f0000-0000-7000-8000-00000000000a", until: new Date(now.getTime() + 30_000) }
      const claiming = (projects: ReadonlyArray<string>, found: number) =>
        readBy((sql) =>
          Effect.map(LeaseStore.make(sql).claim("web", 25, lease, now, { projects }), (claimed) =>
            assert.lengthOf(claimed, found)
          )
        )
      // Devices and tokens may be scanned, of which there are few here, but no notifications.
      const ofAll = yield* claiming([], 25)
      assert.isAtMost(ofAll.scanned, 5000)
      assert.isAtMost(ofAll.entries, 500)
      const ofOthers = yield* claiming([loudProject], 1)
      assert.isAtMost(ofOthers.scanned, 5000)
      assert.isAtMost(ofOthers.entries, 15_500)
    })
  )

  // The last ones of this file: the rows are gone afterwards.
  it.effect.each([
    ["memory_posting", bigProject, 10_000],
    ["push_outbox", crowdedProject, 3_600]
  ] as const)("a batch of %s, before its project is deleted, reads what it deletes", ([table, project_id, gone]) =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const rows = Effect.map(sql`select from ${sql(table)}`, ({ length }) => length)
      const before = yield* rows
      const { entries, scanned } = yield* readBy((sql) => ErasureStore.make(sql).dropDerived(table, project_id))
      assert.isAtLeast(before - (yield* rows), gone)
      assert.isAtMost(scanned, 100)
      assert.isAtMost(entries, 11_000)
    })
  )
})
