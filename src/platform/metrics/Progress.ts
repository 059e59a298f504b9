/** How far a long command is. The command line shows it; in the server nobody looks. */
import { Context, Effect } from "effect"

export interface Progress {
  /** Adds to what there is to do. `amount` is asked only if somebody looks. */
  readonly expect: <E, R>(amount: Effect.Effect<number, E, R>) => Effect.Effect<void, E, R>
  /** Adds to what is done. */
  readonly done: (amount: number) => Effect.Effect<void>
}

export const Progress = Context.Reference<Progress>("service/Progress", {
  defaultValue: () => ({ expect: () => Effect.void, done: () => Effect.void })
})

export const expect = <E, R>(amount: Effect.Effect<number, E, R>) =>
  Effect.flatMap(Progress, (progress) => progress.expect(amount))

export const done = (amount: number) => Effect.flatMap(Progress, (progress) => progress.done(amount))
