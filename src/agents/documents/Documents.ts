/**
 * Pinned documents (spec 4.11): the operator imports a file of a commit once, and agents read it from the database.
 *
 * A pin names repository, commit and path, and its bytes never change. Every read checks git's hash and SHA-256 again.
 */
import { Context, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { Audit } from "../../platform/audit/Audit.ts"
import { uuidAt } from "../../platform/crypto/Random.ts"
import { equal, sha256 } from "../../platform/crypto/Sha256.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import { projectExists } from "../../platform/sql/ProjectExists.ts"
import type { Actor } from "../../wire/Actor.ts"
import { withDetails } from "../../wire/Refusal.ts"
import type { Unavailable } from "../continuity/Errors.ts"
import type { DocumentFragment, DocumentGet, DocumentReference, PinnedDocument } from "./Shapes.ts"
import { type DocumentRefusal, refuse } from "./Errors.ts"
import { boundaryBefore, endOf, lineAt, lineCount, offsetOfLine } from "./Fragment.ts"
import { isBlob, readFile } from "./Git.ts"
import * as Store from "./DocumentStore.ts"
import type { Page } from "../../platform/sql/Page.ts"
import { CurrentOperator } from "../../platform/settings/Operator.ts"

export interface Pin {
  readonly project_id: string
  /** A clone on this machine. It is read once, and its path is not stored. */
  readonly directory: string
  /** The name that agents see for the repository. */
  readonly repository: string
  readonly commit: string
  readonly path: string
  readonly title: string
  readonly bootstrap: boolean
}

/** The errors of reading the file from git. */
type Unreadable = Effect.Error<ReturnType<typeof readFile>>

export class Documents extends Context.Service<
  Documents,
  {
    /** Pinning the same file of the same commit again keeps its id and updates title and `bootstrap`. */
    readonly pin: (
      pin: Pin
    ) => Effect.Effect<
      { readonly document_id: string; readonly blob_oid: string; readonly size_bytes: number },
      Unavailable | Unreadable | DocumentRefusal<"project_not_found" | "document_unavailable">
    >
    /** In the order of creation. */
    readonly list: (
      project_id: string,
      page: Page
    ) => Effect.Effect<ReadonlyArray<PinnedDocument>, Unavailable | DocumentRefusal<"project_not_found">>
    readonly unpin: (document_id: string) => Effect.Effect<void, Unavailable | DocumentRefusal<"document_not_found">>
    /** At most 50 references, bootstrap documents first. */
    readonly references: (actor: Actor) => Effect.Effect<ReadonlyArray<DocumentReference>, Unavailable>
    readonly fragment: (
      actor: Actor,
      input: DocumentGet
    ) => Effect.Effect<
      DocumentFragment,
      Unavailable | DocumentRefusal<"document_not_pinned" | "document_fragment_invalid" | "document_unavailable">
    >
  }
>()("service/documents/Documents") {
  static readonly layer = Layer.effect(
    Documents,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const audit = yield* Audit
      const store = Store.make(sql)

      const checkProject = Effect.fnUntraced(function* (project_id: string) {
        if (!(yield* projectExists(sql, project_id))) return yield* refuse("project_not_found")
      })

      const pin = Effect.fn("Documents.pin")(function* ({ directory, ...place }: Pin) {
        yield* persistence(checkProject(place.project_id))
        const file = yield* readFile(directory, place.commit, place.path)
        return yield* keep(place, file)
      })

      const keep = Effect.fnUntraced(
        function* (
          place: Omit<Pin, "directory">,
          { blob_oid, bytes, mode }: Effect.Success<ReturnType<typeof readFile>>
        ) {
          const now = yield* clock.now
          const blob = { blob_oid, sha256: sha256(bytes), line_count: lineCount(bytes), bytes }
          if ((yield* store.keepBlob(blob)).length === 0) return yield* refuse("document_unavailable")
          const candidate = { ...place, mode, document_id: yield* uuidAt(now) }
          const pinned = yield* store.pin(candidate, blob_oid, now)
          if (Option.isNone(pinned)) {
            const { document_id } = Option.getOrThrow(yield* store.findPin(candidate))
            return { document_id, blob_oid, size_bytes: bytes.length }
          }
          const { document_id } = pinned.value
          yield* audit.done(now, {
            action: "document.pinned",
            project_id: place.project_id,
            actor: yield* CurrentOperator,
            subject: { document_id, blob_oid, commit: place.commit }
          })
          return { document_id, blob_oid, size_bytes: bytes.length }
        },
        sql.withTransaction,
        persistence
      )

      const list = Effect.fn("Documents.list")(function* (project_id: string, page: Page) {
        yield* checkProject(project_id)
        return yield* store.list(project_id, page)
      }, persistence)

      const unpin = Effect.fn("Documents.unpin")(
        function* (document_id: string) {
          const now = yield* clock.now
          const unpinned = yield* store.unpin(document_id)
          if (Option.isNone(unpinned)) return yield* refuse("document_not_found")
          yield* store.dropUnused(unpinned.value.blob_oid)
          yield* audit.done(now, {
            action: "document.unpinned",
            project_id: unpinned.value.project_id,
            actor: yield* CurrentOperator,
            subject: { document_id }
          })
        },
        sql.withTransaction,
        persistence
      )

      const references = Effect.fn("Documents.references")(
        ({ project_id }: Actor) => store.first(project_id, 50),
        persistence
      )

      const fragment = Effect.fn("Documents.fragment")(function* ({ project_id }: Actor, input: DocumentGet) {
        const found = yield* store.find(project_id, input.document_id)
        if (Option.isNone(found)) return yield* refuse("document_not_pinned")
        const { blob_oid, bytes, commit, path } = found.value
        if (!isBlob(blob_oid, bytes) || !equal(sha256(bytes), found.value.sha256)) {
          yield* Effect.logError("A pinned document is damaged").pipe(Effect.annotateLogs({ blob_oid }))
          return yield* refuse("document_unavailable")
        }
        const offset = yield* startOf(bytes, blob_oid, input)
        const end_offset = endOf(bytes, offset, input.max_bytes ?? 8192)
        const eof = end_offset === bytes.length
        return {
          document_id: input.document_id,
          commit,
          path,
          blob_oid,
          offset,
          end_offset,
          total_bytes: bytes.length,
          start_line: lineAt(bytes, offset),
          end_line: lineAt(bytes, Math.max(offset, end_offset - 1)),
          text: asText(bytes.subarray(offset, end_offset)),
          next_offset: eof ? null : end_offset,
          eof
        }
      }, persistence)

      return { pin, list, unpin, references, fragment }
    })
  )
}

/**
 * The byte where the fragment starts. An offset inside a character, or of another blob, is refused with the facts to
 * correct it; moving it silently would lose or repeat text.
 */
const startOf = Effect.fnUntraced(function* (
  bytes: Uint8Array,
  blob_oid: string,
  { expected_blob_oid, offset, start_line }: DocumentGet
) {
  const facts = { blob_oid, total_bytes: bytes.length }
  const invalid = (more: { readonly boundary?: number } = {}) =>
    withDetails(refuse("document_fragment_invalid"), { ...facts, ...more })
  if (expected_blob_oid !== undefined && expected_blob_oid !== blob_oid) return yield* invalid()
  if (offset !== undefined && start_line !== undefined) return yield* invalid()
  const start = start_line === undefined ? (offset ?? 0) : offsetOfLine(bytes, start_line)
  if (start === undefined || start > bytes.length) return yield* invalid({ boundary: bytes.length })
  const boundary = boundaryBefore(bytes, start)
  return boundary === start ? start : yield* invalid({ boundary })
})

/** Keeps a byte order mark, because it is part of the blob. */
const decoder = new TextDecoder("utf-8", { ignoreBOM: true })
const asText = (bytes: Uint8Array) => decoder.decode(bytes)
