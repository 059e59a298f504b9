/** Reads a body before the SDK does, as far as the limits, the rate and the scope check need it. */
import { Option, Result } from "effect"

/** More levels than any message of the protocol has. A decoder could overflow its stack on deeper nesting. */
const maxDepth = 64

/**
 * More values than a batch of 50 calls with all their arguments has. V8 takes up to 104 bytes for a value of three
 * characters, 24 MiB for a body of 1 MiB.
 */
const maxValues = 10_000

interface Body {
  readonly body: unknown
  /** Objects, arrays and commas: about as many as there are values. */
  readonly values: number
}

/** None if the text is not JSON, is nested too deeply or has too many values. */
export const parse = (text: string): Option.Option<Body> => {
  const values = countValues(text)
  if (values === undefined) return Option.none()
  return Result.getSuccess(Result.try((): Body => ({ body: JSON.parse(text), values })))
}

/** Undefined if there are too many, or they are nested too deeply. */
const countValues = (text: string): number | undefined => {
  let depth = 0
  let values = 0
  let quoted = false
  for (let at = 0; at < text.length; at += 1) {
    const character = text.charCodeAt(at)
    if (quoted) {
      if (character === 0x5c) at += 1
      else if (character === 0x22) quoted = false
    } else if (character === 0x22) quoted = true
    else if (character === 0x7b || character === 0x5b) {
      depth += 1
      values += 1
      if (depth > maxDepth || values > maxValues) return undefined
    } else if (character === 0x7d || character === 0x5d) depth -= 1
    else if (character === 0x2c) {
      values += 1
      if (values > maxValues) return undefined
    }
  }
  return values
}

/** The messages of a body. In revision 2025-03-26 a body can be a batch. */
export const messagesOf = (body: unknown): ReadonlyArray<unknown> => (Array.isArray(body) ? body : [body])

/** The name of the tool that a message calls, undefined for other messages. */
export const calledTool = (message: unknown): string | undefined => {
  const { method, params } = membersOf(message)
  const { name } = membersOf(params)
  return method === "tools/call" && typeof name === "string" ? name : undefined
}

/** The address that a message reads, undefined for other messages. */
export const readUri = (message: unknown): string | undefined => {
  const { method, params } = membersOf(message)
  const { uri } = membersOf(params)
  return method === "resources/read" && typeof uri === "string" ? uri : undefined
}

const membersOf = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {}
