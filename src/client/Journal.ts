/**
 * The state folder of one Bridge: `key.json`, made once, and `state.json`, replaced at every step.
 *
 * A write is done when it would survive a power cut: into a new file, fsync, rename over the old one, fsync of the folder.
 * Folder 0700, files 0600, and nothing is read from a folder that others may open.
 */
import { Context, Effect, Layer, Schema } from "effect"
import { constants } from "node:fs"
import * as fs from "node:fs/promises"
import { dirname, join, resolve } from "node:path"
import { generateKeyPair, type KeyPair } from "./Crypto.ts"
import { Base64Bytes } from "../wire/Ids.ts"
import { FolderError } from "./Errors.ts"
import { locked } from "./Lock.ts"
import { State } from "./State.ts"

export class Journal extends Context.Service<
  Journal,
  {
    /** Made and kept at the first call; the same from then on. */
    readonly keys: Effect.Effect<KeyPair, FolderError>
    readonly read: Effect.Effect<State | undefined, FolderError>
    /** Returns once it is durable. */
    readonly write: (state: State) => Effect.Effect<void, FolderError>
  }
>()("bridge-service/client/Journal") {
  /** For the one process that works with the folder; creates it. */
  static readonly layer = (folder: string) =>
    Layer.effect(
      Journal,
      Effect.gen(function* () {
        yield* attempt(folder, () => create(folder))
        yield* privately(folder)
        yield* locked(join(folder, "lock"))
        return make(folder)
      })
    )

  /** For a look at the folder while another process works with it; every write is whole, so every read is. */
  static readonly layerReading = (folder: string) => Layer.effect(Journal, Effect.as(privately(folder), make(folder)))
}

const Keys = Schema.Struct({ public_key_b64: Base64Bytes, private_key_b64: Schema.RedactedFromValue(Base64Bytes) })

const make = (folder: string) => {
  const document = <A>(name: string, schema: Schema.Codec<A, unknown>) => {
    const path = join(folder, name)
    const decode = Schema.decodeUnknownEffect(Schema.fromJsonString(schema))
    const encode = Schema.encodeEffect(Schema.fromJsonString(schema))
    const read = Effect.gen(function* () {
      const content = yield* attempt(path, () => readPrivate(path))
      if (content === undefined) return undefined
      return yield* Effect.mapError(
        decode(content),
        () =>
          new FolderError({
            message: `${path} is not what this version wrote: use the one that did, or enroll again into another folder.`
          })
      )
    })
    const write = (value: A) =>
      Effect.flatMap(Effect.orDie(encode(value)), (content) => attempt(path, () => replace(folder, path, content)))
    // A write that was given up half way would meet the next one in the same new file.
    return { read, write: (value: A) => Effect.uninterruptible(write(value)) }
  }

  const kept = document("key.json", Keys)
  const keys = Effect.gen(function* () {
    const known = yield* kept.read
    if (known !== undefined) return { publicKey: known.public_key_b64, privateKey: known.private_key_b64 }
    const fresh = yield* generateKeyPair
    yield* kept.write({ public_key_b64: fresh.publicKey, private_key_b64: fresh.privateKey })
    return fresh
  })

  return { keys, ...document("state.json", State) }
}

const create = async (folder: string) => {
  const first = await fs.mkdir(folder, { recursive: true, mode: 0o700 })
  if (first !== undefined) await syncFolder(dirname(resolve(first)))
}

/** PostgreSQL and ssh do the same: a secret that others can read has to be noticed, not used. */
const privately = Effect.fnUntraced(function* (folder: string) {
  const found = yield* attempt(folder, () => fs.stat(folder).catch(absent))
  if (found === undefined) {
    return yield* new FolderError({ message: `There is no folder ${folder}: \`bridge enroll\` makes it.` })
  }
  if ((found.mode & 0o077) !== 0) {
    return yield* new FolderError({ message: `Others may open ${folder}: chmod 700 it, or name another folder.` })
  }
})

const readPrivate = async (path: string) => {
  const file = await fs.open(path, constants.O_RDONLY | constants.O_NOFOLLOW).catch(absent)
  if (file === undefined) return undefined
  try {
    if (((await file.stat()).mode & 0o077) !== 0) throw new Error("others may read it; chmod 600 it")
    return await file.readFile("utf8")
  } finally {
    await file.close()
  }
}

const absent = (error: NodeJS.ErrnoException) => {
  if (error.code === "ENOENT") return undefined
  throw error
}

const replace = async (folder: string, path: string, content: string) => {
  const beside = `${path}.new`
  await fs.rm(beside, { force: true })
  const file = await fs.open(beside, "wx", 0o600)
  try {
    await file.writeFile(`${content}\n`)
    await file.sync()
  } finally {
    await file.close()
  }
  await fs.rename(beside, path)
  await syncFolder(folder)
}

const syncFolder = async (folder: string) => {
  const handle = await fs.open(folder, "r")
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

const attempt = <A>(path: string, work: () => Promise<A>) =>
  Effect.tryPromise({
    try: work,
    catch: (error) => new FolderError({ message: `${path}: ${(error as Error).message}.` })
  })
