/** What a body holds before the protocol looks at it: enough to limit, to charge and to check the scopes of its calls. */
import { Option, Result } from "effect"

/** Deeper than any message of the protocol; deeper than this a decoder could run out of stack. */
const deepest = 64

/** None: no JSON, or nested too deeply. */
export const parse = (text: string): Option.Option<unknown> =>
  isDeep(text) ? Option.none() : Result.getSuccess(Result.try(() => JSON.parse(text) as unknown))

const isDeep = (text: string) => {
  let depth = 0
  let quoted = false
  for (let at = 0; at < text.length; at += 1) {
    const character = text.charCodeAt(at)
    if (quoted) {
      if (character === 0x5c) at += 1
      else if (character === 0x22) quoted = false
    } else if (character === 0x22) quoted = true
    else if (character === 0x7b || character === 0x5b) {
      depth += 1
      if (depth > deepest) return true
    } else if (character === 0x7d || character === 0x5d) depth -= 1
  }
  return false
}

/** Of 2025-03-26 a body may be a batch. */
export const messagesOf = (body: unknown): ReadonlyArray<unknown> => (Array.isArray(body) ? body : [body])

/** The name of the tool that a message calls. */
export const calledTool = (message: unknown): string | undefined => {
  const { method, params } = membersOf(message)
  const { name } = membersOf(params)
  return method === "tools/call" && typeof name === "string" ? name : undefined
}

const membersOf = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {}
