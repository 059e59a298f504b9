/** What is erased is nowhere in the database, and readers go on (decisions.md, Erasure). */
import { assert, layer } from "@effect/vitest"
import { Context, Deferred, Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { randomUUID } from "node:crypto"
import { appendFileSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Decisions } from "../../src/agents/decisions/Decisions.ts"
import { Documents } from "../../src/agents/documents/Documents.ts"
import { Limits } from "../../src/operator/limits/Limits.ts"
import { Projects } from "../../src/operator/projects/Projects.ts"
import * as ErasureFile from "../../src/people/erasure/ErasureFile.ts"
import { emptiedTables, Erasures } from "../../src/people/erasure/Erasures.ts"
import { answer, ask, person as personOf } from "../support/agents/Answers.ts"
import { startEmbedder } from "../support/agents/Embedder.ts"
import { Embeddings } from "../../src/agents/embeddings/Embeddings.ts"
import { Agent, issueToken } from "../support/agents/McpAgent.ts"
import { repository } from "../support/agents/Repository.ts"
import { makePerson, makeSubject } from "../support/people/SignIn.ts"
import { makePhone } from "../support/phones/Phone.ts"
import { bigProject, fill } from "../support/database/Fill.ts"
import { waitedForBy } from "../support/database/Locks.ts"
import { TestDatabase } from "../support/database/TestDatabase.ts"
import { recording } from "../support/run/Lines.ts"
import { instance } from "../support/service/Service.ts"

/** A word that the database's own rows never hold. */
const word = () => `canary${randomUUID().replaceAll("-", "")}`

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "erasure-test-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

const start = Effect.fnUntraced(function* (more: Readonly<Record<string, string>> = {}) {
  const file = join(yield* folder, "erasures.jsonl")
  const on = yield* instance({ SERVICE_ERASURE_FILE: file, ...more })
  const erasures = Context.get(on.services, Erasures)
  return { file, on, erasures, agent: yield* Agent.make(on) }
})

const tables = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<{ name: string }>`
    select relname as name from pg_class
     where relkind in ('r', 'p') and not relispartition and relnamespace = 'public'::regnamespace
     order by 1`
})

/** Every row of every table as text, by table. */
const everything = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const all: Record<string, ReadonlyArray<string>> = {}
  for (const { name } of yield* tables) {
    all[name] = (yield* sql<{ line: string }>`select t::text as line from ${sql(name)} t order by 1`).map(
      ({ line }) => line
    )
  }
  return all
})
const placesOf = (text: string) =>
  Effect.map(everything, (all) =>
    Object.entries(all).flatMap(([name, lines]) => (lines.some((line) => line.includes(text)) ? [name] : []))
  )

const usageOf = (project_id: string) =>
  SqlClient.SqlClient.use(
    (sql) => sql`
      select stored_bytes::int, index_bytes::int, entries::int, tasks::int, receipts::int
        from project_usage where project_id = ${project_id}::uuid`
  )
const activeOf = (project_id: string) =>
  SqlClient.SqlClient.use(
    (sql) => sql<{ counted: number; there: number }>`
      select (select sum(active) from memory_count where project_id = ${project_id}::uuid)::int as counted,
             (select count(*) from memory_entry where project_id = ${project_id}::uuid and active)::int as there`
  )
const lines = (file: string) =>
  readFileSync(file, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line))

const lastAudit = (project_id: string) =>
  Effect.map(
    SqlClient.SqlClient.use(
      (sql) => sql<{ action: string; subject: any }>`
        select action, subject from audit_event where project_id = ${project_id}::uuid order by at desc, event_id desc limit 1`
    ),
    ([row]) => row!
  )

/** What belongs to no project, and what a deleted project leaves: ids and times. */
const ofNoProject =
  "project erasure bridge_dpop_proof audit_event audit_link audit_chain audit_chain_progress audit_refusal_count oauth_client push_provider_state web_push_key schema_migration service_instance operator_token person_key_challenge".split(
    " "
  )

const disable = (on: Effect.Success<ReturnType<typeof instance>>, project_id: string) =>
  Effect.gen(function* () {
    yield* Context.get(on.services, Projects).disable(project_id)
    // As if the requests from before it had ended.
    const sql = yield* SqlClient.SqlClient
    yield* sql`update project set disabled_at = disabled_at - interval '1 minute' where project_id = ${project_id}::uuid`
  })

const isDeleted = (project_id: string) =>
  Effect.map(
    SqlClient.SqlClient.use(
      (sql) => sql`
        select from project where project_id = ${project_id}::uuid and deleted_at is not null`
    ),
    ({ length }) => length === 1
  )

/** Of each table from which rows of a project go in batches, more than one of these deletes. */
const fillDerived = Effect.fnUntraced(function* (on: Effect.Success<ReturnType<typeof instance>>, agent: Agent) {
  const { project_id } = agent
  const { id } = yield* agent.note("Note")
  const phones = yield* Effect.replicateEffect(
    Effect.map(makePerson(on, { project_id }), (one) => makePhone(on, one)),
    2
  )
  const devices: ReadonlyArray<string> = yield* Effect.forEach(phones, (phone) =>
    Effect.map(phone.register(), ({ body }) => body.device_id)
  )
  const sql = yield* SqlClient.SqlClient
  const many = Effect.gen(function* () {
    yield* sql`set local session_replication_role = replica`
    yield* sql`
      insert into memory_posting (project_id, lexeme, entry_id, tf, dl)
      select ${project_id}::uuid, 'word ' || n, ${id}::uuid, 1, 1 from generate_series(1, 10001) n`
    yield* sql`
      insert into memory_embedding (project_id, entry_id, model, number, slot, vector)
      select ${project_id}::uuid, gen_random_uuid(), 'model', 0, n, '' from generate_series(1, 10001) n`
    yield* sql`
      insert into idempotency_record (project_id, tool, idempotency_key, request_hash, created_at)
      select ${project_id}::uuid, 'memory_add', 'key ' || n, sha256('x'), now() from generate_series(1, 10001) n`
    yield* sql`
      insert into push_outbox (
        delivery_id, event_id, device_id, project_id, kind, priority, collapse_key, state, not_before, expires_at,
        created_at, settled_at)
      select gen_random_uuid(), gen_random_uuid(), device_id, ${project_id}::uuid, 'task.blocked', 2, 'task', 'delivered',
             now(), now(), now(), now()
        from unnest(${devices}::uuid[]) device_id, generate_series(1, 6000)`
  })
  yield* sql.withTransaction(many)
})

