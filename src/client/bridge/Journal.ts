/**
 * The state folder of one Bridge: `key.json`, with its key and the one that is to follow, and `state.json`. Each is replaced as a
 * whole at every step. `access.json` keeps an access token of ten minutes, which can be lost.
 *
 * Every write survives a power cut once it returns: it goes into a new file, fsync, rename over the old file, fsync of
 * the folder. The folder has mode 0700 and its files 0600; nothing is read from a folder that other accounts can open.
 */
import { Context, Effect, Layer, type Redacted, Schema } from "effect"
import { constants } from "node:fs"
import * as fs from "node:fs/promises"
import { dirname, join, resolve } from "node:path"
import { generateKeyPair, type KeyPair } from "../Crypto.ts"
import { Base64Bytes, IdempotencyKey } from "../../wire/Ids.ts"
import { FolderError, folderFailure, type FolderUnavailable } from "../Errors.ts"
import { locked } from "./Lock.ts"
import { Access, State } from "./State.ts"

/**
 * The key rotation under way: the new key, and the Idempotency-Keys of its requests. The old key stays beside it until it is
 * known which of the two counts.
 */
export interface KeyRotation {
  readonly keys: KeyPair
  readonly prepare_key: string
  readonly confirm_key: string
  readonly abort_key: string
}

export class Journal extends Context.Service<
  Journal,
  {
    /** Generated and stored at the first call; read from the folder afterwards. */
    readonly keys: Effect.Effect<KeyPair, FolderError | FolderUnavailable>
    readonly keyRotation: Effect.Effect<KeyRotation | undefined, FolderError | FolderUnavailable>
    /** Returns once the keys are durable. Without a key rotation, the one under way is over. */
    readonly writeKeys: (keys: KeyPair, rotation?: KeyRotation) => Effect.Effect<void, FolderError | FolderUnavailable>
    readonly read: Effect.Effect<State | undefined, FolderError | FolderUnavailable>
    /** Returns once the state is durable. */
    readonly write: (state: State) => Effect.Effect<void, FolderError | FolderUnavailable>
    /** The access token that was kept last; undefined if there is none, or it cannot be read. */
    readonly access: Effect.Effect<Access | undefined>
    /** Keeps an access token, if it can. Needs no lock: a torn file reads as none. */
    readonly keepAccess: (access: Access) => Effect.Effect<void>
  }
>()("bridge-service/client/Journal") {
  /** Creates the folder if needed and locks it for this process. */
  static readonly layer = (folder: string) =>
    Layer.effect(
      Journal,
      Effect.gen(function* () {
        yield* attempt(folder, () => create(folder))
        yield* requirePrivate(folder)
        yield* locked(join(folder, "lock"))
        return make(folder)
      })
    )

  /** Reads without the lock while another process works with the folder. Writes are atomic, so a read is never torn. */
  static readonly layerReading = (folder: string) =>
    Layer.effect(Journal, Effect.as(requirePrivate(folder), make(folder)))
}

const keyPair = { public_key_b64: Base64Bytes, private_key_b64: Schema.RedactedFromValue(Base64Bytes) }
const Keys = Schema.Struct({
  ...keyPair,
  next: Schema.optional(
    Schema.Struct({ ...keyPair, prepare_key: IdempotencyKey, confirm_key: IdempotencyKey, abort_key: IdempotencyKey })
  )
})

const encodeAccess = Schema.encodeEffect(Schema.fromJsonString(Access))

