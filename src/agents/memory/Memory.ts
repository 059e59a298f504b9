/** Memory of a project (spec 2.8, 4.11): notes and decisions that are added, searched and superseded, never edited. */
import { Context, Effect, Fiber, Layer, Option, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { type Actor, actorName } from "../../wire/Actor.ts"
import { Audit, traceAt } from "../../platform/audit/Audit.ts"
import { uuidAt } from "../../platform/crypto/Random.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence, untilSettled } from "../../platform/database/Persistence.ts"
import { apart } from "../../platform/database/Transactions.ts"
import { CurrentOperator } from "../../platform/settings/Operator.ts"
import type { Replayable } from "../../wire/Headers.ts"
import { withDetails } from "../../wire/Refusal.ts"
import { excerpt, findHidden, withoutHidden } from "../../wire/Text.ts"
import { AddedEntry, type MemoryAdd, type MemoryEntry, type MemoryHits, type MemorySearch } from "./Shapes.ts"
import { storedMaxima } from "../../operator/limits/LimitNames.ts"
import { bytesOf, refuseFull } from "../continuity/Budget.ts"
import * as Cursor from "../continuity/Cursor.ts"
import { type ContinuityRefusal, refuse, type Unavailable } from "../continuity/Errors.ts"
import * as Idempotency from "../continuity/Idempotency.ts"
import { Embeddings } from "../embeddings/Embeddings.ts"
import { wordsOnly } from "../ranking/Stages.ts"
import * as Store from "./MemoryStore.ts"
import * as Ranking from "./Ranking.ts"
import { everIndexed, type Searchable, searchQuery, searchText } from "./Search.ts"
import * as SearchStore from "./SearchStore.ts"

/** What reading needs of an actor. */
type InProject = Pick<Actor, "project_id">

export class Memory extends Context.Service<
  Memory,
  {
    /** With at most 3 other active entries that share most of its rarer words, the most similar first. */
    readonly add: (
      actor: Actor,
      input: MemoryAdd
    ) => Effect.Effect<
      Replayable<AddedEntry>,
      | Unavailable
      | ContinuityRefusal<
          | "memory_not_found"
          | "memory_already_superseded"
          | "task_not_found"
          | "idempotency_conflict"
          | "limit_exceeded"
        >
    >
    /** Also returns entries that are no longer active. */
    readonly get: (
      actor: InProject,
      id: string
    ) => Effect.Effect<MemoryEntry, Unavailable | ContinuityRefusal<"memory_not_found">>
    readonly search: (
      actor: InProject,
      input: MemorySearch
    ) => Effect.Effect<MemoryHits, Unavailable | ContinuityRefusal<"cursor_invalid" | "search_too_broad">>
    /** Deactivates an entry without a successor. May be repeated. `by`: who does it; the operator by default. */
    readonly archive: (
      project_id: string,
      id: string,
      by?: Actor
    ) => Effect.Effect<MemoryEntry, Unavailable | ContinuityRefusal<"memory_not_found">>
  }
>()("service/memory/Memory") {
  static readonly layer = Layer.effect(
    Memory,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const audit = yield* Audit
      const store = Store.make(sql)
      const searches = SearchStore.make(sql)
      const ranking = Ranking.make(sql)
      const embeddings = yield* Embeddings
      const { once } = Idempotency.make(sql)

      const add = Effect.fn("Memory.add")(function* (actor: Actor, input: MemoryAdd) {
        const now = yield* clock.now
        const { project_id } = actor
        const entry: Store.EntryRow = {
          id: yield* uuidAt(now),
          kind: input.kind,
          title: input.title ?? firstLine(input.body),
          body: input.body,
          tags: [...new Set(input.tags)],
          active: true,
          supersedes: input.supersedes ?? null,
          superseded_by: null,
          superseded_at: null,
          actor: actorName(actor),
          role: roleOf(actor),
          session_ref: input.session_ref ?? null,
          task_id: input.task_id ?? null,
          source: null,
          created_at: now
        }

        const text = searchText(textOf(entry))
        const attempt = Effect.gen(function* () {
          const trace = yield* traceAt(now)
          const maxima = storedMaxima(actor.limits)
          const added = yield* store.insert(
            project_id,
            entry,
            text,
            now,
            trace,
            storedBytes(entry),
            maxima,
            embeddings.configured
          )
          if (Option.isNone(added)) return Option.none()
          if (entry.supersedes !== null) yield* unindex(project_id, entry.supersedes)
          return Option.some(entryOf(entry))
        })

        const explain = Effect.gen(function* () {
          if (entry.task_id !== null && (yield* store.findTask(project_id, entry.task_id)).length === 0) {
            return yield* withDetails(refuse("task_not_found"), { field: "task_id" })
          }
          if (entry.supersedes !== null) {
            const old = yield* store.find(project_id, entry.supersedes)
            if (Option.isNone(old)) return yield* refuse("memory_not_found")
            if (!old.value.active) return yield* replaced(old.value)
          }
          return yield* refuseFull(sql, actor, { entries: 1, stored_bytes: storedBytes(entry), index_bytes: 0 })
        })

        const settled = untilSettled(attempt, explain)
        const added = entry.supersedes === null ? settled : sql.withTransaction(settled)
        // Searched first: the other writers of the project wait from the write until the end of the transaction.
        const work = Effect.flatMap(similarTo(project_id, entry, text), (similar) =>
          Effect.map(added, (entry) => ({ ...entry, similar }))
        )
        return yield* once(AddedEntry, { actor, tool: "memory_add" }, input, now, work)
      }, persistence)

      /** Removes an entry that is no longer active from the search index. */
      const unindex = Effect.fnUntraced(function* (project_id: string, id: string) {
        const old = yield* store.find(project_id, id)
        if (Option.isSome(old)) yield* store.unindex(project_id, id, everIndexed(textOf(old.value)))
      })

      const get = Effect.fn("Memory.get")(function* ({ project_id }: InProject, id: string) {
        const found = yield* store.find(project_id, id)
        return Option.isSome(found) ? entryOf(found.value) : yield* refuse("memory_not_found")
      }, persistence)

      const similarTo = (project_id: string, entry: Store.EntryRow, whole: Searchable) => {
        const beginning = searchQuery(excerpt(textOf(entry), 200), wordsOnly.dates)
        return searches.similar(project_id, { beginning, replaced: entry.supersedes, whole }, 3).pipe(
          Effect.map((hits) =>
            hits
              .filter(({ score }) => score >= alike)
              .map(({ score, ...hit }) => ({ ...hit, score: rounded(Math.min(1, score)) }))
          ),
          // That nobody could look must not fail the write.
          apart(sql),
          Effect.timeoutOrElse({ duration: "250 millis", orElse: () => Effect.succeed([]) }),
          Effect.catch(() => Effect.succeed([]))
        )
      }

      const search = Effect.fn("Memory.search")(function* ({ project_id }: InProject, options: MemorySearch) {
        const { cursor, kind, limit = 10, query = "", tags } = options
        const filter = { kind, tags }
        if (query.trim() === "") return yield* recent(project_id, options)
        // At the same time as the search by words, and outside of it: no connection waits for the endpoint.
        const asking = yield* Effect.forkChild(embeddings.ask(project_id, query))
        const most = embeddings.configured ? Math.max(limit, Ranking.pool) : limit
        const byWords = yield* ranking.search(project_id, query, filter, most).pipe(persistence)
        if (byWords === undefined) return yield* recent(project_id, options)
        if (cursor !== undefined) return yield* refuse("cursor_invalid")
        const asked = yield* Fiber.join(asking)
        const hits =
          typeof asked === "string"
            ? byWords
            : yield* ranking.withMeaning(project_id, byWords, asked, filter).pipe(ranking.limited, persistence)
        return {
          entries: hits
            .slice(0, limit)
            .map((hit) => ({ ...hitOf(hit), score: rounded(hit.score), matched: hit.matched })),
          matched: "ranked" as const,
          ...(asked !== "off" && { semantic: asked !== "away" })
        }
      })

      const recent = Effect.fnUntraced(
        function* (project_id: string, { cursor, kind, limit = 10, tags }: MemorySearch) {
          const filters = ["memory_search", kind ?? null, tags ?? []]
          const after = yield* Cursor.read(cursor, After, filters)
          const newest = yield* searches.recent(project_id, { kind, tags }, after, limit)
          const page = newest.slice(0, limit)
          const last = page.at(-1)
          return {
            entries: page.map(hitOf),
            ...(newest.length > limit && last !== undefined
              ? { next_cursor: Cursor.write([last.created_at.toISOString(), last.id], filters) }
              : undefined),
            matched: "recent" as const
          }
        },
        ranking.limited,
        persistence
      )

      const archive = Effect.fn("Memory.archive")(
        function* (project_id: string, id: string, by?: Actor) {
          const now = yield* clock.now
          const archived = yield* store.archive(project_id, id)
          if (Option.isSome(archived)) {
            yield* store.unindex(project_id, id, everIndexed(textOf(archived.value)))
            const subject = { entry_id: id }
            yield* audit.done(now, {
              action: "memory.archived",
              project_id,
              actor: by ? actorName(by) : yield* CurrentOperator,
              subject
            })
            return entryOf(archived.value)
          }
          const found = yield* store.find(project_id, id)
          return Option.isSome(found) ? entryOf(found.value) : yield* refuse("memory_not_found")
        },
        sql.withTransaction,
        persistence
      )

      return { add, get, search, archive }
    })
  )
}