const derivedTables = ["idempotency_record", "memory_embedding", "memory_posting", "push_outbox"]
const twoOfEach = derivedTables.map((name) => ({ name, batches: 2, most: 10_000, transactions: 2 }))

/** From now on, how many rows each statement deletes from these tables, and in how many transactions. */
const observe = Effect.fnUntraced(function* (tables: ReadonlyArray<string>) {
  const sql = yield* SqlClient.SqlClient
  const run = (text: string) => sql.unsafe(text).unprepared
  yield* run("create table if not exists batch (name text, rows int, xact xid8)")
  yield* run(`create or replace function note() returns trigger language plpgsql security definer as $$ begin
    insert into batch select tg_table_name, count(*), pg_current_xact_id() from gone having count(*) > 0;
    return null; end $$`)
  for (const table of tables) {
    yield* run(`create trigger note after delete on ${table} referencing old table as gone
                  for each statement execute function note()`)
  }
  return sql`
    select name, count(*)::int as batches, max(rows) as most, count(distinct xact)::int as transactions
      from batch
     where name = any (${tables}::text[])
     group by name
     order by name`
})

layer(TestDatabase.sql, { timeout: 120_000 })("an erased entry", (it) => {
  it.effect("is in no row, with its postings, its vector and remembered results, and is counted no more", () =>
    Effect.gen(function* () {
      const secret = word()
      const embedder = yield* startEmbedder([`${secret} hidden`])
      const { agent, erasures, file, on } = yield* start(embedder.settings)
      yield* agent.note("Something else")
      const before = yield* usageOf(agent.project_id)
      const key = { idempotency_key: "add-1" }
      const body = `The ${secret} of the shop`
      const { id } = yield* agent.note(body, { tags: [secret], ...key })
      yield* agent.note(`About the ${secret.slice(0, 12)} shop`, { idempotency_key: "add-2" })
      yield* Context.get(on.services, Embeddings).round.pipe(Effect.repeat({ until: (worked) => !worked }))
      const places = yield* placesOf(secret)
      assert.includeMembers(places, ["idempotency_record", "memory_entry", "memory_posting"])

      const purged = yield* erasures.purge("memory", agent.project_id, id)
      assert.isFalse(purged.replayed)
      assert.deepStrictEqual(yield* placesOf(secret), [])
      const sql = yield* SqlClient.SqlClient
      assert.deepStrictEqual(yield* sql`select 1 from memory_embedding where entry_id = ${id}::uuid`, [])
      assert.strictEqual((yield* agent.call("memory_get", { id })).code, "memory_not_found")
      const found: ReadonlyArray<{ id: string }> = (yield* agent.call("memory_search", { query: secret })).output
        .entries
      assert.notInclude(
        found.map((entry) => entry.id),
        id
      )

      const [first, second] = lines(file)
      assert.deepInclude(first, { state: "prepared", kind: "memory", project_id: agent.project_id, target_id: id })
      assert.deepStrictEqual(second, { erasure_id: first.erasure_id, state: "committed" })
      assert.strictEqual(statSync(file).mode & 0o777, 0o600)
      const audit = yield* lastAudit(agent.project_id)
      assert.strictEqual(audit.action, "memory.purged")
      assert.deepStrictEqual(audit.subject, { erasure_id: first.erasure_id, entry_id: id })

      // The retry cannot be answered as before, and must not write the text again.
      const { code, text } = yield* agent.write("memory_add", { kind: "note", body, tags: [secret], ...key })
      assert.strictEqual(code, "idempotency_conflict")
      assert.include(text, "erased")
      assert.deepStrictEqual(yield* placesOf(secret), [])

      const again = yield* erasures.purge("memory", agent.project_id, id)
      assert.deepInclude(again, { replayed: true, erased_at: purged.erased_at })
      assert.strictEqual(lines(file).length, 2)
      const [{ counted, there }] = (yield* activeOf(agent.project_id)) as any
      assert.strictEqual(counted, there)
      const [was] = before as any
      const [is] = (yield* usageOf(agent.project_id)) as any
      assert.strictEqual(is.entries, was.entries + 1)
    }).pipe(Effect.scoped)
  )

  it.effect("is not posted again by the sweep that indexes a restored project", () =>
    Effect.gen(function* () {
      const secret = word()
      const { agent, erasures } = yield* start()
      const { id } = yield* agent.note(`The ${secret}`)
      const sql = yield* SqlClient.SqlClient
      yield* sql`delete from memory_posting where project_id = ${agent.project_id}::uuid`
      yield* sql`
        insert into memory_reindex (project_id, due_at) values (${agent.project_id}::uuid, '-infinity')`
      const [posted, ended] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      // How far the sweep is before it comes to a row that the erasure locks as well.
      const posting = sql`select from memory_reindex where project_id = ${agent.project_id}::uuid for update`.pipe(
        Effect.andThen(
          sql`insert into memory_posting values (${agent.project_id}::uuid, ${secret}, ${id}::uuid, 1, 1)`
        ),
        Effect.andThen(Deferred.succeed(posted, undefined)),
        Effect.andThen(Deferred.await(ended)),
        sql.withTransaction
      )
      const sweep = yield* Effect.forkChild(posting)
      yield* Deferred.await(posted)
      const purge = yield* Effect.forkChild(erasures.purge("memory", agent.project_id, id))
      // Long enough for the whole of it, if it did not wait.
      yield* Effect.raceFirst(Fiber.await(purge), TestClock.withLive(Effect.sleep("1 second")))
      yield* Deferred.succeed(ended, undefined)
      yield* Fiber.join(sweep)
      // It begins again until it gets the lock.
      const later = Effect.andThen(TestClock.adjust("1 second"), TestClock.withLive(Effect.sleep("10 millis")))
      yield* Effect.repeat(later, { until: () => purge.pollUnsafe() !== undefined })
      yield* Fiber.join(purge)
      assert.deepStrictEqual(yield* placesOf(secret), [])
    }).pipe(Effect.scoped)
  )

  it.effect("leaves the usage as if it had never been", () =>
    Effect.gen(function* () {
      const { agent, erasures } = yield* start()
      yield* agent.note("Something else")
      const before = yield* usageOf(agent.project_id)
      const { id } = yield* agent.note("Gänse und 漢字 here", { title: "Über", tags: ["ü", "b"], idempotency_key: "k" })
      yield* erasures.purge("memory", agent.project_id, id)
      assert.deepStrictEqual(yield* usageOf(agent.project_id), before)
      const archived = yield* agent.note("To be archived")
      const with_it = yield* usageOf(agent.project_id)
      assert.notDeepEqual(with_it, before)
      yield* agent.write("memory_archive", { id: archived.id })
      yield* erasures.purge("memory", agent.project_id, archived.id)
      assert.deepStrictEqual(yield* usageOf(agent.project_id), before)
    }).pipe(Effect.scoped)
  )

  it.effect("closes the gap in its chain: first, middle and last", () =>
    Effect.gen(function* () {
      const { agent, erasures } = yield* start()
      const chain = Effect.gen(function* () {
        const one = yield* agent.note("One")
        const two = yield* agent.note("Two", { supersedes: one.id })
        const three = yield* agent.note("Three", { supersedes: two.id })
        return [one.id, two.id, three.id] as const
      })
      const read = (id: string) =>
        Effect.map(agent.call("memory_get", { id }), ({ output }) => {
          const { active, superseded_by, supersedes } = output.entry
          return { active, superseded_by, supersedes }
        })
      const middle = yield* chain
      yield* erasures.purge("memory", agent.project_id, middle[1])
      assert.deepStrictEqual(yield* read(middle[0]), { active: false, superseded_by: middle[2], supersedes: null })
      assert.deepStrictEqual(yield* read(middle[2]), { active: true, superseded_by: null, supersedes: middle[0] })
      const first = yield* chain
      yield* erasures.purge("memory", agent.project_id, first[0])
      assert.deepStrictEqual(yield* read(first[1]), { active: false, superseded_by: first[2], supersedes: null })
      const last = yield* chain
      yield* erasures.purge("memory", agent.project_id, last[2])
      assert.deepStrictEqual(yield* read(last[1]), { active: false, superseded_by: null, supersedes: last[0] })
    }).pipe(Effect.scoped)
  )

  it.effect("that keeps an answer takes the answer out of its task", () =>
    Effect.gen(function* () {
      const { agent, erasures, on } = yield* start()
      const task = yield* ask(agent)
      const secret = word()
      yield* answer(on, personOf(agent.project_id), task, secret)
      const { answer_entry_id } = (yield* agent.call("task_get", { id: task.id })).output.task
      yield* erasures.purge("memory", agent.project_id, answer_entry_id)
      assert.deepStrictEqual(yield* placesOf(secret), [])
      const now = (yield* agent.call("task_get", { id: task.id })).output.task
      assert.deepInclude(now, { answer: null, answer_entry_id: null })
    }).pipe(Effect.scoped)
  )

  it.effect("must be there, and of the project named; a wrong project changes nothing", () =>
    Effect.gen(function* () {
      const { agent, erasures, file, on } = yield* start()
      const other = yield* Agent.make(on)
      const { id } = yield* agent.note("Mine")
      const task = yield* agent.task("Mine")
      for (const [kind, target] of [
        ["memory", id],
        ["task", task.id],
        ["document", randomUUID()]
      ] as const) {
        const refused = yield* Effect.flip(erasures.purge(kind, other.project_id, target))
        assert.strictEqual(refused._tag, `${kind}_not_found`)
      }
      assert.isDefined((yield* agent.call("memory_get", { id })).output)
      assert.isDefined((yield* agent.call("task_get", { id: task.id })).output)
      assert.strictEqual(readFileSync(file, "utf8"), "")
    }).pipe(Effect.scoped)
  )

  it.effect("stays if its line cannot be written", () =>
    Effect.gen(function* () {
      const { agent, erasures } = yield* start({ SERVICE_ERASURE_FILE: "/proc/erasures.jsonl" })
      const { id } = yield* agent.note("Mine")
      const failed = yield* Effect.flip(erasures.purge("memory", agent.project_id, id))
      assert.strictEqual(failed._tag, "ErasureFileError")
      assert.isDefined((yield* agent.call("memory_get", { id })).output)
    }).pipe(Effect.scoped)
  )
})

