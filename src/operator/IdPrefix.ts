/** The beginning of an id, as operators type it. */

export interface IdRange {
  readonly from: string
  readonly to: string
}

/** At least four hexadecimal digits of a UUID in lower case, with its dashes in their places. */
export const isPrefix = (text: string) => /^[0-9a-f-]{4,36}$/.test(text) && rangeOf(text).from.startsWith(text)

/** The first and the last UUID that begin so. */
export const rangeOf = (prefix: string): IdRange => {
  const digits = prefix.replaceAll("-", "")
  const filled = (digit: string) =>
    digits.padEnd(32, digit).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5")
  return { from: filled("0"), to: filled("f") }
}
