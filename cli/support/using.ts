/** The services on the database. They are imported only when a command runs, so that --help stays fast. */
import { Context, Effect } from "effect"
import type { Services } from "./Services.ts"

/** The services of the server, when it runs a command for an operator elsewhere. */
export const HeldServices = Context.Reference<Services | undefined>("cli/HeldServices", {
  defaultValue: () => undefined
})

export const using = <A, E>(work: (services: Services) => Effect.Effect<A, E>) =>
  Effect.flatMap(HeldServices, (held) =>
    held !== undefined
      ? work(held)
      : Effect.flatMap(
          Effect.promise(() => import("./Services.ts")),
          ({ withServices }) => withServices(work)
        )
  )

/** Like `using`, on a database whose schema may be of any version. */
export const usingUnmigrated = <A, E>(work: (services: Omit<Services, "migrated">) => Effect.Effect<A, E>) =>
  Effect.flatMap(
    Effect.promise(() => import("./Services.ts")),
    ({ withoutMigrating }) => withoutMigrating(work)
  )