/** Names the successor, so that the caller can supersede that one. An archived entry has none. */
const replaced = ({ superseded_by }: Pick<Store.EntryRow, "superseded_by">) =>
  withDetails(
    refuse("memory_already_superseded"),
    { superseded_by },
    superseded_by === null
      ? "The entry was archived; add a new one without supersedes."
      : `The entry was superseded by ${superseded_by}; read that one and supersede it.`
  )

/** Entries with at least this share of an entry's own score are about the same. */
const alike = 0.5

const After = Schema.Tuple([Cursor.Time, Cursor.Id])

/**
 * The text to index. Tags and title come first: of an entry with too many lexemes, the last ones are not found. A title
 * that was taken from the body is left out, because the body has it.
 */
export const textOf = ({ body, tags, title }: Pick<Store.EntryRow, "body" | "tags" | "title">) =>
  [...tags, ...(title === firstLine(body) ? [] : [title]), body].join("\n")

/** What an entry adds to the project's `stored_bytes`. */
export const storedBytes = ({ body, tags, title }: Pick<Store.EntryRow, "body" | "tags" | "title">) =>
  bytesOf(title, body, ...tags)

/** The role of an entry's author, as its provenance names it. */
export const roleOf = ({ operator, role }: Pick<Actor, "operator" | "role">) =>
  operator === undefined ? role : "operator"

/** The title of an entry without one: the first visible line of its text, cut to 200 bytes, as a title may be shown. */
export const firstLine = (body: string) => {
  const lines = body.split(/\r?\n/).map((line) => withoutHidden(line.replaceAll(/\p{Cc}+/gu, " ")).trim())
  return excerpt(lines.find((line) => line !== "" && findHidden(line, "line") === undefined) ?? "(blank)", 200)
}

const entryOf = ({ actor, role, session_ref, source, task_id, ...entry }: Store.EntryRow): MemoryEntry => ({
  ...entry,
  provenance: { actor, role, session_ref, task_id, source }
})

const hitOf = ({ actor, body, created_at, id, kind, role, tags, title }: SearchStore.Found) => ({
  id,
  kind,
  title,
  excerpt: excerpt(body, 400),
  tags,
  actor,
  role,
  created_at
})

const rounded = (score: number) => Math.round(score * 1000) / 1000
