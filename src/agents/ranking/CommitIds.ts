/** Commit ids as lexemes: by their first seven characters, so that a short id and the whole one find each other. */
export const commitKeys = (text: string): ReadonlyArray<string> =>
  Array.from(
    text.matchAll(/\b(?=[a-f]{0,64}\d)(?=\d{0,64}[a-f])[\da-f]{7,64}\b/g),
    ([id]) => `commit:${id.slice(0, 7)}`
  )
