/** Checks whether the server runs on this machine, and that no other program holds its port. */
import { Effect } from "effect"
import * as http from "node:http"
import type { Settings } from "../../../src/platform/settings/Settings.ts"
import { type Check, check } from "./Check.ts"
import { portHolder } from "../../../src/platform/process/PortHolder.ts"

export const server = ({ http: { host, port }, resource }: Pick<Settings["Service"], "http" | "resource">) => {
  const address = { "0.0.0.0": "127.0.0.1", "::": "::1" }[host] ?? host
  const at = `${address.includes(":") ? `[${address}]` : address}:${port}`
  const get = (path: string) =>
    Effect.callback<Answer, Unanswered>((resume) => {
      const failed = ({ code }: Unanswered) => resume(Effect.fail({ code }))
      const request = http.get({ host: address, port, path, agent: false }, (response) => {
        let body = ""
        response.setEncoding("utf8")
        response.on("data", (text: string) => (body = (body + text).slice(0, 65_536)))
        response.on("error", failed)
        response.on("end", () => resume(Effect.succeed({ status: response.statusCode ?? 0, body })))
      })
      request.on("error", failed)
      return Effect.sync(() => request.destroy())
    }).pipe(Effect.timeoutOrElse({ duration: "3 seconds", orElse: () => Effect.fail<Unanswered>({}) }))

  return Effect.gen(function* () {
    const named = resourceIn((yield* get("/.well-known/oauth-protected-resource/mcp")).body)
    if (named === undefined)
      return check(
        "server",
        "fail",
        `Another program answers at ${at}${holder(port)}: stop it, or set another SERVICE_PORT.`
      )
    if (named !== resource)
      return check(
        "server",
        "warn",
        `The server at ${at} has another base URL (${named}): it runs with other settings.`
      )
    return (yield* get("/readyz")).status === 200
      ? check("server", "ok", `The server runs at ${at}, and is ready.`)
      : check("server", "warn", `The server runs at ${at}, and is not ready: its log says why.`)
  }).pipe(
    Effect.catch(({ code }) => Effect.succeed(unanswered(at, port, code))),
    Effect.map((one): ReadonlyArray<Check> => (port === 0 ? [] : [one]))
  )
}

interface Answer {
  readonly status: number
  readonly body: string
}

interface Unanswered {
  readonly code?: string | undefined
}

const holder = (port: number) => {
  const found = portHolder(port)
  return found === undefined ? "" : ` (${found})`
}

const resourceIn = (body: string): string | undefined => {
  try {
    const { resource }: { readonly resource?: unknown } = JSON.parse(body)
    return typeof resource === "string" ? resource : undefined
  } catch {
    return undefined
  }
}

const unanswered = (at: string, port: number, code: string | undefined) =>
  code === "ECONNREFUSED"
    ? check("server", "ok", `No server runs at ${at}.`)
    : check(
        "server",
        "fail",
        `What listens at ${at}${holder(port)} does not answer HTTP: stop it, or set another SERVICE_PORT.`
      )
