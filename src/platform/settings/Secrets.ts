/**
 * The secrets of a service that runs on its own database: made once, kept in SERVICE_DATA_DIR/secrets.env (0600).
 *
 * With DATABASE_URL nothing is generated: there the operator provides them (contract section 1).
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

/** secrets.env cannot be read or written; the message says which path and why. */
export class SecretsError extends Data.TaggedError("SecretsError")<{ readonly message: string }> {}

const names = ["SERVICE_BRIDGE_ENROLLMENT_SECRET", "SERVICE_BRIDGE_TOKEN_SECRET"]

export const generatedSecrets = Effect.fnUntraced(function* (dataDir: string) {
  const file = join(dataDir, "secrets.env")
  const contents = yield* Effect.try({
    try: () => {
      // As root, PostgreSQL runs as another account and has to pass through; the secrets themselves are 0600.
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

/** Written beside and linked into place: two first starts at once agree on one file, and nobody reads half of it. */
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
