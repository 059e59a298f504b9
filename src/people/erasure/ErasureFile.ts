/**
 * The record that keeps a restored backup from bringing back what was erased (decisions.md, Erasure): a file of JSON lines
 * beside the database, with ids and times only.
 *
 *     {"erasure_id":…,"state":"prepared","instance_id":…,"kind":…,"project_id":…,…}   before the transaction commits
 *     {"erasure_id":…,"state":"committed"}                                            after it, or "withdrawn"
 *
 * Each line is on the disk before the next step. A crash leaves a line open or cuts off the last one; an open one is settled
 * later, and a cut one belongs to a transaction that never committed. Several processes may append to one file.
 */
import { Data, Effect, Schema } from "effect"
import { open, readFile } from "node:fs/promises"
import { dirname } from "node:path"

/** The message names the path and the reason. */
export class ErasureFileError extends Data.TaggedError("ErasureFileError")<{ readonly message: string }> {}

const at = Schema.NullOr(Schema.DateFromString)

export const Erased = Schema.Struct({
  kind: Schema.Literals(["memory", "task", "document", "project", "retention", "subject"]),
  project_id: Schema.String,
  /** The entry, task, document or project token; null for a project and for a retention period. */
  target_id: Schema.NullOr(Schema.String),
  /** For a retention period: what was written before these instants is gone. */
  memory_before: at,
  receipts_before: at
})
export type Erased = typeof Erased.Type

const Prepared = Schema.Struct({
  erasure_id: Schema.String,
  state: Schema.Literal("prepared"),
  instance_id: Schema.String,
  at: Schema.DateFromString,
  ...Erased.fields
})
export type Prepared = typeof Prepared.Type

const Settled = Schema.Struct({ erasure_id: Schema.String, state: Schema.Literals(["committed", "withdrawn"]) })
const Line = Schema.fromJsonString(Schema.Union([Prepared, Settled]))
const encode = Schema.encodeSync(Line)
const decode = Schema.decodeUnknownOption(Line)

/** Makes an empty file if there is none: a restore wants the file though nothing was ever erased. */
export const create = (path: string) =>
  Effect.tryPromise({
    try: async () => (await open(path, "a", 0o600)).close(),
    catch: (error) => failure(path, "written", error)
  })

/** Appends a line and waits until it is on the disk. */
const append = (path: string, line: typeof Line.Type) =>
  Effect.tryPromise({
    try: async () => {
      const file = await open(path, "a+", 0o600)
      try {
        const { size } = await file.stat()
        const last = size === 0 ? "\n" : (await file.read(Buffer.alloc(1), 0, 1, size - 1)).buffer.toString()
        // What a crash cut off must not swallow this line.
        await file.appendFile(`${last === "\n" ? "" : "\n"}${encode(line)}\n`)
        await file.sync()
        if (size === 0) await syncFolder(dirname(path))
      } finally {
        await file.close()
      }
    },
    catch: (error) => failure(path, "written", error)
  })

/** Without this, a new file may not survive a power cut. */
const syncFolder = async (path: string) => {
  const folder = await open(path, "r")
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

const failure = (path: string, done: string, error: unknown) =>
  new ErasureFileError({
    message: `${path} cannot be ${done}: ${(error as NodeJS.ErrnoException).code ?? "unknown reason"}.`
  })

export const prepare = (path: string, line: Omit<Prepared, "state">) => append(path, { ...line, state: "prepared" })

export const settle = (path: string, erasure_id: string, state: "committed" | "withdrawn") =>
  append(path, { erasure_id, state })

export interface Read {
  /** In the order in which they were prepared. */
  readonly committed: ReadonlyArray<Prepared>
  readonly open: ReadonlyArray<Prepared>
}

export const read = Effect.fnUntraced(function* (path: string) {
  const text = yield* Effect.tryPromise({
    try: () => readFile(path, "utf8"),
    catch: (error) => failure(path, "read", error)
  })
  const prepared = new Map<string, Prepared>()
  const states = new Map<string, "committed" | "withdrawn">()
  for (const [index, line] of text.split("\n").entries()) {
    // The file grows for years. Requests go first.
    if (index % 1000 === 999) yield* Effect.yieldNow
    // A line that a crash cut off has no end.
    if (!line.endsWith("}")) continue
    const found = decode(line)
    if (found._tag === "None") {
      return yield* new ErasureFileError({ message: `${path}, line ${index + 1}, is not a line of an erasure file.` })
    }
    if (found.value.state === "prepared") prepared.set(found.value.erasure_id, found.value)
    else states.set(found.value.erasure_id, found.value.state)
  }
  const all = [...prepared.values()]
  return {
    committed: all.filter(({ erasure_id }) => states.get(erasure_id) === "committed"),
    open: all.filter(({ erasure_id }) => !states.has(erasure_id))
  } satisfies Read
})
