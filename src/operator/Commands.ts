/**
 * The commands that an operator may run from elsewhere. They are defined in cli/; main.ts hands them to the server, so
 * that a command does the same from either place.
 */
import { Context, type Effect } from "effect"
import type { Refusal } from "../wire/Refusal.ts"
import type { OperatorScope } from "./tokens/Scopes.ts"

/** The flags of a command by name, without dashes. A flag that may be repeated takes a list, a switch true. */
export type Flags = Readonly<Record<string, string | number | boolean | ReadonlyArray<string>>>

export interface RemoteCommand {
  readonly scope: OperatorScope
  /** Returns what the command prints with --json. A flag that it does not have fails with `invalid_request`. */
  readonly run: (flags: Flags) => Effect.Effect<string, Refusal>
}

/** Without main.ts, in a test of another part, there are none. */
export const Commands = Context.Reference<{
  /** `local` is a command that runs only where the database is. */
  readonly find: (name: string) => RemoteCommand | "local" | undefined
}>("service/operator/Commands", { defaultValue: () => ({ find: () => undefined }) })
