/** The parameters of a request (RFC 6749 3.1, 3.2): an empty one counts as omitted, and none may come twice. */

export interface Parameters {
  readonly get: (name: string) => string | undefined
  /** The names that came more than once. */
  readonly repeated: ReadonlySet<string>
  /** Nothing in it is a NUL, which is in no grammar of RFC 6749 A and which PostgreSQL takes for no text. */
  readonly isText: boolean
}

export const parametersOf = (params: URLSearchParams): Parameters => {
  const seen = new Set<string>()
  const repeated = new Set<string>()
  for (const name of params.keys()) (seen.has(name) ? repeated : seen).add(name)
  const isText = [...params].every((pair) => !pair.join().includes("\0"))
  return { get: (name) => params.get(name) || undefined, repeated, isText }
}
