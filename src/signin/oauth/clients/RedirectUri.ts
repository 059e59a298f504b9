/**
 * Decides which redirect URIs a client may register, and whether a requested URI matches a registered one (spec 5.5;
 * RFC 8252 7, OAuth 2.1 "Client Redirection Endpoint"). URIs are compared as text, character by character.
 *
 * The one exception is for apps on the user's own machine: a registered http loopback URI matches every port of the same
 * host literal, path and query, whatever port it was registered with (RFC 8252 7.3). 127.0.0.1, [::1] and localhost never match each other.
 */
import type { ApplicationType } from "./Shapes.ts"

/** Schemes of well-known agents that lack the dot which RFC 8252 7.1 requires. */
const dotless = new Set(["cursor:", "vscode:", "vscode-insiders:", "claude:"])

const loopback = /^http:\/\/(127\.0\.0\.1|\[::1\]|localhost)(?::(\d{1,5}))?([/?].*)?$/

/** Whether a client may register the URI. A web client runs on a server: no loopback URIs, no private-use schemes. */
export const isAcceptable = (uri: string, application_type: ApplicationType | undefined): boolean => {
  if (uri.length > 2048 || !/^[\x21-\x7e]+$/.test(uri) || /[#\\"<>^`{|}]/.test(uri) || !URL.canParse(uri)) return false
  const url = new URL(uri)
  if (url.username !== "" || url.password !== "") return false
  // The response appends these parameters to the query; a client must not receive any of them twice.
  if (["code", "state", "iss", "error", "error_description"].some((name) => url.searchParams.has(name))) return false
  if (url.protocol === "https:") return /^https:\/\/[^/?]/.test(uri)
  if (application_type === "web") return false
  return loopback.test(uri) || isPrivateUse(url)
}

/** Schemes that run or read something in the browser. No client registers them by mistake. */
export const isDangerous = (uri: string): boolean =>
  /^[\s\0]*(javascript|data|file|vbscript|blob|about|view-source)\s*:/i.test(uri)

const isPrivateUse = ({ protocol }: URL) =>
  dotless.has(protocol) || /^[a-z][a-z0-9+-]*(\.[a-z0-9+-]+)+:$/.test(protocol)

export const matches = (requested: string, registered: ReadonlyArray<string>): boolean =>
  registered.includes(requested) || registered.some((uri) => matchesAnyPort(requested, uri))

const matchesAnyPort = (requested: string, registered: string) => {
  const [, host, , rest = ""] = loopback.exec(registered) ?? []
  const [, requestedHost, requestedPort, requestedRest = ""] = loopback.exec(requested) ?? []
  if (host === undefined || requestedPort === undefined) return false
  return host === requestedHost && rest === requestedRest && !requested.includes("#") && isPort(requestedPort)
}

/** 1 to 65535, without leading zeros. */
const isPort = (port: string) => !port.startsWith("0") && Number(port) <= 65_535

/** Where the redirect leads, for the consent page. */
export const destination = (uri: string): { readonly kind: "loopback" | "website" | "app"; readonly name: string } => {
  const url = new URL(uri)
  if (loopback.test(uri)) return { kind: "loopback", name: url.hostname }
  return url.protocol === "https:"
    ? { kind: "website", name: url.host }
    : { kind: "app", name: url.protocol.slice(0, -1) }
}

/** Appends the authorization response to the query (RFC 6749 4.1.2); the registered text stays unchanged. */
export const withResponse = (uri: string, response: Readonly<Record<string, string | undefined>>): string => {
  const given = Object.entries(response).filter((entry): entry is [string, string] => entry[1] !== undefined)
  return `${uri}${uri.includes("?") ? "&" : "?"}${new URLSearchParams(given).toString()}`
}
