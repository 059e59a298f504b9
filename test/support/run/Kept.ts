/** A text that a file beside the test keeps. `npx vitest run FILE -u` writes it anew after a change that is meant. */
import { Effect } from "effect"
import { expect } from "vitest"

export const assertKept = (text: string, file: string): Effect.Effect<void> =>
  Effect.promise(() => expect(text).toMatchFileSnapshot(file))
