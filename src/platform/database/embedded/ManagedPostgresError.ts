/** The one error of the embedded PostgreSQL. */
import { Data, Effect } from "effect"

/** One sentence that the person who starts the service can act on. */
export class ManagedPostgresError extends Data.TaggedError("ManagedPostgresError")<{ readonly message: string }> {}

/** Work on files and programs: Node's messages name the call and the path, and a program's last line of error its reason. */
export const attempt = <A>(run: (signal: AbortSignal) => A | Promise<A>) =>
  Effect.tryPromise({
    try: async (signal) => run(signal),
    catch: (cause) => {
      const { stderr, message } = cause as { readonly stderr?: string; readonly message: string }
      const lines = (stderr?.trim() || message).split("\n")
      const reason = lines.findLast((line) => /error:|FATAL:|PANIC:/.test(line)) ?? lines.at(-1)
      return new ManagedPostgresError({ message: `The embedded PostgreSQL cannot be prepared: ${reason}` })
    }
  })
