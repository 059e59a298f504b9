/**
 * The services of the server, when it runs a command for an operator elsewhere. By itself, so that the programs without a
 * database, which only ask whether it is set, do not bundle the server.
 */
import { Context } from "effect"
import type { Services } from "./Services.ts"

export const HeldServices = Context.Reference<Services | undefined>("cli/HeldServices", {
  defaultValue: () => undefined
})