layer(TestDatabase.sql, { timeout: 120_000 })("an erased task", (it) => {
  it.effect("takes its receipts and notes with it; what depended on it goes on", () =>
    Effect.gen(function* () {
      const { agent, erasures } = yield* start()
      const before = yield* usageOf(agent.project_id)
      const secret = word()
      const task = yield* agent.task(`Do ${secret}`, { body: secret, tags: ["x"], idempotency_key: "k" })
      const child = yield* agent.task("Child", { parent: task.id })
      const waiting = yield* agent.task("Waiting", { depends_on: [task.id] })
      const about = yield* agent.note("About it", { task_id: task.id })
      yield* agent.write("task_note", { id: task.id, text: secret })
      const receipt = {
        session_ref: "s-1",
        worker: "w",
        outcome: "progress",
        summary: secret,
        next_steps: [secret],
        pitfalls: []
      }
      assert.isUndefined((yield* agent.update(task, { receipt })).code)
      const sql = yield* SqlClient.SqlClient
      const notice = sql`
        insert into push_outbox (
          delivery_id, event_id, device_id, project_id, kind, reference, priority, collapse_key, state, not_before,
          expires_at, created_at)
        values (gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), ${agent.project_id}::uuid, 'task.blocked',
                ${task.id}::uuid, 2, 'task', 'pending', now(), now(), now())`
      // Without a phone, whose foreign key is not checked.
      yield* sql.withTransaction(Effect.andThen(sql`set local session_replication_role = replica`, notice))
      yield* erasures.purge("task", agent.project_id, task.id)
      assert.deepStrictEqual(yield* placesOf(secret), [])
      assert.deepStrictEqual(yield* placesOf(task.id), ["audit_event", "erasure"])
      const now = (yield* agent.call("task_get", { id: waiting.id })).output.task
      assert.deepStrictEqual(now.depends_on ?? [], [])
      const ended = yield* agent.update(waiting, { status: "done" })
      assert.isUndefined(ended.code)
      for (const id of [waiting.id, child.id]) yield* erasures.purge("task", agent.project_id, id)
      yield* erasures.purge("memory", agent.project_id, about.id)
      assert.deepStrictEqual(
        yield* usageOf(agent.project_id),
        before.length > 0 ? before : [{ stored_bytes: 0, index_bytes: 0, entries: 0, tasks: 0, receipts: 0 }]
      )
    }).pipe(Effect.scoped)
  )
})

