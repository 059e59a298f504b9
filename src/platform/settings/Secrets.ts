/**
 * The secrets of a service with the embedded database, kept in SERVICE_DATA_DIR/secrets.env (0600).
 *
 * The first start generates them, and so does the first start of a release that needs more. A secret that is gone although
 * there is a database is not replaced: answers to retries, push tokens and backups depend on it, so the start stops.
 * With DATABASE_URL nothing is generated; the operator provides the secrets (decisions.md, Secrets).
 */
import { Config, ConfigProvider, Data, Effect, Option } from "effect"
import { randomBytes } from "node:crypto"
import * as fs from "node:fs"
import { parseEnv } from "node:util"
import { DataFolderError, isMade, makeFolder, secretsFile, whatIsUnsafe } from "./DataFolder.ts"
import { createOnce, replace } from "./WholeFile.ts"

/** secrets.env cannot be read or written, or lacks a secret; the message names the path and the reason. */
export class SecretsError extends Data.TaggedError("SecretsError")<{ readonly message: string }> {}

/** What each release brought, the oldest first. */
const releases = [
  ["SERVICE_BRIDGE_ENROLLMENT_SECRET", "SERVICE_BRIDGE_TOKEN_SECRET"],
  ["SERVICE_OAUTH_SECRET", "SERVICE_BACKUP_KEY"]
]
const generated = releases.flat()

/** Any other setting belongs into the environment: whoever writes a file of secrets must not choose a base URL. */
const supplied = new Set([
  ...generated,
  "SERVICE_BRIDGE_ENROLLMENT_SECRET_PREVIOUS",
  "SERVICE_BRIDGE_TOKEN_SECRET_PREVIOUS",
  "SERVICE_OAUTH_SECRET_PREVIOUS",
  "SERVICE_PUSH_TOKEN_KEYS",
  "SERVICE_PUSH_LOOKUP_KEY",
  "SERVICE_PUSH_LOOKUP_KEY_PREVIOUS"
])

/** Adds what is missing from secrets.env, then reads it. */
export const generatedSecrets = Effect.fnUntraced(function* (dataDir: string) {
  const file = secretsFile(dataDir)
  const added = yield* using(dataDir, () => {
    // As root, 0711: PostgreSQL's account must be able to traverse the folder. The secrets themselves are 0600.
    makeFolder(dataDir, process.getuid?.() === 0 ? 0o711 : 0o700)
    return complete(file)
  })
  if (added.length > 0)
    yield* Effect.logWarning(`Generated the service's secrets in ${file}; keep a copy of this file.`).pipe(
      Effect.annotateLogs({ settings: added.join(", ") })
    )
  return yield* keptSecrets(dataDir)
})

/**
 * What `generatedSecrets` will supply, for as far as other settings depend on it: random values stand for what is missing.
 * Changes nothing.
 */
export const proposedSecrets = (dataDir: string) =>
  Effect.map(
    using(dataDir, () => textOf(secretsFile(dataDir))),
    (text) => supplying({ ...parse(text), ...Object.fromEntries(missingFrom(text).map((name) => [name, random()])) })
  )

/** Reads secrets.env and changes nothing. */
export const keptSecrets = Effect.fnUntraced(function* (dataDir: string) {
  const file = secretsFile(dataDir)
  const present = yield* using(dataDir, () => parse(textOf(file)))
  const ignored = Object.keys(present).filter((name) => name.startsWith("SERVICE_") && !supplied.has(name))
  if (ignored.length > 0)
    yield* Effect.logWarning(`Settings other than secrets are ignored in ${file}; set them in the environment.`).pipe(
      Effect.annotateLogs({ ignored: ignored.join(", ") })
    )
  return supplying(present)
})

const supplying = (present: NodeJS.Dict<string>) =>
  ConfigProvider.fromEnv({
    env: Object.fromEntries(Object.entries(present).filter(([name]) => supplied.has(name))) as Record<string, string>
  })

const random = () => randomBytes(32).toString("base64url")

const using = Effect.fnUntraced(function* <A>(dataDir: string, work: () => A) {
  const message = whatIsUnsafe(dataDir)
  if (message !== undefined) return yield* new DataFolderError({ message })
  const file = secretsFile(dataDir)
  const lost = yield* attempt(file, () => (isMade(dataDir) ? lostFrom(textOf(file)) : []))
  const needed = yield* Effect.filter(lost, isUnset)
  if (needed.length > 0)
    return yield* new SecretsError({
      message: `${file} lacks ${needed.join(" and ")}, which an earlier start wrote there: put your copy of the file back. If there is none, add a line NAME=VALUE for each, with the output of openssl rand -base64 32.`
    })
  return yield* attempt(file, work)
})

const attempt = <A>(file: string, work: () => A) =>
  Effect.try({
    try: work,
    catch: (error) => new SecretsError({ message: `${file} cannot be used: ${(error as Error).message}` })
  })

/** The environment goes before secrets.env. */
const isUnset = (name: string) => Effect.map(Effect.option(Config.NonEmptyString(name)), Option.isNone)

/**
 * The secrets that a file beside a database must have had. Those of the oldest release are as old as the database. A later
 * release adds all of its own at once, so either all are missing, because its first start is still to come, or none.
 */
const lostFrom = (text: string) => {
  const missing = missingFrom(text)
  return releases.flatMap((names, release) => {
    const gone = names.filter((name) => missing.includes(name))
    return release > 0 && gone.length === names.length ? [] : gone
  })
}

/**
 * Returns the names that it added.
 *
 * 1. Write the missing lines to a file of their own. Of two processes, the second one finds that file and takes it over.
 * 2. Replace secrets.env by its text and those lines. Both processes write the same, whoever is later.
 * 3. Remove the file of step 1. A process that creates it again finds nothing missing in step 2.
 * A kill between two steps leaves a whole secrets.env, and the next start goes on with the same lines.
 */
const complete = (file: string): ReadonlyArray<string> => {
  const proposal = `${file}.new`
  const missing = missingFrom(textOf(file))
  let added: ReadonlyArray<string> = []
  if (missing.length > 0) {
    createOnce(proposal, missing.map((name) => `${name}=${random()}\n`).join(""))
    const proposed = parse(textOf(proposal))
    const text = textOf(file)
    added = missingFrom(text).filter((name) => proposed[name] !== undefined)
    const whole = text === "" || text.endsWith("\n") ? text : `${text}\n`
    if (added.length > 0) replace(file, whole + added.map((name) => `${name}=${proposed[name]}\n`).join(""))
  }
  fs.rmSync(proposal, { force: true })
  // The proposal may have been of another release, which needs other names.
  return missingFrom(textOf(file)).length > 0 ? [...added, ...complete(file)] : added
}

const missingFrom = (text: string) => {
  const present = parse(text)
  return generated.filter((name) => !present[name])
}

/** Node takes a line for the value of the line before, if that ends in spaces: `NAME= `. */
const parse = (text: string) =>
  parseEnv(
    text
      .split("\n")
      .map((line) => line.trimEnd())
      .join("\n")
  )

const textOf = (file: string) => {
  try {
    return fs.readFileSync(file, "utf8")
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return ""
    throw error
  }
}
