/** The resource indicator (RFC 8707 2): what tokens are for. There is one resource, and old clients name it in four ways. */

/** `{base_url}/mcp`: the audience of every token. */
export const resourceOf = (base_url: string): string => `${base_url}/mcp`

/** Absent, the resource, with a slash, or the origin; scheme and host in any case. */
export const isResource = (asked: string | undefined, base_url: string): boolean => {
  if (asked === undefined) return true
  const [, origin = "", path = ""] = /^([a-z]+:\/\/[^/?#]*)(.*)$/i.exec(asked) ?? []
  return origin.toLowerCase() === base_url && ["", "/", "/mcp", "/mcp/"].includes(path)
}
