/** The names in a query, in lower case: capitalised words of two characters or more that do not begin a sentence. */
export const namesIn = (query: string): ReadonlyArray<string> => [
  ...new Set(Array.from(query.matchAll(/(?<=[^.?!\s]\s)\p{Lu}[\p{L}\p{N}]+/gu), ([name]) => name.toLowerCase()))
]
