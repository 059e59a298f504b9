/** What lies between the service and others: the proxy in front of it, its certificate, Apple's push service. */
import { Clock, Effect, Option } from "effect"
import * as http2 from "node:http2"
import * as https from "node:https"
import type { TLSSocket } from "node:tls"
import type { Settings } from "../../src/platform/settings/Settings.ts"
import { networks, trusts } from "../../src/platform/edge/Addresses.ts"
import { readCertificates } from "../../src/push/channels/apns/Apns.ts"
import { readKey } from "../../src/push/channels/apns/ProviderToken.ts"
import { check } from "./check.ts"

const patience = "5 seconds"

/** TLS ends in front of the service, so with an https address somebody else's connection reaches it. */
export const proxy = Effect.fnUntraced(
  function* ({ baseUrl, http }: Pick<Settings["Service"], "baseUrl" | "http">) {
    const trusted = yield* networks(http.trustedProxies)
    if (baseUrl.protocol !== "https:") return []
    if (http.trustedProxies.length === 0) {
      const message = "SERVICE_TRUSTED_PROXIES is empty: all callers share the proxy's address, and its rate limits."
      return [check("proxy", "warn", `${message} Name the proxy, such as 127.0.0.1.`)]
    }
    if (http.trustedProxies.some((network) => network.endsWith("/0"))) {
      return [check("proxy", "fail", "SERVICE_TRUSTED_PROXIES trusts everybody: any caller may choose its address.")]
    }
    const near = { "127.0.0.1": "127.0.0.1", localhost: "127.0.0.1", "::1": "::1" }[http.host]
    return near !== undefined && !trusts(trusted, near)
      ? [
          check(
            "proxy",
            "fail",
            `SERVICE_HOST lets only this machine in, so the proxy comes from ${near}: SERVICE_TRUSTED_PROXIES has to name it.`
          )
        ]
      : [check("proxy", "ok", "X-Forwarded-For is believed from the networks that are named.")]
  },
  Effect.catch(({ message }) => Effect.succeed([check("proxy", "fail", message)]))
)

/** Whether the address that clients are given leads to this service, and for how long its certificate lets them in. */
export const address = Effect.fnUntraced(function* ({
  baseUrl,
  resource
}: Pick<Settings["Service"], "baseUrl" | "resource">) {
  if (baseUrl.protocol !== "https:") return []
  return yield* metadata(baseUrl).pipe(
    Effect.timeoutOrElse({ duration: patience, orElse: () => Effect.fail("no answer in 5 s") }),
    Effect.matchEffect({
      onFailure: (reason) => Effect.succeed([unreached(baseUrl.origin, reason)]),
      onSuccess: (answer) =>
        Effect.map(Clock.currentTimeMillis, (now) => [
          led(baseUrl.origin, resource, answer),
          lasting(baseUrl.origin, answer.until, now)
        ])
    })
  )
})

const unreached = (origin: string, reason: string) => {
  const certificate = ofCertificate[reason]
  if (certificate !== undefined) return check("certificate", "fail", `${origin} shows ${certificate}`)
  return /SELF_SIGNED|UNABLE_TO/.test(reason)
    ? check(
        "certificate",
        "warn",
        `${origin} shows a certificate that this machine does not trust (${reason}): if its authority is your own, every client needs it, and here NODE_EXTRA_CA_CERTS.`
      )
    : check("base_url", "warn", `${origin} cannot be reached from here (${reason}): name, proxy?`)
}

const ofCertificate: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: "a certificate that has expired: renew it.",
  CERT_NOT_YET_VALID: "a certificate that is not valid yet: is a clock wrong?",
  ERR_TLS_CERT_ALTNAME_INVALID: "the certificate of another host: get one for this name."
}

const led = (origin: string, resource: string, { named, status }: Answer) => {
  if (named === resource) return check("base_url", "ok", `${origin} leads to this service.`)
  return named === undefined
    ? check(
        "base_url",
        "warn",
        `${origin} answers ${status}, not as this service: does it run, does the proxy lead here?`
      )
    : check(
        "base_url",
        "fail",
        `${origin} leads to a service that calls itself ${named}: set its SERVICE_BASE_URL too.`
      )
}

const lasting = (origin: string, until: Date, now: number) => {
  const days = Math.floor((until.getTime() - now) / 86_400_000)
  const end = `ends on ${until.toISOString()}`
  return days < 14
    ? check("certificate", "warn", `The certificate of ${origin} ${end}, in ${days} days: renew it.`)
    : check("certificate", "ok", `The certificate of ${origin} is good; it ${end}.`)
}

interface Answer {
  readonly status: number
  /** What the service calls its MCP endpoint; undefined where the answer is somebody else's. */
  readonly named: string | undefined
  /** The end of the certificate. */
  readonly until: Date
}

/** What a client asks first, and what only this service answers with its own address. */
const metadata = (baseUrl: URL) =>
  Effect.callback<Answer, string>((resume) => {
    const asked = https.get(
      new URL("/.well-known/oauth-protected-resource/mcp", baseUrl),
      { agent: false },
      (answer) => {
        const until = new Date((answer.socket as TLSSocket).getPeerCertificate().valid_to)
        let text = ""
        answer.setEncoding("utf8")
        answer.on("data", (chunk: string) => {
          if (text.length < 65_536) text += chunk
        })
        answer.on("end", () =>
          resume(
            Effect.succeed({ status: answer.statusCode ?? 0, named: Option.getOrUndefined(resourceIn(text)), until })
          )
        )
      }
    )
    asked.on("error", (error: NodeJS.ErrnoException) => resume(Effect.fail(error.code ?? "no answer")))
    return Effect.sync(() => asked.destroy())
  })

const resourceIn = Option.liftThrowable((text: string): string => {
  const { resource } = JSON.parse(text)
  return String(resource)
})

/** Each environment in which phones may register. Nothing is sent. */
export const apns = Effect.fnUntraced(
  function* ({ push }: Pick<Settings["Service"], "push">) {
    if (push.apns === undefined) {
      return [check("apns", "ok", "Not configured: notifications are only logged.")]
    }
    yield* readKey(push.apns.keyFile)
    const ca = push.caFile === undefined ? undefined : yield* readCertificates(push.caFile)
    return yield* Effect.forEach(push.environments, (environment) => session(push.origins[environment], ca), {
      concurrency: "unbounded"
    })
  },
  Effect.catch(({ message }) => Effect.succeed([check("apns", "fail", message)]))
)

const session = (origin: string, ca: string | undefined) =>
  speaksHttp2(origin, ca).pipe(
    Effect.timeoutOrElse({ duration: patience, orElse: () => Effect.fail("no answer in 5 s") }),
    Effect.match({
      onSuccess: () => check("apns", "ok", `${origin} answers over HTTP/2; nothing was sent.`),
      onFailure: (reason) =>
        check("apns", "fail", `${origin} cannot be reached (${reason}): outgoing connections to it have to be open.`)
    })
  )

/** The other side's settings are the first thing that only HTTP/2 says. */
const speaksHttp2 = (origin: string, ca: string | undefined) =>
  Effect.callback<void, string>((resume) => {
    const connection = http2.connect(origin, ca === undefined ? {} : { ca })
    connection.on("remoteSettings", () => resume(Effect.void))
    connection.on("error", (error: NodeJS.ErrnoException) => resume(Effect.fail(error.code ?? "no HTTP/2")))
    connection.on("close", () => resume(Effect.fail("it closed the connection")))
    return Effect.sync(() => connection.destroy())
  })