layer(TestDatabase.sql, { timeout: 120_000 })("an erased document", (it) => {
  it.effect("goes with its text, unless another project has pinned the same", () =>
    Effect.gen(function* () {
      const { agent, erasures, on } = yield* start()
      const other = yield* Agent.make(on)
      const { commit, directory } = yield* repository
      const sha = commit({ "a.md": "one\n" })
      const place = { directory, repository: "acme/shop", commit: sha, path: "a.md", title: "A", bootstrap: false }
      const documents = Context.get(on.services, Documents)
      const mine = yield* documents.pin({ ...place, project_id: agent.project_id })
      const theirs = yield* documents.pin({ ...place, project_id: other.project_id })
      const blobs = SqlClient.SqlClient.use((sql) => sql`select blob_oid from document_blob`)
      yield* erasures.purge("document", agent.project_id, mine.document_id)
      assert.lengthOf(yield* blobs, 1)
      yield* erasures.purge("document", other.project_id, theirs.document_id)
      assert.lengthOf(yield* blobs, 0)
    }).pipe(Effect.scoped)
  )
})

layer(TestDatabase.sql, { timeout: 120_000 })("a deleted project", (it) => {
  it.effect("names every table that can hold rows of a project", () =>
    Effect.gen(function* () {
      const names = (yield* tables).map(({ name }) => name)
      assert.sameMembers(
        names.filter((name) => !ofNoProject.includes(name)),
        emptiedTables
      )
      assert.includeMembers(names, ofNoProject)
    })
  )

  it.effect("leaves rows in no table but its own, the audit log and the tombstones; others keep every row", () =>
    Effect.gen(function* () {
      const { agent, erasures, file, on } = yield* start()
      const sql = yield* SqlClient.SqlClient
      yield* fill(500)
      const name = word()
      yield* sql`update project set name = ${name} where project_id = ${bigProject}::uuid`
      const mine = yield* Agent.make(on, { project_id: bigProject })
      const note = yield* mine.note("Note", { idempotency_key: "k" })
      const task = yield* mine.task("Task", { parent: (yield* mine.task("Parent")).id })
      yield* mine.write("task_note", { id: task.id, text: "Note" })
      yield* mine.update(yield* ask(mine), { status: "open" })
      yield* mine.note("Next", { supersedes: note.id })
      yield* agent.note("Theirs")
      yield* disable(on, bigProject)

      // Rows hang on a project by their own column, or by foreign keys.
      const ofProject = Effect.gen(function* () {
        const found: Array<string> = []
        for (const { name } of yield* tables) {
          const columns = yield* sql<{ column: string }>`
            select attname as column from pg_attribute
             where attrelid = ${name}::regclass and attname = 'project_id' and not attisdropped`
          if (columns.length === 0) continue
          const rows = yield* sql`select 1 from ${sql(name)} where project_id = ${bigProject}::uuid limit 1`
          if (rows.length > 0) found.push(name)
        }
        return found
      })
      assert.isAtLeast((yield* ofProject).length, 18)
      const others = Effect.map(everything, (all) =>
        Object.fromEntries(
          Object.entries(all).map(([table, lines]) => [table, lines.filter((line) => line.includes(agent.project_id))])
        )
      )
      const theirs = yield* others
      const deleted = yield* erasures.deleteProject(bigProject, "now")
      assert.isNotNull(deleted.deleted_at)
      assert.deepStrictEqual(yield* ofProject, ["audit_event", "erasure", "project"])
      assert.deepStrictEqual(yield* others, theirs)
      assert.deepStrictEqual(yield* placesOf(name), [])

      // What hangs on the project by other rows: no identity of anybody else is in this database.
      const [left] = yield* sql`
        select (select count(*) from bridge_token)::int as tokens, (select count(*) from bridge_rotation)::int as rotations,
               (select count(*) from enrollment_challenge)::int as challenges, (select count(*) from oauth_code)::int as codes,
               (select count(*) from oauth_access_token)::int as access, (select count(*) from oauth_refresh_token)::int as refresh`
      assert.deepStrictEqual(left as object, {
        tokens: 0,
        rotations: 0,
        challenges: 0,
        codes: 0,
        access: 0,
        refresh: 0
      })

      assert.strictEqual((yield* mine.call("server_identity")).code, "unauthorized")
      const projects = Context.get(on.services, Projects)
      assert.strictEqual((yield* Effect.flip(projects.enable(bigProject)))._tag, "project_not_found")
      assert.notInclude(
        (yield* projects.list({ after: undefined, limit: 100 })).map(({ project_id }) => project_id),
        bigProject
      )
      assert.deepStrictEqual(yield* erasures.deleteProject(bigProject, "now"), deleted)
      const actions = (yield* sql<{ action: string }>`
        select action from audit_event where project_id = ${bigProject}::uuid`).map(({ action }) => action)
      assert.includeMembers(actions, ["project.deletion_scheduled", "project.deleted"])
      assert.deepStrictEqual(
        lines(file).map(({ state }) => state),
        ["prepared", "committed"]
      )
    }).pipe(Effect.scoped)
  )

  it.effect("has to be disabled first, has seven days, and enable calls it off", () =>
    Effect.gen(function* () {
      const { agent, erasures, on } = yield* start()
      const { project_id } = agent
      const refused = yield* Effect.flip(erasures.deleteProject(project_id, "now"))
      assert.strictEqual(refused._tag, "project_not_disabled")
      yield* disable(on, project_id)
      const scheduled = yield* erasures.deleteProject(project_id, "later")
      assert.deepStrictEqual(yield* erasures.deleteProject(project_id, "later"), scheduled)
      const sql = yield* SqlClient.SqlClient
      const [left] = yield* sql<{ days: string }>`
        select extract(epoch from delete_after - disabled_at) / 86400 as days
          from project where project_id = ${project_id}::uuid`
      assert.approximately(Number(left!.days), 7, 0.01)
      yield* erasures.pass
      const projects = Context.get(on.services, Projects)
      yield* projects.enable(project_id)
      const rows = () => sql`select delete_after, deleted_at from project where project_id = ${project_id}::uuid`
      assert.deepStrictEqual(yield* rows(), [{ delete_after: null, deleted_at: null }])

      // Requests from before it was disabled may go on for half a minute.
      yield* projects.disable(project_id)
      const told: Array<number> = []
      const waiting = (seconds: number) =>
        Effect.andThen(
          Effect.sync(() => told.push(seconds)),
          Effect.interrupt
        )
      yield* Effect.exit(erasures.deleteProject(project_id, "now", waiting))
      assert.approximately(told[0]!, 30, 1)
      assert.deepStrictEqual(yield* rows(), [{ delete_after: null, deleted_at: null }])

      // Enabled and disabled again meanwhile: the requests in between have their half minute, too.
      const waits = yield* Deferred.make<void>()
      const tell = () => Effect.asVoid(Deferred.succeed(waits, undefined))
      const deleting = yield* Effect.forkChild(Effect.flip(erasures.deleteProject(project_id, "now", tell)))
      yield* Deferred.await(waits)
      yield* TestClock.adjust("20 seconds")
      yield* projects.enable(project_id)
      yield* projects.disable(project_id)
      yield* TestClock.adjust("10 seconds")
      assert.strictEqual((yield* Fiber.join(deleting))._tag, "project_not_disabled")

      yield* disable(on, project_id)
      yield* erasures.deleteProject(project_id, "later")
      yield* sql`update project set delete_after = disabled_at where project_id = ${project_id}::uuid`
      yield* erasures.pass
      const [now] = yield* rows()
      assert.isNotNull(now!["deleted_at"])
      assert.strictEqual((yield* lastAudit(project_id)).action, "project.deleted")
    }).pipe(Effect.scoped)
  )
})

