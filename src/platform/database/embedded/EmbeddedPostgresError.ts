/** How preparing the embedded PostgreSQL fails: in a way that may pass, or until somebody mends the data folder. */
import { Data, Effect } from "effect"
import { DataFolderError } from "../../settings/DataFolder.ts"

/** The message is one sentence that the operator can act on. `--json` prints the tag as the code, so it must not change. */
export class EmbeddedPostgresError extends Data.TaggedError("ManagedPostgresError")<{ readonly message: string }> {}

/** No retry finds a PostgreSQL that npm did not install. The process ends with exit code 78. */
export class PostgresMissing extends Data.TaggedError("PostgresMissing")<{ readonly message: string }> {}

/** Runs file operations and programs. The reason is Node's message, or the last error line that a program printed. */
export const attempt = <A>(run: (signal: AbortSignal) => A | Promise<A>) =>
  Effect.tryPromise({
    try: async (signal) => run(signal),
    catch: (cause) => {
      const { code, stderr, message } = cause as NodeJS.ErrnoException & { readonly stderr?: string }
      const lines = (stderr?.trim() || message.trim()).split("\n")
      const reason = lines.findLast((line) => /error:|FATAL:|PANIC:/.test(line)) ?? lines.at(-1)
      const sentence = `The embedded PostgreSQL cannot be prepared: ${reason}`
      return lasting.has(code ?? "")
        ? new DataFolderError({ message: `${sentence}. Mend that, or set another SERVICE_DATA_DIR.` })
        : new EmbeddedPostgresError({ message: sentence })
    }
  })

/** Codes that no retry mends: something is in the way, or rights are missing. */
const lasting = new Set([
  "EACCES",
  "EBUSY",
  "EEXIST",
  "EISDIR",
  "ELOOP",
  "ENAMETOOLONG",
  "ENOTDIR",
  "ENOTEMPTY",
  "EPERM",
  "EROFS"
])
