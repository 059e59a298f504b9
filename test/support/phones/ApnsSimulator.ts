/**
 * A local simulator of APNs over TLS and HTTP/2: it makes Apple's checks and answers with Apple's reasons.
 *
 * A test sets faults per push token (`faults`) or for the next requests (`next`). As at Apple, a session allows one
 * stream until a request has brought a valid provider token.
 */
import { Effect } from "effect"
import { createPublicKey, generateKeyPairSync, type KeyObject, randomUUID, verify } from "node:crypto"
import { once } from "node:events"
import { writeFileSync } from "node:fs"
import * as http2 from "node:http2"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { throwAwayCertificate } from "./ThrowAwayCertificate.ts"

export type Fault =
  | { readonly status: number; readonly reason: string; readonly timestamp?: number; readonly retryAfter?: number }
  /** Answers, then sends GOAWAY. */
  | "goaway"
  /** Never answers. */
  | "hang"
  /** Refuses the stream unprocessed (REFUSED_STREAM). */
  | "refuse"
  /** Closes the connection. */
  | "kill"
  /** Accepts the notification, then closes the connection before it answers. */
  | "take and kill"

export interface Received {
  readonly token: string
  readonly delivery_id: string
  readonly topic: string
  readonly priority: string
  readonly collapse_id: string
  readonly expiration: number
  readonly payload: string
  readonly bytes: number
  readonly at: number
}

export interface ApnsSimulator {
  readonly origin: string
  /** PEM of the certificate authority that a client has to trust. */
  readonly ca: string
  readonly teamId: string
  readonly keyId: string
  /** PEM of the provider's signing key (.p8). */
  readonly key: string
  readonly topic: string
  readonly received: Array<Received>
  /** What each phone shows, by push token: payload by collapse id. */
  readonly shown: Map<string, Map<string, string>>
  readonly next: Array<Fault>
  readonly faults: Map<string, Fault>
  /** Milliseconds from the acceptance of a notification to the answer. */
  answersAfter: number
  /** Every request, answered or not. */
  requests: number
  sessions: number
  /** When connections were closed by a fault: answers that were under way are lost, too. */
  readonly killed: Array<number>
  /** How many requests a session answers before it sends GOAWAY. */
  goawayAfter: number | undefined
  /** Closes every connection; hanging requests are lost. */
  readonly drop: () => void
}

/** `streams`: that a session allows once a request has brought a valid provider token. */
export const apnsSimulator = ({ now = Date.now, port = 0, streams = 100, topic = "com.example.app" } = {}) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const { cert, key: tlsKey } = throwAwayCertificate()
      const provider = generateKeyPairSync("ec", { namedCurve: "P-256" })
      const open = new Set<http2.ServerHttp2Session>()
      const simulator: ApnsSimulator = {
        origin: "",
        ca: cert,
        teamId: "TEAM123456",
        keyId: "KEY1234567",
        key: provider.privateKey.export({ type: "pkcs8", format: "pem" }) as string,
        topic,
        received: [],
        shown: new Map(),
        next: [],
        faults: new Map(),
        answersAfter: 0,
        requests: 0,
        sessions: 0,
        killed: [],
        goawayAfter: undefined,
        drop: () => {
          for (const session of open) session.destroy()
        }
      }
      const trusted = createPublicKey(provider.publicKey.export({ type: "spki", format: "pem" }))

      const server = http2.createSecureServer({
        key: tlsKey,
        cert,
        allowHTTP1: false,
        settings: { maxConcurrentStreams: 1 }
      })
      server.on("session", (session) => {
        simulator.sessions++
        const refusalOf = providerTokenCheck(simulator, trusted, now)
        let answered = 0
        let proven = false
        open.add(session)
        session.on("close", () => open.delete(session))
        session.on("error", () => {})
        session.on("stream", (stream, headers) => {
          const chunks: Array<Buffer> = []
          stream.on("error", () => {})
          stream.on("data", (chunk: Buffer) => chunks.push(chunk))
          stream.on("end", () => {
            simulator.requests++
            const fault = answer(simulator, stream, headers, Buffer.concat(chunks), refusalOf)
            if (fault !== "untrusted" && !proven) {
              proven = true
              if (!session.destroyed) session.settings({ maxConcurrentStreams: streams })
            }
            answered++
            if (fault === "goaway" || answered === simulator.goawayAfter) {
              session.goaway(0, undefined, Buffer.from(JSON.stringify({ reason: "Shutdown" })))
              session.close()
            }
            if (fault === "kill" || fault === "take and kill") {
              simulator.killed.push(performance.now())
              session.destroy()
            }
          })
        })
      })
      server.listen(port, "127.0.0.1")
      await once(server, "listening")
      return {
        simulator: Object.assign(simulator, { origin: `https://localhost:${(server.address() as AddressInfo).port}` }),
        close: () => {
          simulator.drop()
          server.close()
        }
      }
    }),
    ({ close }) => Effect.sync(close)
  ).pipe(Effect.map(({ simulator }) => simulator))

/** Settings of a service that delivers to the simulator; writes the files that they name into the folder. */
export const settingsFor = ({ ca, key, keyId, origin, teamId, topic }: ApnsSimulator, folder: string) => {
  const file = (name: string, text: string) => {
    const path = join(folder, name)
    writeFileSync(path, text, { mode: 0o600 })
    return path
  }
  return {
    SERVICE_APNS_TEAM_ID: teamId,
    SERVICE_APNS_KEY_ID: keyId,
    SERVICE_APNS_KEY_FILE: file("apns.p8", key),
    SERVICE_APNS_TOPICS: topic,
    SERVICE_APNS_ORIGIN_PRODUCTION: origin,
    SERVICE_APNS_ORIGIN_DEVELOPMENT: origin,
    SERVICE_APNS_CA_FILE: file("apns-ca.pem", ca)
  }
}