layer(TestDatabase.sql, { timeout: 120_000 })("what is due", (it) => {
  /** Until the scope closes, no row of the project goes from this table. */
  const keep = (table: string, project_id: string) =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const run = (text: string) => sql.unsafe(text).unprepared
      yield* run(`create or replace function keep() returns trigger language plpgsql as
                  $$ begin raise 'this row stays'; end $$`)
      yield* Effect.acquireRelease(
        run(`create trigger keep before delete on ${table} for each row
               when (old.project_id = '${project_id}') execute function keep()`),
        () => Effect.orDie(run(`drop trigger keep on ${table}`))
      )
    })
  /** A project that is to be deleted with the next pass. */
  const dueNow = Effect.fnUntraced(function* (on: Effect.Success<ReturnType<typeof instance>>, project_id: string) {
    yield* disable(on, project_id)
    const sql = yield* SqlClient.SqlClient
    yield* sql`update project set delete_after = disabled_at + interval '1 second' where project_id = ${project_id}::uuid`
  })
  const entriesOf = (project_id: string) =>
    Effect.map(
      SqlClient.SqlClient.use((sql) => sql`select from memory_entry where project_id = ${project_id}::uuid`),
      ({ length }) => length
    )

  it.effect("is erased, whatever else of it cannot be erased", () =>
    Effect.gen(function* () {
      const { agent, erasures, on } = yield* start()
      const agents = [agent, ...(yield* Effect.replicateEffect(Agent.make(on), 3))]
      yield* Effect.forEach(agents, (one) => one.note("Note"))
      const [first, second, ...retaining] = agents.map(({ project_id }) => project_id)
      yield* dueNow(on, first!)
      yield* dueNow(on, second!)
      const [earlier, later] = retaining.toSorted()
      const sql = yield* SqlClient.SqlClient
      yield* sql`update memory_entry set created_at = created_at - interval '9 days'`
      for (const project_id of retaining) yield* Context.get(on.services, Limits).set(project_id, { memory_days: 8 })
      const { lines, record } = recording()
      const keeping = Effect.andThen(keep("project_usage", first!), keep("memory_entry", earlier!))
      yield* Effect.scoped(Effect.andThen(keeping, record(erasures.pass)))
      assert.deepStrictEqual([yield* isDeleted(first!), yield* isDeleted(second!)], [false, true])
      assert.deepStrictEqual([yield* entriesOf(earlier!), yield* entriesOf(later!)], [1, 0])
      const told = lines
        .map((line) => JSON.parse(line))
        .filter(({ message }) => message === "What is due was not erased")
      assert.deepStrictEqual(
        told.map(({ annotations }) => [annotations.project_id, annotations.sqlstate]),
        [
          [first, "P0001"],
          [earlier, "P0001"]
        ]
      )
      yield* erasures.pass
      assert.deepStrictEqual([yield* isDeleted(first!), yield* entriesOf(earlier!)], [true, 0])
    }).pipe(Effect.scoped)
  )

  it.effect("is a project that has lost what is derived, in batches, before the transaction that deletes it", () =>
    Effect.gen(function* () {
      const { agent, erasures, file, on } = yield* start()
      const { project_id } = agent
      yield* fillDerived(on, agent)
      const batches = yield* observe(derivedTables)
      yield* dueNow(on, project_id)
      yield* Effect.scoped(Effect.andThen(keep("project_usage", project_id), erasures.pass))
      assert.deepStrictEqual(yield* batches, twoOfEach)
      // As after a crash: it goes on being deleted.
      assert.deepStrictEqual([yield* isDeleted(project_id), yield* entriesOf(project_id)], [false, 1])
      assert.strictEqual(readFileSync(file, "utf8"), "")
      const projects = Context.get(on.services, Projects)
      assert.strictEqual((yield* Effect.flip(projects.enable(project_id)))._tag, "project_deletion_begun")
      assert.isNotNull((yield* projects.disable(project_id)).disabled_at)
      yield* erasures.pass
      assert.isTrue(yield* isDeleted(project_id))
      assert.deepStrictEqual(
        lines(file).map(({ state }) => state),
        ["prepared", "committed"]
      )
    }).pipe(Effect.scoped)
  )

  it.effect("stays as it is without a file for the record", () =>
    Effect.gen(function* () {
      const { agent, erasures, on } = yield* start({ SERVICE_ERASURE_FILE: "" })
      const { project_id } = agent
      yield* agent.note("Note")
      yield* dueNow(on, project_id)
      assert.strictEqual((yield* Effect.flip(erasures.pass))._tag, "ConfigurationError")
      const sql = yield* SqlClient.SqlClient
      assert.isNotEmpty(yield* sql`select from memory_posting where project_id = ${project_id}::uuid`)
      yield* Context.get(on.services, Projects).enable(project_id)
    }).pipe(Effect.scoped)
  )
})

