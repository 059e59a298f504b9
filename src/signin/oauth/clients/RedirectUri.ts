/**
 * Redirect URIs (RFC 8252 7, OAuth 2.1 "Client Redirection Endpoint"): compared as text, character by character.
 *
 * The one exception is for apps on the user's own machine: a registered http loopback URI in which no port is written
 * matches every port of the same host literal, path and query. 127.0.0.1, [::1] and localhost never match each other.
 */

export type ApplicationType = "native" | "web"

/** Schemes of well-known agents that do without the dot that RFC 8252 7.1 asks for. */
const dotless = new Set(["cursor:", "vscode:", "vscode-insiders:", "claude:"])

const loopback = /^http:\/\/(127\.0\.0\.1|\[::1\]|localhost)(?::(\d{1,5}))?([/?].*)?$/

/** Whether a client may register it. A web client lives on a server: it gets neither loopback nor schemes. */
export const isAcceptable = (uri: string, application_type: ApplicationType | undefined): boolean => {
  if (uri.length > 2048 || !/^[\x21-\x7e]+$/.test(uri) || /[#\\"<>^`{|}]/.test(uri) || !URL.canParse(uri)) return false
  const url = new URL(uri)
  if (url.username !== "" || url.password !== "") return false
  // They are appended to the query: a client must not find two of them.
  if (["code", "state", "iss", "error", "error_description"].some((name) => url.searchParams.has(name))) return false
  if (url.protocol === "https:") return /^https:\/\/[^/?]/.test(uri)
  if (application_type === "web") return false
  return loopback.test(uri) || isPrivateUse(url)
}

/** Nobody registers these by mistake. */
export const isDangerous = (uri: string): boolean =>
  /^[\s\0]*(javascript|data|file|vbscript|blob|about|view-source)\s*:/i.test(uri)

const isPrivateUse = ({ protocol }: URL) =>
  dotless.has(protocol) || /^[a-z][a-z0-9+-]*(\.[a-z0-9+-]+)+:$/.test(protocol)

export const matches = (requested: string, registered: ReadonlyArray<string>): boolean =>
  registered.includes(requested) || registered.some((uri) => matchesAnyPort(requested, uri))

const matchesAnyPort = (requested: string, registered: string) => {
  const [, host, port, rest = ""] = loopback.exec(registered) ?? []
  const [, sameHost, anyPort, sameRest = ""] = loopback.exec(requested) ?? []
  if (host === undefined || port !== undefined || anyPort === undefined) return false
  return host === sameHost && rest === sameRest && !requested.includes("#") && isPort(anyPort)
}

/** As anybody writes it: 1 to 65535, without leading zeros. */
const isPort = (port: string) => !port.startsWith("0") && Number(port) <= 65_535

/** Where the person will be sent, in words for the consent page. */
export const destination = (uri: string): { readonly kind: "here" | "site" | "app"; readonly name: string } => {
  const url = new URL(uri)
  if (loopback.test(uri)) return { kind: "here", name: url.hostname }
  return url.protocol === "https:" ? { kind: "site", name: url.host } : { kind: "app", name: url.protocol.slice(0, -1) }
}

/** The registered text stays as it is; the answer is appended to its query. */
export const withAnswer = (uri: string, answer: Readonly<Record<string, string | undefined>>): string => {
  const given = Object.entries(answer).filter((entry): entry is [string, string] => entry[1] !== undefined)
  return `${uri}${uri.includes("?") ? "&" : "?"}${new URLSearchParams(given).toString()}`
}