/** Answers the request; returns the fault that was applied, if any. */
const answer = (
  simulator: ApnsSimulator,
  stream: http2.ServerHttp2Stream,
  headers: http2.IncomingHttpHeaders,
  body: Buffer,
  refusalOf: (authorization: string | undefined) => [number, string] | undefined
): Fault | "untrusted" | undefined => {
  const id = String(headers["apns-id"] ?? randomUUID())
  const reply = (status: number, reason?: string, more: { timestamp?: number; retryAfter?: number } = {}) => {
    // Another stream may have closed the session meanwhile.
    if (stream.destroyed) return
    const { retryAfter, timestamp } = more
    stream.respond({ ":status": status, "apns-id": id, ...(retryAfter && { "retry-after": String(retryAfter) }) })
    stream.end(reason && JSON.stringify({ reason, ...(timestamp && { timestamp }) }))
  }
  const [, token] = /^\/3\/device\/([0-9a-f]+)$/i.exec(headers[":path"] ?? "") ?? []
  if (headers[":method"] !== "POST") return void reply(405, "MethodNotAllowed")
  if (token === undefined) return void reply(404, "BadPath")
  const refusal = refusalOf(headers.authorization)
  if (refusal !== undefined) {
    reply(...refusal)
    return "untrusted"
  }
  const mistake = mistakeIn(headers, body, simulator.topic)
  if (mistake !== undefined) return void reply(...mistake)

  const fault = simulator.next.shift() ?? simulator.faults.get(token)
  const accept = () => {
    const collapse_id = String(headers["apns-collapse-id"] ?? id)
    const payload = body.toString()
    simulator.received.push({
      token,
      delivery_id: id,
      topic: String(headers["apns-topic"]),
      priority: String(headers["apns-priority"] ?? "10"),
      collapse_id,
      expiration: Number(headers["apns-expiration"] ?? 0),
      payload,
      bytes: body.length,
      at: performance.now()
    })
    const shown = simulator.shown.get(token) ?? new Map<string, string>()
    simulator.shown.set(token, shown.set(collapse_id, payload))
  }
  if (fault === "hang" || fault === "kill") return fault
  if (fault === "refuse") {
    stream.close(http2.constants.NGHTTP2_REFUSED_STREAM)
    return fault
  }
  if (typeof fault === "object") return void reply(fault.status, fault.reason, fault)
  accept()
  if (fault !== "take and kill") {
    if (simulator.answersAfter === 0) reply(200)
    else setTimeout(reply, simulator.answersAfter, 200)
  }
  return fault
}

/** Apple's checks of headers and payload, in the order in which Apple seems to make them. */
const mistakeIn = (headers: http2.IncomingHttpHeaders, body: Buffer, topic: string): [number, string] | undefined => {
  const header = (name: string) => headers[name] as string | undefined
  if (header("apns-topic") === undefined) return [400, "MissingTopic"]
  if (header("apns-topic") !== topic) return [400, "DeviceTokenNotForTopic"]
  if (!["alert", "background"].includes(header("apns-push-type") ?? "")) return [400, "InvalidPushType"]
  if (!["10", "5", "1"].includes(header("apns-priority") ?? "10")) return [400, "BadPriority"]
  if (Buffer.byteLength(header("apns-collapse-id") ?? "") > 64) return [400, "BadCollapseId"]
  if (!/^\d+$/.test(header("apns-expiration") ?? "0")) return [400, "BadExpirationDate"]
  if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(header("apns-id") ?? randomUUID())) {
    return [400, "BadMessageId"]
  }
  if (body.length === 0) return [400, "PayloadEmpty"]
  return body.length > 4096 ? [413, "PayloadTooLarge"] : undefined
}

/** Checks a provider token: signature, team, key, age, and on each connection that renewals are 20 minutes apart. */
const providerTokenCheck = ({ keyId, teamId }: ApnsSimulator, key: KeyObject, now: () => number) => {
  let newest: number | undefined
  return (authorization: string | undefined): [number, string] | undefined => {
    const [, jwt] = /^bearer (.+)$/i.exec(authorization ?? "") ?? []
    if (jwt === undefined) return [403, "MissingProviderToken"]
    const [header = "", claims = "", signature = ""] = jwt.split(".")
    const signed = verify(
      "sha256",
      Buffer.from(`${header}.${claims}`),
      { key, dsaEncoding: "ieee-p1363" },
      Buffer.from(signature, "base64url")
    )
    if (!signed) return [403, "InvalidProviderToken"]
    const { alg, kid } = JSON.parse(Buffer.from(header, "base64url").toString())
    const { iat, iss } = JSON.parse(Buffer.from(claims, "base64url").toString())
    if (alg !== "ES256" || kid !== keyId || iss !== teamId) return [403, "InvalidProviderToken"]
    const seconds = Math.floor(now() / 1000)
    if (seconds - iat > 3600 || iat > seconds + 60) return [403, "ExpiredProviderToken"]
    if (newest !== undefined && iat > newest && iat - newest < 1200) return [429, "TooManyProviderTokenUpdates"]
    newest = Math.max(newest ?? iat, iat)
    return undefined
  }
}
