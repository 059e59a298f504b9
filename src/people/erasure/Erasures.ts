/**
 * Destroys what must not be there: entries, tasks, documents, whole projects, and what a retention period has ended
 * (decisions.md, Erasure). Every erasure leaves an audit row and a tombstone, both without content, and a line in
 * SERVICE_ERASURE_FILE, which keeps a restored backup from bringing it back.
 *
 *     begin; delete; tombstone and audit row; line "prepared"; commit; line "committed"
 *
 * A crash before the commit leaves an open line without a tombstone, one after it an open line with one.
 *
 * Of a project first goes, in many short transactions and without a line, what is derived from its texts. A crash in between
 * leaves a project that is due.
 */
import { Cause, Context, Duration, Effect, Layer, Option, Schedule } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { traceAt } from "../../platform/audit/Audit.ts"
import { uuidAt } from "../../platform/crypto/Random.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { Database } from "../../platform/database/Database.ts"
import { describe, longPersistence, withoutValues } from "../../platform/database/Persistence.ts"
import { CurrentOperator } from "../../platform/settings/Operator.ts"
import { ConfigurationError, Settings } from "../../platform/settings/Settings.ts"
import { nil } from "../../wire/Ids.ts"
import { after } from "../../wire/Instant.ts"
import { applyRetention, type Counts, done, dropDerived, dropOne, pseudonymOf } from "./drop.ts"
import { type ErasureRefusal, refuse } from "./Errors.ts"
import * as File from "./ErasureFile.ts"
import * as Store from "./ErasureStore.ts"
import { exportPerson } from "./exportPerson.ts"
import * as PersonStore from "./PersonStore.ts"
import { type Open, replay } from "./replay.ts"

export { emptiedTables } from "./ErasureStore.ts"

/** How long a project that is to be deleted can be enabled again. */
const grace = Duration.days(7)
/** Requests that began before a project was disabled have ended by then. */
const settling = Duration.seconds(30)
/** Batches of a retention period before the next project has its turn. */
const turn = Schedule.forever.pipe(Schedule.upTo({ times: 9, duration: "1 minute" }))
/** Tombstones of retention periods settle lines that are open; no line stays open this long. */
const retentionKept = Duration.days(30)

export interface Purged {
  readonly project_id: string
  readonly id: string
  readonly erased_at: Date
  /** Whether an earlier command had erased it. */
  readonly replayed: boolean
}

export interface Deletion {
  readonly project_id: string
  /** Until then enable-project undoes it; null if it has been carried out. */
  readonly delete_after: Date | null
  readonly deleted_at: Date | null
}

export interface ErasedSubject {
  readonly project_id: string
  readonly tokens: ReadonlyArray<{ readonly token_id: string; readonly pseudonym: string }>
}

type Failed = ErasureRefusal<"bridge_persistence_error"> | ConfigurationError | File.ErasureFileError
type Target = "memory" | "task" | "document"

export class Erasures extends Context.Service<
  Erasures,
  {
    /** May be repeated. */
    readonly purge: (
      kind: Target,
      project_id: string,
      id: string
    ) => Effect.Effect<
      Purged,
      Failed | ErasureRefusal<"project_not_found" | "memory_not_found" | "task_not_found" | "document_not_found">
    >
    /**
     * Deletes a disabled project after seven days, or now. May be repeated. `waiting` is told for how many seconds the
     * requests that began before it was disabled may go on.
     */
    readonly deleteProject: (
      project_id: string,
      when: "now" | "later",
      waiting?: (seconds: number) => Effect.Effect<void>
    ) => Effect.Effect<Deletion, Failed | ErasureRefusal<"project_not_found" | "project_not_disabled">>
    /**
     * Ends the project tokens with this label and the sign-ins that came from them, deletes their devices and sessions, and
     * replaces the label everywhere by a pseudonym for each token. What the person wrote stays. May be repeated.
     */
    readonly eraseSubject: (
      project_id: string,
      label: string
    ) => Effect.Effect<ErasedSubject, Failed | ErasureRefusal<"subject_not_found">>
    /** Writes everything about the holder of the tokens with this label as JSON lines, and returns how many of each kind. */
    readonly exportSubject: <E>(
      project_id: string,
      label: string,
      write: (text: string) => Effect.Effect<void, E>
    ) => Effect.Effect<
      Readonly<Record<PersonStore.Section, number>>,
      E | ErasureRefusal<"subject_not_found" | "bridge_persistence_error">
    >
    /**
     * Settles open lines, deletes projects whose grace has ended, and applies retention periods, in turns. Run by the service.
     */
    readonly pass: Effect.Effect<void, Failed>
    /**
     * The erasures of these files, to be applied to a restored database before it is used; it fails if `open` refuses and a
     * line is open, or if a file is of another service.
     */
    readonly replay: (
      files: ReadonlyArray<string>,
      open: Open
    ) => Effect.Effect<Effect.Effect<number, SqlError.SqlError | File.ErasureFileError, SqlClient.SqlClient>, Failed>
  }
