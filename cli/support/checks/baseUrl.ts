/** Checks that the address that clients use leads to this service, and how long its certificate remains valid. */
import { Clock, Effect, Option } from "effect"
import * as https from "node:https"
import type { TLSSocket } from "node:tls"
import type { Settings } from "../../../src/platform/settings/Settings.ts"
import { check } from "./Check.ts"

export const baseUrl = Effect.fnUntraced(function* (settings: Pick<Settings["Service"], "baseUrl" | "resource">) {
  const { origin, protocol } = settings.baseUrl
  if (protocol !== "https:") return []
  return yield* metadata(settings.baseUrl).pipe(
    Effect.timeoutOrElse({ duration: "5 seconds", orElse: () => Effect.fail("no answer in 5 s") }),
    Effect.matchEffect({
      onFailure: (reason) => Effect.succeed([unreachable(origin, reason)]),
      onSuccess: (answer) =>
        Effect.map(Clock.currentTimeMillis, (now) => [
          destination(origin, settings.resource, answer),
          certificate(origin, answer.validUntil, now)
        ])
    })
  )
})

const unreachable = (origin: string, reason: string) => {
  const problem = certificateProblems[reason]
  if (problem !== undefined) return check("certificate", "fail", `${origin} presents ${problem}`)
  return /SELF_SIGNED|UNABLE_TO/.test(reason)
    ? check(
        "certificate",
        "warn",
        `${origin} presents a certificate that this machine does not trust (${reason}). If your own authority signed it, install that authority on every client, and here name its file in NODE_EXTRA_CA_CERTS.`
      )
    : check("base_url", "warn", `${origin} cannot be reached from this machine (${reason}): check DNS and the proxy.`)
}

/** By the error code of node:tls. */
const certificateProblems: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: "an expired certificate: renew it.",
  CERT_NOT_YET_VALID: "a certificate that is not valid yet: check the clocks.",
  ERR_TLS_CERT_ALTNAME_INVALID: "the certificate of another host: get one for this name."
}

const destination = (origin: string, resource: string, { named, status }: Answer) => {
  if (named === resource) return check("base_url", "ok", `${origin} leads to this service.`)
  return named === undefined
    ? check(
        "base_url",
        "warn",
        `${origin} answers ${status}, but not as this service: check that the service runs and that the proxy forwards to it.`
      )
    : check(
        "base_url",
        "fail",
        `${origin} leads to a service whose MCP address is ${named}: set SERVICE_BASE_URL there to this address too.`
      )
}

const certificate = (origin: string, validUntil: Date, now: number) => {
  const days = Math.floor((validUntil.getTime() - now) / 86_400_000)
  const expiry = `expires on ${validUntil.toISOString()}`
  return days < 14
    ? check("certificate", "warn", `The certificate of ${origin} ${expiry}, in ${days} days: renew it.`)
    : check("certificate", "ok", `The certificate of ${origin} is valid and ${expiry}.`)
}

interface Answer {
  readonly status: number
  /** The MCP address in the metadata; undefined if another program answered. */
  readonly named: string | undefined
  /** When the certificate expires. */
  readonly validUntil: Date
}

/** Fetches the protected-resource metadata: only this service answers it with its own MCP address. */
const metadata = (baseUrl: URL) =>
  Effect.callback<Answer, string>((resume) => {
    const request = https.get(
      new URL("/.well-known/oauth-protected-resource/mcp", baseUrl),
      { agent: false },
      (response) => {
        const validUntil = new Date((response.socket as TLSSocket).getPeerCertificate().valid_to)
        let text = ""
        response.setEncoding("utf8")
        response.on("data", (chunk: string) => {
          if (text.length < 65_536) text += chunk
        })
        response.on("end", () =>
          resume(
            Effect.succeed({
              status: response.statusCode ?? 0,
              named: Option.getOrUndefined(resourceIn(text)),
              validUntil
            })
          )
        )
      }
    )
    request.on("error", (error: NodeJS.ErrnoException) => resume(Effect.fail(error.code ?? "no answer")))
    return Effect.sync(() => request.destroy())
  })

const resourceIn = Option.liftThrowable((text: string): string => {
  const { resource } = JSON.parse(text)
  return String(resource)
})
