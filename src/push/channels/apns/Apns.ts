/**
 * Apple's push service: the headers of a notification and the provider token that authenticates them.
 *
 * Two answers are handled here, within the ten seconds of the delivery: a stream that APNs did not process is sent
 * again, and a provider token that APNs finds too old is renewed. Every other answer goes back to the worker.
 */
import { Duration, Effect, Layer, Redacted } from "effect"
import { X509Certificate } from "node:crypto"
import { readFileSync } from "node:fs"
import { ConfigurationError, Settings } from "../../../platform/settings/Settings.ts"
import { DatabaseClock } from "../../../platform/database/Clock.ts"
import { type Environment, environments } from "../../../wire/mobile/Notifications.ts"
import { makeSession, type Request, type SessionOptions } from "./ApnsSession.ts"
import { finalOutcome, outcomeOf } from "./ApnsOutcome.ts"
import { PushProvider } from "../Provider.ts"
import { type ProviderToken, providerToken, readKey, renewAfter, renewNotBefore, type Signer } from "./ProviderToken.ts"

export interface ApnsOptions extends Omit<SessionOptions, "origin"> {
  readonly origins: Readonly<Record<Environment, string>>
  readonly signer: Signer
  readonly now: Effect.Effect<Date>
}

export const makeApns = Effect.fnUntraced(function* ({ now, origins, signer, ...options }: ApnsOptions) {
  const requests = new Map<Environment, Request>()
  for (const environment of environments) {
    requests.set(environment, yield* makeSession({ ...options, origin: origins[environment] }))
  }
  let issued: ProviderToken | undefined

  const tokenAt = (at: Date, renew: boolean) => {
    const age = issued === undefined ? Infinity : at.getTime() - issued.issuedAt.getTime()
    if (age >= renewAfter || age < 0 || (renew && age >= renewNotBefore)) issued = providerToken(signer, at)
    return issued!
  }

  return PushProvider.of({
    name: "apns",
    send: (push) => {
      const attempt = Effect.gen(function* () {
        const used = tokenAt(yield* now, false)
        const headers = {
          ":method": "POST",
          ":path": `/3/device/${Redacted.value(push.token)}`,
          authorization: `bearer ${Redacted.value(used.jwt)}`,
          "apns-id": push.delivery_id,
          "apns-topic": push.topic,
          "apns-push-type": "alert",
          "apns-priority": push.immediate ? "10" : "5",
          "apns-expiration": String(Math.floor(push.expires_at.getTime() / 1000)),
          "apns-collapse-id": push.collapse_id
        }
        return { used, response: yield* requests.get(push.environment)!(headers, push.payload) }
      })
      return Effect.gen(function* () {
        let { response, used } = yield* attempt
        if (outcomeOf(response)._tag === "RenewProviderToken" && tokenAt(yield* now, true) !== used) {
          response = (yield* attempt).response
        }
        for (let tries = 0; tries < 2 && outcomeOf(response)._tag === "Unprocessed"; tries++) {
          response = (yield* attempt).response
        }
        return {
          status: response.status ?? null,
          reason: response.reason ?? null,
          outcome: finalOutcome(response)
        }
      })
    }
  })
})

export const apnsProvider = Layer.effect(
  PushProvider,
  Effect.gen(function* () {
    const { push } = yield* Settings
    const { now } = yield* DatabaseClock
    const { keyFile, keyId, teamId } = push.apns!
    return yield* makeApns({
      origins: push.origins,
      ca: push.caFile === undefined ? undefined : yield* readCertificates(push.caFile),
      signer: { teamId, keyId, key: yield* readKey(keyFile) },
      // Without the database nothing is claimed, so nothing is sent.
      now: Effect.orDie(now),
      deadline: Duration.seconds(10),
      idle: Duration.minutes(1),
      concurrency: 50
    })
  })
)

export const readCertificates = (file: string) =>
  Effect.try({
    try: () => {
      const found = readFileSync(file, "utf8").match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g)
      // TLS would accept any text as an empty list.
      if (found === null) throw new Error("no certificate")
      return found.map((pem) => new X509Certificate(pem).toString()).join("")
    },
    catch: () =>
      new ConfigurationError({ message: `SERVICE_APNS_CA_FILE: ${file} holds no readable certificate (PEM).` })
  })
