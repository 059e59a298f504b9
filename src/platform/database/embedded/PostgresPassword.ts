/**
 * The password of the embedded PostgreSQL. Its system account may be shared (`postgres`, `nobody`); with the password,
 * whoever else runs as that account is not let in as superuser.
 *
 * 1. The service makes the password, and keeps it in the data folder (0600), which belongs to the service's account.
 * 2. Before a server starts whose pg_hba.conf does not ask for this password, PostgreSQL's single-user mode sets it.
 * 3. Only then pg_hba.conf is replaced. After a kill in between, the next start repeats step 2.
 * So a folder of 0.1.0, which trusted local connections, changes over at its next start; and a lost password
 * is made anew.
 */
import { Effect, Redacted } from "effect"
import { execFile } from "node:child_process"
import { createHash, randomBytes } from "node:crypto"
import * as fs from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { passwordFile } from "../../settings/DataFolder.ts"
import { createOnce, replace } from "../../settings/WholeFile.ts"
import { attempt } from "./EmbeddedPostgresError.ts"
import type { PostgresFiles } from "./PostgresFiles.ts"
import { Absent, environmentOf } from "./Postmaster.ts"

export const passwordOf = (data: string) => {
  const file = passwordFile(data)
  createOnce(file, `${randomBytes(32).toString("base64url")}\n`)
  return Redacted.make(fs.readFileSync(file, "utf8").trim())
}

/** For a folder that no PostgreSQL uses; fails while one does. */
export const requirePassword = Effect.fnUntraced(function* (files: PostgresFiles) {
  const file = join(files.directory, "pg_hba.conf")
  const wanted = rules(files.password)
  if (yield* attempt(() => fs.readFileSync(file, "utf8") === wanted)) return
  yield* setPassword(files)
  yield* attempt(() => replace(file, wanted, files.account))
})

/** The hash tells a password that was made anew from the one that is set. TCP connections match no line. */
const rules = (password: PostgresFiles["password"]) =>
  `# Written by the service, also over changes. The password's SHA-256 is
# ${createHash("sha256").update(Redacted.value(password)).digest("hex")}
local all all scram-sha-256
`

/** What PostgreSQL says goes into its log. */
const setPassword = Effect.fnUntraced(function* (files: PostgresFiles) {
  const running = promisify(execFile)(files.postgres, ["--single", "-D", files.directory, ...quiet, "postgres"], {
    ...files.account,
    env: environmentOf(files.directory),
    cwd: "/"
  })
  // A program that ends before it has read this is refused by its exit code; an error nobody hears would end the process.
  running.child.stdin?.on("error", () => {})
  running.child.stdin?.end(`alter role postgres password '${Redacted.value(files.password)}'\n`)
  yield* Effect.tryPromise({
    try: () => running,
    catch: (error) => {
      fs.appendFileSync(files.log, String((error as { readonly stderr?: string }).stderr))
      return new Absent()
    }
  })
})

/** Without `exit_on_error` a failed statement would count as success. The log must not quote the statement. */
const quiet = [
  "exit_on_error=on",
  "password_encryption=scram-sha-256",
  "log_min_messages=log",
  "log_min_error_statement=panic",
  "log_statement=none"
].flatMap((setting) => ["-c", setting])
