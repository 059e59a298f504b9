/**
 * The load generator, a child process: `connections` clients repeat one operation until `seconds` or `count` is reached.
 * It sends "ready" when everything is prepared. Each message then starts a round, whose measurements it sends; it ends
 * when its parent disconnects.
 */
import { generateKeyPairSync, hash, type KeyPairKeyObjectResult, randomUUID, sign } from "node:crypto"
import { Redacted } from "effect"
import { fingerprint } from "../../../src/platform/crypto/Fingerprint.ts"
import { type Connection, open, type Received } from "./connection.ts"
import { credentialOf, redirect_uri, verifier } from "../seeds.ts"
import { type AgentLoad, tools } from "./tools.ts"

export interface Load {
  readonly operation: keyof typeof operations | keyof ReturnType<typeof tools>
  readonly url: string
  /** The service that prepares the operations (challenges, tokens), if it is not at `url`. */
  readonly service?: string
  readonly connections: number
  /** The run ends after `seconds` or `count` operations, whichever comes first. */
  readonly seconds: number
  readonly count: number
  readonly project_id?: string
  /** Bridges send DPoP proofs. */
  readonly proves?: boolean
  /** The number of the first credential that the run may use. */
  readonly first: number
  /** The agent that calls the tools. */
  readonly agent?: AgentLoad
  readonly client_id?: string
  /** Authorization codes for the preparation and the first round. */
  readonly codes?: ReadonlyArray<string>
}

/** The message that starts a round: more authorization codes. */
export type Start = Required<Pick<Load, "codes">>

export interface Measured {
  readonly count: number
  readonly seconds: number
  readonly per_second: number
  readonly p50_ms: number
  readonly p99_ms: number
}

type Operation = () => Promise<unknown>

const load = JSON.parse(process.argv[2]!) as Load
let used = 0
let serial = 0

const json = { "content-type": "application/json" }
/** An idempotency key unique to this run. */
const key = () => `bench-${load.first}-${serial++}`

const expect = (status: number, { body, status: answered }: Received) => {
  if (answered !== status) throw new Error(`${answered} instead of ${status}: ${body}`)
  return body === "" ? undefined : JSON.parse(body)
}

const { privateKey, publicKey } = generateKeyPairSync("ed25519")
const rawKey = Buffer.from(publicKey.export({ format: "jwk" }).x!, "base64url")
const public_key_fingerprint = fingerprint(rawKey)

const challenge = async (connection: Connection) => {
  const n = load.first + used++
  const request = {
    project_id: load.project_id,
    bridge_id: `bridge-${n}`,
    device_id: "device-1",
    display_name: "A Bridge under load",
    public_key_fingerprint
  }
  const headers = { ...json, "idempotency-key": key(), authorization: `Bearer ${Redacted.value(credentialOf(n))}` }
  const path = "/bridge/v1/enrollment/challenges"
  return expect(201, await connection.request("POST", path, headers, JSON.stringify(request)))
}

const proofOf = ({ bridge_id, challenge_id, nonce_b64, project_id }: Record<string, string>) =>
  JSON.stringify({
    project_id,
    bridge_id,
    challenge_id,
    nonce_b64,
    signature_b64: sign(null, Buffer.from(nonce_b64!, "base64url"), privateKey).toString("base64url"),
    public_key_b64: rawKey.toString("base64url")
  })

const prove = async (connection: Connection, proof: string) =>
  expect(
    200,
    await connection.request("POST", "/bridge/v1/enrollment/proofs", { ...json, "idempotency-key": key() }, proof)
  )

const enroll = async (connection: Connection) => prove(connection, proofOf(await challenge(connection)))

const enrolled = async (service: Connection): Promise<string> => (await enroll(service)).access_token

const b64 = (data: string | Uint8Array) => Buffer.from(data).toString("base64url")
const dpopHeader = b64(
  JSON.stringify({ typ: "dpop+jwt", alg: "EdDSA", jwk: { kty: "OKP", crv: "Ed25519", x: b64(rawKey) } })
)

/** The token, with a proof of the key if the run asks for proofs (RFC 9449 4.2). */
const authorized = (method: string, path: string, token: string) => {
  const authorization = `Bearer ${token}`
  if (load.proves !== true) return { authorization }
  const claims = {
    jti: randomUUID(),
    htm: method,
    htu: `${load.url}${path}`,
    iat: Math.floor(Date.now() / 1000),
    ath: hash("sha256", token, "base64url")
  }
  const message = `${dpopHeader}.${b64(JSON.stringify(claims))}`
  return { authorization, dpop: `${message}.${b64(sign(null, Buffer.from(message), privateKey))}` }
}

const self = async (connection: Connection, token: string) => {
  const path = "/bridge/v1/tokens/self"
  return expect(200, await connection.request("GET", path, authorized("GET", path, token)))
}

const rotation = "/bridge/v1/tokens/rotate"

interface Prepared {
  readonly rotation_id: string
  readonly successor_token: string
}

const prepare = async (connection: Connection, token: string): Promise<Prepared> => {
  const path = `${rotation}/prepare`
  const headers = { "idempotency-key": key(), ...authorized("POST", path, token) }
  return expect(201, await connection.request("POST", path, headers))
}

