/** The resource indicator of a request (RFC 8707 2). The service has one resource, `Settings.resource`. */

/**
 * Whether a request names the resource. Clients send four spellings of it (decisions.md, Accepted resource values):
 * none, the resource, the resource with a slash, and its origin. Scheme and host are case-insensitive.
 */
export const isResource = (requested: string | undefined, resource: string): boolean => {
  if (requested === undefined) return true
  const expected = new URL(resource)
  const [, origin = "", path = ""] = /^([a-z]+:\/\/[^/?#]*)([^]*)$/i.exec(requested) ?? []
  return (
    origin.toLowerCase() === expected.origin && ["", "/", expected.pathname, `${expected.pathname}/`].includes(path)
  )
}
