/**
 * JSON Web Tokens that callers sign (RFC 7519), in compact form.
 *
 * Parsing is strict, so that no two readers understand one token differently: no padding, no member twice, no header
 * parameter that has to be understood, at most 2048 characters, a signature of 64 bytes.
 */

export interface Jwt {
  readonly header: Readonly<Record<string, unknown>>
  readonly claims: Readonly<Record<string, unknown>>
  /** The bytes that are signed. */
  readonly message: Uint8Array
  readonly signature: Uint8Array
}

/** Undefined for any other text. A part that is not one object reads as an empty one: its members are missing. */
export const parse = (text: string): Jwt | undefined => {
  const parts = text.length > longest ? null : compact.exec(text)
  if (parts === null) return undefined
  const [, header = "", claims = "", last = ""] = parts
  const signature = bytesIn(last)
  if (signature === undefined) return undefined
  const message = Buffer.from(text.slice(0, text.lastIndexOf(".")))
  return { header: objectIn(header), claims: objectIn(claims), message, signature }
}

const longest = 2048
const compact = /^([A-Za-z0-9_-]{1,2048})\.([A-Za-z0-9_-]{1,2048})\.([A-Za-z0-9_-]{86})$/

/** The bytes of a base64url text; undefined for text that is not the one encoding of its bytes. */
export const bytesIn = (text: string): Uint8Array | undefined => {
  const bytes = Buffer.from(text, "base64url")
  return bytes.toString("base64url") === text ? bytes : undefined
}

const utf8 = new TextDecoder("utf-8", { fatal: true })

const objectIn = (part: string): Readonly<Record<string, unknown>> => {
  try {
    const text = utf8.decode(bytesIn(part))
    const value = JSON.parse(text)
    return isObject(value) && membersOf(value) === colonsIn(text) ? value : {}
  } catch {
    return {}
  }
}

export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** The members that are left after parsing, which keeps the last of those with one name. */
const membersOf = (value: unknown): number => {
  if (typeof value !== "object" || value === null) return 0
  const inside = Object.values(value).reduce<number>((sum, one) => sum + membersOf(one), 0)
  return Array.isArray(value) ? inside : inside + Object.keys(value).length
}

/** The members that a text of JSON writes: outside of strings, each has one colon. */
const colonsIn = (json: string) => json.replaceAll(/"(?:[^"\\]|\\.){0,2048}"/g, "").split(":").length - 1
