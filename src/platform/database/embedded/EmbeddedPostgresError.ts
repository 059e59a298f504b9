/** The one error of the embedded PostgreSQL. */
import { Data, Effect } from "effect"

/** The message is one sentence that the operator can act on. `--json` prints the tag as the code, so it must not change. */
export class EmbeddedPostgresError extends Data.TaggedError("ManagedPostgresError")<{ readonly message: string }> {}

/** Runs file operations and programs. The reason is Node's message, or the last error line that a program printed. */
export const attempt = <A>(run: (signal: AbortSignal) => A | Promise<A>) =>
  Effect.tryPromise({
    try: async (signal) => run(signal),
    catch: (cause) => {
      const { stderr, message } = cause as { readonly stderr?: string; readonly message: string }
      const lines = (stderr?.trim() || message).split("\n")
      const reason = lines.findLast((line) => /error:|FATAL:|PANIC:/.test(line)) ?? lines.at(-1)
      return new EmbeddedPostgresError({ message: `The embedded PostgreSQL cannot be prepared: ${reason}` })
    }
  })
