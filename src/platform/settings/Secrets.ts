/**
 * The secrets of a service with the embedded database: generated once, kept in SERVICE_DATA_DIR/secrets.env (0600).
 * A secret that a later release needs is appended at its first start.
 *
 * With DATABASE_URL nothing is generated; the operator provides the secrets (decisions.md, Secrets).
 */
import { ConfigProvider, Data, Effect } from "effect"
import { randomBytes } from "node:crypto"
import {
  chmodSync,
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  writeSync
} from "node:fs"
import { join } from "node:path"

/** secrets.env cannot be read or written; the message names the path and the reason. */
export class SecretsError extends Data.TaggedError("SecretsError")<{ readonly message: string }> {}

const names = ["SERVICE_BRIDGE_ENROLLMENT_SECRET", "SERVICE_BRIDGE_TOKEN_SECRET", "SERVICE_OAUTH_SECRET"]

export const generatedSecrets = Effect.fnUntraced(function* (dataDir: string) {
  const file = join(dataDir, "secrets.env")
  const created = yield* using(file, () => {
    // As root, 0711: PostgreSQL's account must be able to traverse the folder. The secrets themselves are 0600.
    mkdirSync(dataDir, { recursive: true, mode: process.getuid?.() === 0 ? 0o711 : 0o700 })
    return createOnce(file)
  })
  if (created) yield* Effect.logWarning(`Generated the service's secrets in ${file}; keep a copy of this file.`)
  else yield* appendMissing(file)
  return yield* storedSecrets(dataDir)
})

/** Changes nothing. */
export const storedSecrets = (dataDir: string) => {
  const file = join(dataDir, "secrets.env")
  return using(file, () => ConfigProvider.fromDotEnvContents(firstOfEachName(readFileSync(file, "utf8"))))
}

const using = <A>(file: string, use: () => A) =>
  Effect.try({
    try: use,
    catch: (error) => new SecretsError({ message: `${file} cannot be used: ${(error as Error).message}` })
  })

const fresh = (wanted: ReadonlyArray<string>) =>
  wanted.map((name) => `${name}=${randomBytes(32).toString("base64url")}\n`).join("")

/** Writes a draft and links it into place: two first starts agree on one file, and no reader sees a partial file. */
const createOnce = (file: string): boolean => {
  if (existsSync(file)) return false
  const draft = `${file}.${process.pid}`
  const descriptor = openSync(draft, "w", 0o600)
  try {
    chmodSync(draft, 0o600)
    writeSync(descriptor, fresh(names))
    fsyncSync(descriptor)
    linkSync(draft, file)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false
    throw error
  } finally {
    closeSync(descriptor)
    rmSync(draft, { force: true })
  }
}

/**
 * Appends the secrets that an older release did not know, in one write. If two processes append at once, both use the
 * first line. A file that cannot be written stops no start: the older release did not need these secrets either.
 */
const appendMissing = (file: string) =>
  Effect.gen(function* () {
    const text = yield* using(file, () => readFileSync(file, "utf8"))
    const missing = names.filter((name) => !text.split("\n").some((line) => nameOf(line) === name))
    if (missing.length === 0) return
    yield* using(file, () => {
      const descriptor = openSync(file, "a")
      try {
        writeSync(descriptor, (text === "" || text.endsWith("\n") ? "" : "\n") + fresh(missing))
        fsyncSync(descriptor)
      } finally {
        closeSync(descriptor)
      }
    })
    yield* Effect.logWarning(`Added ${missing.join(", ")} to ${file}; keep a copy of this file.`)
  }).pipe(Effect.catch(({ message }) => Effect.logWarning(`No secret was added: ${message}`)))

const nameOf = (line: string) => /^\s*(?:export\s+)?(\w+)\s*=/.exec(line)?.[1]

const firstOfEachName = (text: string) => {
  const seen = new Set<string>()
  return text
    .split("\n")
    .filter((line) => {
      const name = nameOf(line)
      return name === undefined || (!seen.has(name) && seen.add(name))
    })
    .join("\n")
}
