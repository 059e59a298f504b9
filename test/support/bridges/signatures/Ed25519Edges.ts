/** Edge cases of Ed25519 (RFC 8032): points and scalars as the bytes of a key or of half a signature. */
import { Point } from "@noble/ed25519"

export const bytes = (hex: string) => Uint8Array.from(Buffer.from(hex, "hex"))
export const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex")
export const join = (...parts: ReadonlyArray<Uint8Array>) => Uint8Array.from(Buffer.concat(parts))
/** 32 bytes, little-endian. */
export const encode = (value: bigint) => bytes(value.toString(16).padStart(64, "0")).toReversed()
export const decode = (bytes: Uint8Array) => BigInt(`0x${hex(bytes.toReversed())}`)
export const count = (length: number) => Array.from({ length }, (_, i) => i)

const { n, p } = Point.CURVE()
/** The order of the base point. */
export const L = n

/** The points of order 1, 2, 4, 4, 8, 8, 8, 8. */
export const smallOrder = [
  "0100000000000000000000000000000000000000000000000000000000000000",
  "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
  "0000000000000000000000000000000000000000000000000000000000000000",
  "0000000000000000000000000000000000000000000000000000000000000080",
  "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
  "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
  "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
  "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa"
].map(bytes)

/** Non-canonical encodings: y of p or more with either sign of x, and x = 0 with the sign bit set. */
export const nonCanonical = [...count(19).map((i) => p + BigInt(i)), 1n, p - 1n]
  .flatMap((y) => [y, y + 2n ** 255n])
  .filter((y) => y !== 1n && y !== p - 1n)
  .map(encode)
