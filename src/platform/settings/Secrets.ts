/**
 * The secrets of a service with the embedded database: generated once, kept in SERVICE_DATA_DIR/secrets.env (0600).
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

const names = ["SERVICE_BRIDGE_ENROLLMENT_SECRET", "SERVICE_BRIDGE_TOKEN_SECRET"]

export const generatedSecrets = Effect.fnUntraced(function* (dataDir: string) {
  const file = join(dataDir, "secrets.env")
  const contents = yield* Effect.try({
    try: () => {
      // As root, 0711: PostgreSQL's account must be able to traverse the folder. The secrets themselves are 0600.
      mkdirSync(dataDir, { recursive: true, mode: process.getuid?.() === 0 ? 0o711 : 0o700 })
      const created = createOnce(file)
      return { created, text: readFileSync(file, "utf8") }
    },
    catch: (error) => new SecretsError({ message: `${file} cannot be used: ${(error as Error).message}` })
  })
  if (contents.created)
    yield* Effect.logWarning(`Generated the service's secrets in ${file}; keep a copy of this file.`)
  return ConfigProvider.fromDotEnvContents(contents.text)
})

/** Writes a draft and links it into place: two first starts agree on one file, and no reader sees a partial file. */
const createOnce = (file: string): boolean => {
  if (existsSync(file)) return false
  const draft = `${file}.${process.pid}`
  const descriptor = openSync(draft, "w", 0o600)
  try {
    chmodSync(draft, 0o600)
    writeSync(descriptor, names.map((name) => `${name}=${randomBytes(32).toString("base64url")}\n`).join(""))
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