>()("service/erasure/Erasures") {
  static readonly layer = Layer.effect(
    Erasures,
    Effect.gen(function* () {
      const { dedicated } = yield* Database
      const { erasureFile } = yield* Settings
      const clock = yield* DatabaseClock

      const file = erasureFile === undefined ? Effect.fail(noFile) : Effect.succeed(erasureFile)

      /** Runs `work` in a transaction that ends with the tombstone and the line; nothing is erased if `work` returns none. */
      const erasing = Effect.fnUntraced(function* <E>(
        erased: File.Erased,
        action: string,
        work: (sql: SqlClient.SqlClient, now: Date) => Effect.Effect<Option.Option<Counts>, E | SqlError.SqlError>
      ) {
        const path = yield* file
        const now = yield* clock.now
        const erasure_id = yield* uuidAt(now)
        const actor = yield* CurrentOperator
        const trace = yield* traceAt(now)
        const transaction = Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const store = Store.make(sql)
          return yield* sql.withTransaction(
            Effect.gen(function* () {
              yield* store.waitBriefly
              const result = yield* work(sql, now)
              if (Option.isNone(result)) return result
              yield* store.bury(erasure_id, erased, now)
              yield* store.audited(
                erased.project_id,
                action,
                actor,
                { ...subjectOf(erased, erasure_id), ...result.value },
                trace
              )
              const { instance_id } = Option.getOrThrow(yield* store.instance)
              yield* File.prepare(path, { erasure_id, instance_id, at: now, ...erased })
              return result
            })
          )
        })
        const result = yield* dedicated(transaction).pipe(yielding, longPersistence)
        if (Option.isSome(result)) yield* File.settle(path, erasure_id, "committed")
        return { now, result }
      })

      /** A crash of this process or of another one left them open. Those of another service in the file are left to it. */
      const settleOpen = Effect.fnUntraced(function* (path: string) {
        yield* File.create(path)
        const { open } = yield* File.read(path)
        if (open.length === 0) return
        const own = yield* dedicated(
          Effect.flatMap(SqlClient.SqlClient, (sql) => Effect.map(Store.make(sql).instance, Option.getOrThrow))
        ).pipe(longPersistence)
        for (const { at, erasure_id, instance_id, ...erased } of open) {
          if (instance_id !== own.instance_id) continue
          // A tombstone that can be written is not there: the transaction was rolled back. This one is, too.
          const probe = Effect.gen(function* () {
            const sql = yield* SqlClient.SqlClient
            const written = yield* sql
              .withTransaction(
                Effect.flatMap(Store.make(sql).bury(erasure_id, erased, at), (buried) => Effect.fail({ buried }))
              )
              .pipe(Effect.catch((error) => ("buried" in error ? Effect.succeed(error.buried) : Effect.fail(error))))
            return Option.isSome(written)
          })
          const rolledBack = yield* dedicated(probe).pipe(longPersistence)
          yield* File.settle(path, erasure_id, rolledBack ? "withdrawn" : "committed")
        }
      })

      const purge = Effect.fn("Erasures.purge")(function* (kind: Target, project_id: string, id: string) {
        yield* settleOpen(yield* file)
        const erased = { ...nothing, kind, project_id, target_id: id }
        const { now, result } = yield* erasing(erased, `${kind}.purged`, (sql, now) => dropOne(sql, erased, now))
        if (Option.isSome(result)) return { project_id, id, erased_at: now, replayed: false }
        const found = yield* dedicated(
          Effect.flatMap(SqlClient.SqlClient, (sql) => Store.make(sql).buried(erased))
        ).pipe(longPersistence)
        if (Option.isNone(found)) return yield* refuse(`${kind}_not_found`)
        return { project_id, id, erased_at: found.value.erased_at, replayed: true }
      })

      const findPerson = Effect.fnUntraced(function* (project_id: string, label: string) {
        const person = Effect.gen(function* () {
          const store = PersonStore.make(yield* SqlClient.SqlClient)
          const tokens = (yield* store.tokens(project_id, label)).map(({ id }) => id)
          const grants = yield* store.grants(tokens)
          const actors = [...tokens.map((id) => `project_token:${id}`), ...grants.map(({ id }) => `oauth_grant:${id}`)]
          return { project_id, label, tokens, actors }
        })
        const found = yield* dedicated(person).pipe(longPersistence)
        return found.tokens.length === 0 ? yield* refuse("subject_not_found") : found
      })

      const eraseSubject = Effect.fn("Erasures.eraseSubject")(function* (project_id: string, label: string) {
        yield* settleOpen(yield* file)
        const { tokens } = yield* findPerson(project_id, label)
        // Each is an erasure of its own: one that is interrupted is repeated for the tokens that still have the label.
        yield* Effect.forEach(tokens, (target_id) => {
          const erased = { ...nothing, kind: "subject" as const, project_id, target_id }
          return erasing(erased, "subject.erased", (sql, now) => dropOne(sql, erased, now))
        })
        return { project_id, tokens: tokens.map((token_id) => ({ token_id, pseudonym: pseudonymOf(token_id) })) }
      })

      const exportSubject = Effect.fn("Erasures.exportSubject")(function* <E>(
        project_id: string,
        label: string,
        write: (text: string) => Effect.Effect<void, E>
      ) {
        const person = yield* findPerson(project_id, label)
        return yield* dedicated(exportPerson(person, write)).pipe(longPersistence)
      })

      /** Whether the project is to be deleted now; asked under its lock, because it may have been enabled meanwhile. */
      const isReady = Effect.fnUntraced(function* (
        store: ReturnType<typeof Store.make>,
        project_id: string,
        why: "asked" | "due",
        now: Date
      ) {
        const found = Option.getOrUndefined(yield* store.lockProject(project_id))
        if (found === undefined) return yield* refuse("project_not_found")
        if (found.deleted_at !== null) return false
        const isDue = found.delete_after !== null && found.delete_after <= now
        if (why === "due" && !isDue) return false
        if (found.disabled_at === null || after(found.disabled_at, settling) > now) {
          return yield* refuse("project_not_disabled")
        }
        return true
      })

      /** Marks the project as one that is being deleted. Returns false if there is nothing to delete. */
      const begin = Effect.fnUntraced(function* (project_id: string, why: "asked" | "due") {
        const now = yield* clock.now
        const trace = yield* traceAt(now)
        const actor = yield* CurrentOperator
        const transaction = Effect.flatMap(SqlClient.SqlClient, (sql) =>
          sql.withTransaction(
            Effect.gen(function* () {
              const store = Store.make(sql)
              yield* store.waitBriefly
              if (!(yield* isReady(store, project_id, why, now))) return false
              yield* store.schedule(project_id, now, trace, actor)
              yield* store.begin(project_id)
              return true
            })
          )
        )
        return yield* dedicated(transaction).pipe(yielding, longPersistence)
      })

      const deleteNow = Effect.fnUntraced(function* (project_id: string, why: "asked" | "due") {
        yield* file
        if (!(yield* begin(project_id, why))) return
        yield* dropDerived(project_id, (next) =>
          dedicated(SqlClient.SqlClient.use(next)).pipe(yielding, longPersistence)
        )
        const erased = { ...nothing, kind: "project" as const, project_id, target_id: null }
        yield* erasing(erased, "project.deleted", (sql, now) =>
          Effect.gen(function* () {
            const store = Store.make(sql)
            if (!(yield* isReady(store, project_id, why, now))) return Option.none()
            yield* store.dropProject(project_id, now)
            return done
          })
        )
      })

      const look = (project_id: string) =>
        dedicated(Effect.flatMap(SqlClient.SqlClient, (sql) => Store.make(sql).lockProject(project_id))).pipe(
          longPersistence,
          Effect.flatMap(
            Option.match({ onNone: () => refuse("project_not_found"), onSome: (found) => Effect.succeed(found) })
          )
        )

      const deleteProject = Effect.fn("Erasures.deleteProject")(function* (
        project_id: string,
        when: "now" | "later",
        waiting: (seconds: number) => Effect.Effect<void> = () => Effect.void
      ) {
        yield* settleOpen(yield* file)
        const found = yield* look(project_id)
        if (found.deleted_at !== null) return { project_id, delete_after: null, deleted_at: found.deleted_at }
        if (found.disabled_at === null) return yield* refuse("project_not_disabled")
        const now = yield* clock.now
        if (when === "now") {
          const seconds = Math.ceil((after(found.disabled_at, settling).getTime() - now.getTime()) / 1000)
          if (seconds > 0) yield* Effect.andThen(waiting(seconds), Effect.sleep(Duration.seconds(seconds)))
          yield* deleteNow(project_id, "asked")
          const { deleted_at } = yield* look(project_id)
          return { project_id, delete_after: null, deleted_at }
        }
        const trace = yield* traceAt(now)
        const actor = yield* CurrentOperator
        const scheduled = yield* dedicated(
          Effect.flatMap(SqlClient.SqlClient, (sql) =>
            Store.make(sql).schedule(project_id, after(now, grace), trace, actor)
          )
        ).pipe(longPersistence)
        if (Option.isNone(scheduled)) return yield* refuse("project_not_disabled")
        return { project_id, delete_after: scheduled.value.delete_after, deleted_at: null }
      })

      /** Erases what the retention period of a project has ended, for a turn. Returns whether more is left. */
      const retain = Effect.fnUntraced(function* (
        project_id: string,
        memory_days: number | null,
        receipt_days: number | null
      ) {
        // Whole days, so that a day has one line and one tombstone for each batch at most.
        const today = Math.floor((yield* clock.now).getTime() / day) * day
        const before = (days: number | null) => (days === null ? null : new Date(today - days * day))
        const erased: File.Erased = {
          ...nothing,
          kind: "retention",
          project_id,
          target_id: null,
          memory_before: before(memory_days),
          receipts_before: before(receipt_days)
        }
        const round = erasing(erased, "project.retention_applied", (sql, now) =>
          Effect.gen(function* () {
            const store = Store.make(sql)
            if ((yield* store.lockForRetention(project_id)).length === 0) return Option.none()
            const { entries, receipts } = yield* applyRetention(sql, erased)
            if (entries + receipts === 0) return Option.none()
            yield* store.dropOldRetention(project_id, after(now, Duration.negate(retentionKept)))
            return Option.some({ entries: `${entries}`, receipts: `${receipts}` })
          })
        )
        const { result } = yield* Effect.repeat(round, { until: ({ result }) => Option.isNone(result), schedule: turn })
        return Option.isSome(result)
      })

      /** Deletes the projects that are due and not among those `tried`, to which it adds them. */
      const deleteDue = Effect.fnUntraced(function* (tried: Set<string>) {
        const now = yield* clock.now
        const due = yield* dedicated(Effect.flatMap(SqlClient.SqlClient, (sql) => Store.make(sql).due(now))).pipe(
          longPersistence
        )
        for (const { project_id } of due) {
          if (tried.has(project_id)) continue
          tried.add(project_id)
          yield* alone(project_id, deleteNow(project_id, "due").pipe(Effect.catchTags(enabledMeanwhile)))
        }
      })

      /**
       * Gives each project with a retention period a turn, but those that are `finished`, to which it adds whoever needs no
       * other one. Returns whether somebody does.
       */
      const retainEach = Effect.fnUntraced(function* (finished: Set<string>) {
        let [project_id, more] = [nil, false]
        while (true) {
          const next = yield* dedicated(
            Effect.flatMap(SqlClient.SqlClient, (sql) => Store.make(sql).retained(project_id))
          ).pipe(longPersistence)
          if (Option.isNone(next)) return more
          project_id = next.value.project_id
          if (finished.has(project_id)) continue
          const left = yield* alone(project_id, retain(project_id, next.value.memory_days, next.value.receipt_days))
          if (left === true) more = true
          else finished.add(project_id)
        }
      })

      const pass = Effect.gen(function* () {
        if (erasureFile !== undefined) yield* settleOpen(erasureFile)
        const tried = new Set<string>()
        const finished = new Set<string>()
        const turns = Effect.andThen(deleteDue(tried), retainEach(finished))
        yield* Effect.repeat(turns, { while: (more) => more })
      }).pipe(Effect.withSpan("Erasures.pass"))

      return { purge, deleteProject, eraseSubject, exportSubject, pass, replay }
    })
  )
}

