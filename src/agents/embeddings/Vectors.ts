/**
 * Vectors as they are stored and compared. A search first compares signs, a bit per dimension: a project's fit into memory
 * and take milliseconds. The nearest are then compared by their bytes.
 */

/** A vector of length 1. */
export type Vector = Float32Array

export const normalized = (values: ReadonlyArray<number>): Vector => {
  const length = Math.hypot(...values)
  return Float32Array.from(values, (value) => (length === 0 ? 0 : value / length))
}

/** Bytes of the signs, a multiple of four. */
export const codeBytes = (dimensions: number) => 4 * Math.ceil(dimensions / 32)

export const signsOf = (vector: Vector): Uint32Array => {
  const words = new Uint32Array(codeBytes(vector.length) / 4)
  for (const [n, value] of vector.entries()) if (value > 0) words[n >>> 5]! |= 1 << (n & 31)
  return words
}

/** Each value as a signed byte, in relation to the largest one. */
export const bytesOf = (vector: Vector): Int8Array => {
  const largest = vector.reduce((most, value) => Math.max(most, Math.abs(value)), 0)
  return Int8Array.from(vector, (value) => (largest === 0 ? 0 : Math.round((127 * value) / largest)))
}

/** The cosine of a vector and of one that was stored as bytes. */
export const cosine = (vector: Vector, bytes: Int8Array): number => {
  let [product, square] = [0, 0]
  for (let n = 0; n < bytes.length; n++) {
    const byte = bytes[n]!
    product += vector[n]! * byte
    square += byte * byte
  }
  return square === 0 ? 0 : product / Math.sqrt(square)
}

/** How many signs of `signs` and of the vector at `from` in `codes` differ. */
export const distance = (signs: Uint32Array, codes: Uint32Array, from: number): number => {
  let count = 0
  for (let n = 0; n < signs.length; n++) {
    let bits = signs[n]! ^ codes[from + n]!
    bits -= (bits >>> 1) & 0x55555555
    bits = (bits & 0x33333333) + ((bits >>> 2) & 0x33333333)
    count += Math.imul((bits + (bits >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24
  }
  return count
}
