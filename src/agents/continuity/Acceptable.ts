/** What text that is stored must not contain, whoever sends it. */
import { findHiddenIn } from "./Shown.ts"

/** The first field of `input` with a character that controls, reorders or hides text. The reason never repeats what was sent. */
export const findUnacceptable = (input: unknown): { readonly field: string; readonly reason: string } | undefined => {
  const hidden = findHiddenIn(input)
  if (hidden === undefined) return undefined
  return {
    field: hidden.field,
    reason: `Contains ${hidden.character}, which controls, reorders or hides text; leave it out`
  }
}