/** Keeps erasing what is due: a pass after the start, then one every ten minutes. */
export const eraseForever = Effect.gen(function* () {
  const { pass } = yield* Erasures
  yield* pass.pipe(
    Effect.catch(({ message }) => notErased({ reason: message })),
    Effect.catchDefect((defect) => notErased(withoutValues(Cause.die(defect)))),
    Effect.repeat(Schedule.spaced("10 minutes"))
  )
})

const notErased = (facts: object) =>
  Effect.logWarning("What is due was not erased").pipe(Effect.annotateLogs({ ...facts }))

/** No project waits for the failure of another one. What is wrong with the file concerns them all. */
const alone = <A>(project_id: string, work: Effect.Effect<A, Failed>) =>
  work.pipe(
    Effect.catchTag("bridge_persistence_error", ({ message }) => notErased({ project_id, reason: message })),
    Effect.catchDefect((defect) => notErased({ project_id, ...withoutValues(Cause.die(defect)) }))
  )

const noFile = new ConfigurationError({
  message:
    "SERVICE_ERASURE_FILE is not set: a file, kept apart from the database and its backups, that records what was erased. Without it a restored backup would bring it back. Nothing was erased."
})

/** A project that is due was enabled a moment ago: nobody waits for an answer. */
const enabledMeanwhile = { project_not_found: () => Effect.void, project_not_disabled: () => Effect.void }

const day = 86_400_000
const nothing = { memory_before: null, receipts_before: null }

/** Begins again when an agent holds a lock, a hundred times at most: agents do not wait for an erasure that waits. */
const yielding = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.retry(self, {
    while: (error: E) => SqlError.isSqlError(error) && /^(55P03|40P01|40001|23503)$/.test(describe(error).sqlstate),
    schedule: Schedule.jittered(Schedule.spaced("300 millis")),
    times: 100
  })

/** Audit rows hold ids and counts. */
const subjectOf = ({ kind, project_id, target_id }: File.Erased, erasure_id: string) => ({
  erasure_id,
  ...(kind === "memory" && { entry_id: target_id! }),
  ...(kind === "task" && { task_id: target_id! }),
  ...(kind === "subject" && { project_token_id: target_id! }),
  ...(kind === "document" && { document_id: target_id! }),
  ...((kind === "project" || kind === "retention") && { project_id })
})