const pairOf = ({ private_key_b64, public_key_b64 }: Omit<typeof Keys.Type, "next">): KeyPair => ({
  publicKey: public_key_b64,
  privateKey: private_key_b64
})
const storedPair = ({ privateKey, publicKey }: KeyPair) => ({
  public_key_b64: new Uint8Array(publicKey),
  private_key_b64: privateKey as Redacted.Redacted<Uint8Array<ArrayBuffer>>
})

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
            message: `${path} was not written by this version: use the version that wrote it, or enroll again into another folder.`
          })
      )
    })
    const write = (value: A) =>
      Effect.flatMap(Effect.orDie(encode(value)), (content) => attempt(path, () => replace(folder, path, content)))
    // An interrupted write would leave its file open and collide with the next write to it.
    return { read, write: (value: A) => Effect.uninterruptible(write(value)) }
  }

  const keyFile = document("key.json", Keys)
  const keys = Effect.gen(function* () {
    const stored = yield* keyFile.read
    if (stored !== undefined) return pairOf(stored)
    const fresh = yield* generateKeyPair
    yield* keyFile.write(storedPair(fresh))
    return fresh
  })
  const keyRotation = Effect.map(keyFile.read, (stored): KeyRotation | undefined => {
    if (stored?.next === undefined) return undefined
    const { private_key_b64, public_key_b64, ...requests } = stored.next
    return { keys: pairOf({ private_key_b64, public_key_b64 }), ...requests }
  })
  const writeKeys = (current: KeyPair, rotation?: KeyRotation) => {
    if (rotation === undefined) return keyFile.write(storedPair(current))
    const { keys, ...requests } = rotation
    return keyFile.write({ ...storedPair(current), next: { ...storedPair(keys), ...requests } })
  }

  const accessPath = join(folder, "access.json")
  const access = document("access.json", Access).read.pipe(Effect.orElseSucceed(() => undefined))
  const keepAccess = (access: Access) =>
    encodeAccess(access).pipe(
      Effect.flatMap((content) => attempt(accessPath, () => overwrite(accessPath, content))),
      Effect.ignore
    )

  return { keys, keyRotation, writeKeys, access, keepAccess, ...document("state.json", State) }
}

const create = async (folder: string) => {
  // Resolved, because in a working directory that was removed Node would try a relative path for ever.
  const first = await fs.mkdir(resolve(folder), { recursive: true, mode: 0o700 })
  if (first !== undefined) await syncFolder(dirname(first))
}

/** Refuses a folder that other accounts can open, instead of fixing its mode: the secret may have been read already. */
const requirePrivate = Effect.fnUntraced(function* (folder: string) {
  const found = yield* attempt(folder, () => fs.stat(folder).catch(undefinedIfAbsent))
  if (found === undefined) {
    return yield* new FolderError({ message: `There is no folder ${folder}: enroll creates it.` })
  }
  if ((found.mode & 0o077) !== 0) {
    return yield* new FolderError({
      message: `Other accounts can open ${folder}: run chmod 700 on it, or use another folder.`
    })
  }
})

const readPrivate = async (path: string) => {
  const file = await fs.open(path, constants.O_RDONLY | constants.O_NOFOLLOW).catch(undefinedIfAbsent)
  if (file === undefined) return undefined
  try {
    if (((await file.stat()).mode & 0o077) !== 0) throw new Error("other accounts can read it: run chmod 600 on it")
    return await file.readFile("utf8")
  } finally {
    await file.close()
  }
}

const undefinedIfAbsent = (error: NodeJS.ErrnoException) => {
  if (error.code === "ENOENT") return undefined
  throw error
}

const overwrite = async (path: string, content: string) => {
  const { O_CREAT, O_NOFOLLOW, O_TRUNC, O_WRONLY } = constants
  const file = await fs.open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0o600)
  try {
    await file.writeFile(`${content}\n`)
  } finally {
    await file.close()
  }
}

const replace = async (folder: string, path: string, content: string) => {
  const temporary = `${path}.new`
  await fs.rm(temporary, { force: true })
  const file = await fs.open(temporary, "wx", 0o600)
  try {
    await file.writeFile(`${content}\n`)
    await file.sync()
  } finally {
    await file.close()
  }
  await fs.rename(temporary, path)
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
  Effect.tryPromise({ try: work, catch: (error) => folderFailure(path, error) })
