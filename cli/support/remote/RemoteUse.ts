/** Whether an operator may run a command from elsewhere, and with which scope. Without it, it runs only where the database is. */
import { Context } from "effect"

export type RemoteUse = "read" | "write"

/** Commands that run only where the database is; each is added where it is defined. */
export const localCommands = new Set<string>()

export const RemoteUse = Context.Reference<RemoteUse | undefined>("cli/RemoteUse", { defaultValue: () => undefined })