/** Returns the successor, which is now the active token. */
const confirm = async (connection: Connection, { rotation_id, successor_token }: Prepared) => {
  const path = `${rotation}/confirm`
  const headers = { ...json, "idempotency-key": key(), ...authorized("POST", path, successor_token) }
  expect(200, await connection.request("POST", path, headers, JSON.stringify({ rotation_id })))
  return successor_token
}

const codes = [...(load.codes ?? [])]

/** RFC 6749 4.1.3, 6. */
const grant = async (connection: Connection, fields: Readonly<Record<string, string>>): Promise<string> => {
  const body = new URLSearchParams({ ...fields, client_id: load.client_id! }).toString()
  const headers = { "content-type": "application/x-www-form-urlencoded" }
  return expect(200, await connection.request("POST", "/token", headers, body)).refresh_token
}

const exchange = (connection: Connection) =>
  grant(connection, { grant_type: "authorization_code", code: codes.pop()!, code_verifier: verifier, redirect_uri })

/** RFC 8555 7.2, 7.3. */
const account = async (connection: Connection, { privateKey, publicKey }: KeyPairKeyObjectResult) => {
  const { crv, kty, x, y } = publicKey.export({ format: "jwk" })
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url")
  const { head } = await connection.request("HEAD", "/nonce-plz", {})
  const nonce = /\r\nreplay-nonce: *([\w-]+)/i.exec(head)![1]
  const header = part({ alg: "ES256", jwk: { crv, kty, x, y }, nonce, url: `${load.url}/sign-me-up` })
  const payload = part({ termsOfServiceAgreed: true })
  const key = { key: privateKey, dsaEncoding: "ieee-p1363" as const }
  const signature = sign("sha256", Buffer.from(`${header}.${payload}`), key).toString("base64url")
  const body = JSON.stringify({ protected: header, payload, signature })
  expect(201, await connection.request("POST", "/sign-me-up", { "content-type": "application/jose+json" }, body))
}

/** Prepared before the measurement; all connections take from them. */
const proofs: Array<string> = []
const keys: Array<KeyPairKeyObjectResult> = []

/** Each is called once per connection before the measurement, and returns the operation to repeat. */
const operations = {
  enroll:
    async (connection: Connection): Promise<Operation> =>
    () =>
      enroll(connection),
  prove: async (connection: Connection, service: Connection): Promise<Operation> => {
    for (let i = 0; i < load.count / load.connections; i++) proofs.push(proofOf(await challenge(service)))
    return async () => prove(connection, proofs.pop()!)
  },
  self: async (connection: Connection, service: Connection): Promise<Operation> => {
    const tokens = [await enrolled(service), await enrolled(service), await enrolled(service), await enrolled(service)]
    return () => self(connection, tokens[serial++ % tokens.length]!)
  },
  rotate: async (connection: Connection, service: Connection): Promise<Operation> => {
    let token = await enrolled(service)
    return async () => void (token = await confirm(connection, await prepare(connection, token)))
  },
  /** Ten requests are one prepare, one confirm and eight self. */
  mixed: async (connection: Connection, service: Connection): Promise<Operation> => {
    let token = await enrolled(service)
    let prepared: Prepared | undefined
    let turn = 0
    return async () => {
      if (prepared !== undefined) {
        token = await confirm(connection, prepared)
        prepared = undefined
      } else if (turn++ % 9 === 0) prepared = await prepare(connection, token)
      else await self(connection, token)
    }
  },
  exchange:
    async (connection: Connection): Promise<Operation> =>
    () =>
      exchange(connection),
  refresh: async (connection: Connection): Promise<Operation> => {
    let refresh_token = await exchange(connection)
    return async () => void (refresh_token = await grant(connection, { grant_type: "refresh_token", refresh_token }))
  },
  account: async (connection: Connection): Promise<Operation> => {
    // pebble answers a known key with its existing account, so every request needs a new key.
    for (let i = 0; i < load.count / load.connections; i++)
      keys.push(generateKeyPairSync("ec", { namedCurve: "P-256" }))
    return () => account(connection, keys.pop()!)
  }
}

const connections = await Promise.all(
  Array.from({ length: load.connections }, async () => {
    const connection = await open(load.url)
    const service = load.service === undefined ? connection : await open(load.service)
    const run = await (load.agent === undefined ? operations : { ...operations, ...tools(load.agent) })[
      load.operation as keyof typeof operations
    ](connection, service)
    if (service !== connection) service.close()
    return { connection, run }
  })
)

process.on("message", async (start: Start) => {
  codes.push(...start.codes)
  const latencies: Array<number> = []
  const started = performance.now()
  const until = started + load.seconds * 1000
  let remaining = load.count
  await Promise.all(
    connections.map(async ({ run }) => {
      while (remaining-- > 0 && performance.now() < until) {
        const before = performance.now()
        await run()
        latencies.push(performance.now() - before)
      }
    })
  )
  const seconds = (performance.now() - started) / 1000
  latencies.sort((a, b) => a - b)
  const quantile = (q: number) => latencies[Math.floor(latencies.length * q)]!
  const count = latencies.length
  const measured = { count, seconds, per_second: count / seconds, p50_ms: quantile(0.5), p99_ms: quantile(0.99) }
  process.send!(measured satisfies Measured)
})
process.once("disconnect", () => connections.forEach(({ connection }) => connection.close()))
process.send!("ready")
