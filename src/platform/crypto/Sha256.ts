import { hash, timingSafeEqual } from "node:crypto"

/** 32 bytes; text is hashed as UTF-8 (FIPS 180-4). */
export const sha256 = (data: Uint8Array | string): Uint8Array => hash("sha256", data, "buffer")

/** Takes constant time for inputs of equal length. */
export const equal = (a: Uint8Array, b: Uint8Array): boolean => a.length === b.length && timingSafeEqual(a, b)
