/** Finds secrets in every form in which they could have been written down. */
import { isUtf8 } from "node:buffer"

export type Secrets = Readonly<Record<string, Uint8Array>>
export type Places = Readonly<Record<string, Uint8Array>>

export const utf8 = (text: string) => Buffer.from(text)

/** The part of a longer text's base64 that depends only on these bytes, with this many bytes before them. */
const within = (bytes: Buffer, before: number, encoding: "base64" | "base64url") => {
  const encoded = Buffer.concat([Buffer.alloc(before), bytes])
    .toString(encoding)
    .replace(/=+$/, "")
  return encoded.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6))
}

/** The same bytes in every encoding that is searched for. */
export const forms = (secret: Uint8Array) => {
  const bytes = Buffer.from(secret)
  const text = isUtf8(bytes) ? bytes.toString() : bytes.toString("base64")
  const percent = [...bytes].map((byte) => `%${byte.toString(16).padStart(2, "0")}`).join("")
  return {
    raw: bytes,
    hex: utf8(bytes.toString("hex")),
    "hex in capitals": utf8(bytes.toString("hex").toUpperCase()),
    base64: utf8(within(bytes, 0, "base64")),
    "base64 one byte in": utf8(within(bytes, 1, "base64")),
    "base64 two bytes in": utf8(within(bytes, 2, "base64")),
    base64url: utf8(within(bytes, 0, "base64url")),
    "base64url one byte in": utf8(within(bytes, 1, "base64url")),
    "base64url two bytes in": utf8(within(bytes, 2, "base64url")),
    "URL-encoded": utf8(percent),
    "URL-encoded in capitals": utf8(percent.toUpperCase()),
    "URL-encoded where it has to be": utf8(encodeURIComponent(text)),
    "JSON-escaped": utf8(JSON.stringify(text).slice(1, -1)),
    reversed: Buffer.from(bytes.toReversed())
  }
}

/** `secret, form, place` of every hit. One pass over each place, however many secrets there are. */
export const search = (places: Places, secrets: Secrets): ReadonlyArray<string> => {
  const byStart = new Map<number, Array<readonly [name: string, needle: Buffer]>>()
  const starts = new Uint8Array(65_536)
  for (const [name, secret] of Object.entries(secrets)) {
    for (const [form, needle] of Object.entries(forms(secret))) {
      const start = needle.readUInt32BE(0)
      starts[start >>> 16] = 1
      byStart.set(start, [...(byStart.get(start) ?? []), [`${name}, ${form}`, needle]])
    }
  }
  const found = new Set<string>()
  for (const [place, contents] of Object.entries(places)) {
    const bytes = Buffer.from(contents.buffer, contents.byteOffset, contents.length)
    for (let at = 0; at + 4 <= bytes.length; at++) {
      if (starts[(bytes[at]! << 8) | bytes[at + 1]!] === 0) continue
      for (const [what, needle] of byStart.get(bytes.readUInt32BE(at)) ?? []) {
        const end = at + needle.length
        if (end <= bytes.length && bytes.compare(needle, 0, needle.length, at, end) === 0)
          found.add(`${what}, ${place}`)
      }
    }
  }
  return [...found]
}