layer(TestDatabase.sql, { timeout: 120_000 })("after a restore", (it) => {
  /** Adds an erasure to the file. */
  const record = Effect.fnUntraced(function* (file: string, erased: Omit<ErasureFile.Erased, "target_id">) {
    const sql = yield* SqlClient.SqlClient
    const [own] = yield* sql<{ instance_id: string }>`select instance_id from service_instance`
    const erasure_id = randomUUID()
    yield* ErasureFile.prepare(file, { erasure_id, at: new Date(), ...own!, ...erased, target_id: null })
    yield* ErasureFile.settle(file, erasure_id, "committed")
    return erasure_id
  })

  it.effect("a project is deleted again in batches, and once more changes nothing", () =>
    Effect.gen(function* () {
      const { agent, erasures, file, on } = yield* start()
      const { project_id } = agent
      yield* fillDerived(on, agent)
      const batches = yield* observe(derivedTables)
      const erasure_id = yield* record(file, {
        kind: "project",
        project_id,
        memory_before: null,
        receipts_before: null
      })

      const replay = yield* erasures.replay([file], "refuse")
      assert.strictEqual(yield* replay, 1)
      assert.deepStrictEqual(yield* batches, twoOfEach)
      assert.isTrue(yield* isDeleted(project_id))
      assert.strictEqual(yield* replay, 1)
      const sql = yield* SqlClient.SqlClient
      assert.deepStrictEqual(yield* sql`select erasure_id from erasure`, [{ erasure_id }])
    }).pipe(Effect.scoped)
  )

  it.effect("a retention period is applied again in batches", () =>
    Effect.gen(function* () {
      const { agent, erasures, file } = yield* start()
      const { project_id } = agent
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        insert into memory_entry (project_id, id, kind, title, body, tags, actor, role, created_at)
        select ${project_id}::uuid, gen_random_uuid(), 'note', 'Old', 'Old', '{}', 'x', 'contributor', '2026-01-01'
          from generate_series(1, 1001)`
      const batches = yield* observe(["memory_entry"])
      const memory_before = new Date("2026-01-02")
      yield* record(file, { kind: "retention", project_id, memory_before, receipts_before: null })
      yield* Effect.flatten(erasures.replay([file], "refuse"))
      assert.deepStrictEqual(yield* batches, [{ name: "memory_entry", batches: 2, most: 1000, transactions: 2 }])
    }).pipe(Effect.scoped)
  )
})

layer(TestDatabase.sql, { timeout: 120_000 })("a retention period", (it) => {
  it.effect("erases what is older, entries and receipts each by their own, counted in one audit row", () =>
    Effect.gen(function* () {
      const { agent, erasures, file, on } = yield* start()
      const { project_id } = agent
      const other = yield* Agent.make(on)
      const sql = yield* SqlClient.SqlClient
      yield* TestClock.adjust("13 hours")
      const task = yield* agent.task("Task")
      const receipt = {
        session_ref: "s-1",
        worker: "w",
        outcome: "progress",
        summary: "Old",
        next_steps: [],
        pitfalls: []
      }
      assert.isUndefined((yield* agent.update(task, { receipt })).code)
      const old = yield* agent.note("Old")
      const older = yield* agent.note("Older")
      const young = yield* agent.note("Young", { supersedes: old.id })
      yield* other.note("Theirs")
      yield* sql`update memory_entry set created_at = created_at - interval '9 days' where id <> ${young.id}::uuid`
      // Within a day that has ended only in part nothing is old yet.
      yield* sql`
        update memory_entry set created_at = created_at - interval '8 days 12 hours' where id = ${young.id}::uuid`
      yield* sql`update receipt set created_at = created_at - interval '9 days'`
      const limits = Context.get(on.services, Limits)
      yield* limits.set(project_id, { memory_days: 8 })
      yield* erasures.pass
      const left = () => sql`
        select (select count(*) from memory_entry where project_id = ${project_id}::uuid)::int as entries,
               (select count(*) from receipt where project_id = ${project_id}::uuid)::int as receipts,
               (select count(*) from memory_entry where project_id = ${other.project_id}::uuid)::int as theirs`
      assert.deepStrictEqual(yield* left(), [{ entries: 1, receipts: 1, theirs: 1 }])
      assert.strictEqual((yield* agent.call("memory_get", { id: older.id })).code, "memory_not_found")
      const { action, subject } = yield* lastAudit(project_id)
      assert.strictEqual(action, "project.retention_applied")
      assert.deepInclude(subject, { project_id, entries: "2", receipts: "0" })
      assert.deepInclude(lines(file)[0], { kind: "retention", receipts_before: null })
      yield* erasures.pass
      assert.lengthOf(lines(file), 2)

      yield* limits.set(project_id, { memory_days: null, receipt_days: 8 })
      yield* erasures.pass
      assert.deepStrictEqual(yield* left(), [{ entries: 1, receipts: 0, theirs: 1 }])
      const [usage] = (yield* usageOf(project_id)) as any
      assert.deepInclude(usage, { entries: 1, receipts: 0 })
    }).pipe(Effect.scoped)
  )

  it.effect("lets other projects have their turn, and deletions that have become due", () =>
    Effect.gen(function* () {
      const { agent, erasures, file, on } = yield* start()
      const others = yield* Effect.replicateEffect(Agent.make(on), 2)
      yield* Effect.forEach([agent, ...others], (one) => one.note("Note"))
      const [large, small, deleted] = [agent, ...others].map(({ project_id }) => project_id).toSorted()
      const sql = yield* SqlClient.SqlClient
      yield* disable(on, deleted!)
      const run = (text: string) => sql.unsafe(text).unprepared
      yield* run(`create function fall_due() returns trigger language plpgsql security definer as $$ begin
        update project set delete_after = disabled_at + interval '1 second' where project_id = '${deleted}';
        return null; end $$`)
      yield* run(`create trigger fall_due after insert on erasure for each row
        when (new.kind = 'retention') execute function fall_due()`)
      yield* sql`
        insert into memory_entry (project_id, id, kind, title, body, tags, actor, role, created_at)
        select project_id, gen_random_uuid(), 'note', 'Old', 'Old', '{}', 'x', 'contributor', '1960-01-01'
          from unnest(array[${large!}, ${small!}]::uuid[], array[10001, 1]) as p (project_id, entries),
               generate_series(1, entries)`
      for (const project_id of [large!, small!]) {
        yield* Context.get(on.services, Limits).set(project_id, { memory_days: 8 })
      }
      yield* erasures.pass
      const order = lines(file).flatMap((line) => (line.state === "prepared" ? [[line.kind, line.project_id]] : []))
      assert.deepStrictEqual(order, [
        ...Array.from({ length: 10 }, () => ["retention", large]),
        ["retention", small],
        ["project", deleted],
        ["retention", large]
      ])
    }).pipe(Effect.scoped)
  )

  it.effect("is applied by one process at a time", () =>
    Effect.gen(function* () {
      const { agent, erasures, on } = yield* start()
      const other = yield* Agent.make(on)
      const sql = yield* SqlClient.SqlClient
      for (const one of [agent, other]) {
        yield* one.note("Note")
        yield* Context.get(on.services, Limits).set(one.project_id, { memory_days: 8 })
      }
      yield* sql`update memory_entry set created_at = created_at - interval '9 days'`
      const left = () => sql`
        select project_id
          from memory_entry
         where project_id = any (${[agent.project_id, other.project_id]}::uuid[])`
      const lock = sql`
        select pg_advisory_xact_lock(hashtextextended('retention of ' || ${agent.project_id}::text, 0))`
      yield* sql.withTransaction(Effect.andThen(lock, erasures.pass))
      assert.deepStrictEqual(yield* left(), [{ project_id: agent.project_id }])
      yield* erasures.pass
      assert.deepStrictEqual(yield* left(), [])
    }).pipe(Effect.scoped)
  )

  it.effect("waits in line for a project that is always written, whose sign-ins go on", () =>
    Effect.gen(function* () {
      const { agent, erasures, on } = yield* start()
      const { project_id } = agent
      yield* agent.note("Note")
      const sql = yield* SqlClient.SqlClient
      yield* sql`update memory_entry set created_at = '1960-01-01' where project_id = ${project_id}::uuid`
      yield* Context.get(on.services, Limits).set(project_id, { memory_days: 8 })
      const pass = yield* sql.withTransaction(
        Effect.gen(function* () {
          yield* sql`select from project_usage where project_id = ${project_id}::uuid for update`
          const pass = yield* Effect.forkChild(erasures.pass)
          yield* waitedForBy(1)
          yield* Context.get(on.services, Projects).disable(project_id)
          // Three times as long as an erasure waits for other locks; the time of its next attempt never comes.
          yield* TestClock.withLive(Effect.sleep("300 millis"))
          return pass
        })
      )
      yield* Fiber.join(pass).pipe(Effect.timeout("10 seconds"), TestClock.withLive)
      assert.deepInclude((yield* usageOf(project_id))[0], { entries: 0 })
    }).pipe(Effect.scoped)
  )
})

layer(TestDatabase.sql, { timeout: 120_000, excludeTestServices: true })("erasures under load", (it) => {
  it.effect("break no reader and no writer: each gets its answer or a documented code, and every count is right", () =>
    Effect.gen(function* () {
      const { agent, erasures } = yield* start({ SERVICE_RATE_LIMITS: "off" })
      const { project_id } = agent
      const rounds = 5
      const entries = yield* Effect.replicateEffect(agent.note("An entry of the harbour"), rounds)
      const tasks = yield* Effect.replicateEffect(agent.task("A task of the harbour"), rounds)
      const codes = new Set<string | undefined>()
      const call = (name: string, given: Readonly<Record<string, unknown>>) =>
        Effect.map(agent.write(name, given), ({ code }) => codes.add(code))
      const read = (name: string, given: Readonly<Record<string, unknown>>) =>
        Effect.map(agent.call(name, given), ({ code }) => codes.add(code))
      const receipt = { session_ref: "s", worker: "w", outcome: "progress", summary: "S", next_steps: [], pitfalls: [] }
      yield* Effect.forEach(
        Array.from({ length: rounds }, (_, index) => index),
        (index) => {
          const [entry, task] = [entries[index]!, tasks[index]!]
          return Effect.all(
            [
              erasures.purge("memory", project_id, entry.id),
              erasures.purge("task", project_id, task.id),
              call("memory_add", { kind: "note", body: "Next", supersedes: entry.id }),
              call("memory_add", { kind: "note", body: "About it", task_id: task.id }),
              call("task_create", { title: "Waits", depends_on: [task.id] }),
              call("task_create", { title: "Part", parent: task.id }),
              call("task_note", { id: task.id, text: "Note" }),
              call("task_update", { id: task.id, expected_version: 1, receipt }),
              call("memory_archive", { id: entry.id }),
              read("memory_search", { query: "harbour" }),
              read("task_list", { limit: 3 }),
              read("continuity_context", {})
            ],
            { concurrency: "unbounded" }
          )
        }
      )
      const documented = ["memory_not_found", "memory_already_superseded", "task_not_found", "stale_version"]
      for (const code of codes) if (code !== undefined) assert.include(documented, code)
      const sql = yield* SqlClient.SqlClient
      const [row] = yield* sql<Record<string, number>>`
        select u.entries::int, u.tasks::int, u.receipts::int,
               (select count(*) from memory_entry e where e.project_id = u.project_id)::int as is_entries,
               (select count(*) from task t where t.project_id = u.project_id)::int as is_tasks,
               (select count(*) from receipt r where r.project_id = u.project_id)::int as is_receipts,
               (select sum(active) from memory_count c where c.project_id = u.project_id)::int as active,
               (select count(*) from memory_entry e where e.project_id = u.project_id and active)::int as is_active,
               (select count(*) from memory_posting p where p.project_id = u.project_id and not exists (
                  select 1 from memory_entry e where e.project_id = p.project_id and e.id = p.entry_id))::int as lost,
               u.index_bytes::int,
               (select coalesce(sum(octet_length(lexeme) + 24), 0) from memory_posting p
                 where p.project_id = u.project_id)::int as is_index_bytes
          from project_usage u where u.project_id = ${project_id}::uuid`
      for (const name of ["entries", "tasks", "receipts", "active", "index_bytes"]) {
        assert.strictEqual(row![name], row![`is_${name}`], name)
      }
      assert.strictEqual(row!["lost"], 0)
    }).pipe(Effect.scoped)
  )
})

layer(TestDatabase.sql, { timeout: 120_000 })("a file of many erasures", (it) => {
  it.effect("is read in many short stretches", () =>
    Effect.gen(function* () {
      const file = join(yield* folder, "erasures.jsonl")
      const line = (index: number) => {
        const erasure_id = randomUUID()
        const prepared = {
          erasure_id,
          state: "prepared",
          instance_id: erasure_id,
          at: new Date(index),
          kind: "project"
        }
        const erased = { project_id: erasure_id, target_id: null, memory_before: null, receipts_before: null }
        return `${JSON.stringify({ ...prepared, ...erased })}\n${JSON.stringify({ erasure_id, state: "committed" })}\n`
      }
      writeFileSync(file, Array.from({ length: 20_000 }, (_, index) => line(index)).join(""))
      const turns: Array<number> = []
      let next = setImmediate(function turn() {
        turns.push(performance.now())
        next = setImmediate(turn)
      })
      const startedAt = performance.now()
      const { committed } = yield* ErasureFile.read(file)
      const endedAt = performance.now()
      clearImmediate(next)
      assert.lengthOf(committed, 20_000)
      const stretches = [...turns, endedAt].map((at, index) => at - (turns[index - 1] ?? startedAt))
      assert.isBelow(Math.max(...stretches), (endedAt - startedAt) / 3)
    }).pipe(Effect.scoped)
  )
})

layer(TestDatabase.sql, { timeout: 120_000 })("a line that a crash left open", (it) => {
  it.effect("is settled by its tombstone", () =>
    Effect.gen(function* () {
      const { agent, erasures, file } = yield* start()
      const { id } = yield* agent.note("Mine")
      yield* erasures.purge("memory", agent.project_id, id)
      const [prepared] = lines(file)
      rmSync(file)
      const never = { ...prepared, erasure_id: randomUUID(), target_id: randomUUID() }
      // The crash cut off the last line.
      appendFileSync(
        file,
        `${JSON.stringify(prepared)}\n${JSON.stringify(never)}\n${JSON.stringify(never).slice(0, 90)}`
      )
      yield* erasures.pass
      const settled = readFileSync(file, "utf8").trim().split("\n").slice(3)
      assert.deepStrictEqual(
        settled.map((line) => JSON.parse(line)),
        [
          { erasure_id: prepared.erasure_id, state: "committed" },
          { erasure_id: never.erasure_id, state: "withdrawn" }
        ]
      )
      const sql = yield* SqlClient.SqlClient
      assert.lengthOf(yield* sql`select 1 from erasure`, 1)
      const { committed, open } = yield* ErasureFile.read(file)
      assert.deepStrictEqual(
        [committed.map(({ erasure_id }) => erasure_id), open],
        [[prepared.erasure_id], []],
        "a restore erases only what was committed"
      )
      yield* erasures.pass
      assert.lengthOf(readFileSync(file, "utf8").trim().split("\n"), 5)
    }).pipe(Effect.scoped)
  )
})

layer(TestDatabase.sql, { timeout: 120_000 })("an erased person", (it) => {
  it.effect("has no name, no device and no session left; what they wrote stays, under a pseudonym", () =>
    Effect.gen(function* () {
      const { agent, erasures, on } = yield* start()
      const { project_id } = agent
      const label = word()
      const sql = yield* SqlClient.SqlClient
      const person = yield* makePerson(on, { project_id })
      const colleague = yield* makePerson(on, { project_id })
      const ids = [person.subject, (yield* makeSubject(on, project_id)).token_id].toSorted()
      yield* sql`update project_token set label = ${label} where token_id = any (${ids}::uuid[])`
      yield* sql`update oauth_grant set label = ${label} where project_token_id = ${person.subject}::uuid`
      const phone = makePhone(on, person)
      const theirs = makePhone(on, colleague)
      yield* phone.register()
      const { device_id } = (yield* theirs.register()).body
      const task = yield* ask(agent)
      const by = { kind: "token", id: person.subject, label } as const
      yield* Context.get(on.services, Decisions).answer(personOf(project_id, person.subject), by, {
        id: task.id,
        expected_version: task.version,
        text: "PDF",
        idempotency_key: "k"
      })
      const answered = (yield* agent.call("task_get", { id: task.id })).output.task
      assert.isUndefined((yield* agent.update(answered, { priority: 1, idempotency_key: "u" })).code)
      yield* sql`update task set assignee = ${label} where id = ${task.id}::uuid`
      const held = yield* agent.task("Held")
      const claim = { id: held.id, assignee: label, idempotency_key: "c", verbose: true }
      yield* agent.write("task_claim", { ...claim, expected_version: held.version })
      const other = new Agent({ ...agent, token: yield* issueToken(on, project_id) })
      const takeover = { assignee: "other", takeover: { reason: "Gone" } }
      yield* other.write("task_claim", { id: held.id, expected_version: held.version + 1, ...takeover })
      const receipt = { session_ref: "s", worker: label, outcome: "progress", summary: "Half" }
      const taken = (yield* other.call("task_get", { id: held.id })).output.task
      assert.isUndefined((yield* other.update(taken, { receipt, idempotency_key: "r" })).code)
      const places = ["idempotency_record", "oauth_grant", "project_token", "receipt", "task", "task_note"]
      assert.includeMembers(yield* placesOf(label), places)
      // One more than a page of an export has, half of them by the person's app.
      const noted = yield* agent.task("Noted")
      yield* sql`
        insert into task_note (project_id, id, task_id, text, actor, created_at)
        select project_id, gen_random_uuid(), ${noted.id}::uuid, 'Note',
               case n % 2 when 0 then 'oauth_grant:' || grant_id else 'project_token:' || project_token_id end, now()
          from oauth_grant, generate_series(1, 501) n
         where project_token_id = ${person.subject}::uuid`

      const written: Array<string> = []
      const counts = yield* erasures.exportSubject(project_id, label, (text) => Effect.sync(() => written.push(text)))
      const expected = { project_token: 2, mobile_device: 1, memory_entry: 1, task: 1, receipt: 1, task_note: 501 }
      assert.deepInclude(counts, expected)
      const exported = written.join("").trim().split("\n")
      assert.strictEqual(
        exported.length,
        Object.values(counts).reduce((a, b) => a + b)
      )
      const rows = exported.map((line) => Object.entries(JSON.parse(line))[0]!)
      assert.notMatch(JSON.stringify(rows), /_hash|sealed|lookup/)
      assert.isTrue(rows.every(([, row]) => (row as { project_id: string }).project_id === project_id))

      const { tokens } = yield* erasures.eraseSubject(project_id, label)
      const pseudonym = (token_id: string) => `erased-${token_id.slice(-12)}`
      assert.deepStrictEqual(
        tokens,
        ids.map((token_id) => ({ token_id, pseudonym: pseudonym(token_id) }))
      )
      assert.deepStrictEqual(yield* placesOf(label), [])
      const now = (yield* agent.call("task_get", { id: task.id })).output.task
      assert.strictEqual(now.answer.by.label, pseudonym(person.subject))
      assert.strictEqual(now.assignee, pseudonym(ids[0]!))
      const [note] = (yield* agent.call("task_get", { id: held.id })).output.notes
      assert.match(note.text, new RegExp(`^Taken over from ${pseudonym(ids[0]!)}, at work since .*: Gone$`))
      assert.strictEqual((yield* phone.get(device_id)).status, 401)
      assert.strictEqual((yield* theirs.get(device_id)).status, 200)
      assert.deepStrictEqual(yield* sql`select 1 from mobile_device where subject = ${person.subject}::uuid`, [])
      assert.strictEqual((yield* Effect.flip(erasures.eraseSubject(project_id, label)))._tag, "subject_not_found")
      assert.strictEqual((yield* lastAudit(project_id)).action, "subject.erased")
    }).pipe(Effect.scoped)
  )
})
