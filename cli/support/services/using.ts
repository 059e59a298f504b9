/** The services on the database. They are imported only when a command runs, so that --help stays fast. */
import { Effect } from "effect"
import { HeldServices } from "./HeldServices.ts"
import type { Services } from "./Services.ts"

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
