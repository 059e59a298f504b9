/**
 * The minimal server for the same requests: node:http, `pg` and the service's own statements. No routing, no schemas, no
 * limits, no refusals, no logs.
 */
import { createHmac, randomBytes, randomUUID, verify } from "node:crypto"
import { createServer, type IncomingMessage } from "node:http"
import { Redacted } from "effect"
import { Pool } from "pg"
import { sha256 } from "../../src/platform/crypto/Sha256.ts"
import * as Tokens from "../../src/platform/crypto/Tokens.ts"
import type { Recorded } from "../support/statements.ts"

export interface Raw {
  readonly port: number
  readonly database: { readonly host: string; readonly port: number; readonly password: string }
  readonly poolSize: number
  /** One statement for `self`; three for an enrollment: create the challenge; find it; enroll. */
  readonly statements: ReadonlyArray<Recorded>
}

const { database, poolSize, port, statements } = JSON.parse(process.argv[2]!) as Raw
const pool = new Pool({ ...database, user: "postgres", database: "postgres", max: poolSize })

/** Statements are named, so that `pg` prepares each once per connection. */
const run = async (index: number, named: Readonly<Record<string, unknown>>) => {
  const { parameters, sql } = statements[index]!
  const values = parameters.map((parameter) => {
    if ("named" in parameter) return named[parameter.named]
    if ("constant" in parameter) return parameter.constant
    return parameter.fresh === "uuid" ? randomUUID() : randomBytes(32)
  })
  const { rows } = await pool.query({ name: `statement-${index}`, text: sql, values })
  return rows[0]
}

const self = async ({ headers }: IncomingMessage) => {
  const { account_references, bridge_id, device_id, display_name, expires_at, project_id, token_id } = await run(0, {
    bearer: sha256(headers.authorization!.slice("Bearer ".length))
  })
  return {
    project_id,
    bridge_id,
    device_id,
    display_name,
    account_references,
    scope: "bridge:transport",
    token_id,
    expires_at,
    pending_rotation: null
  }
}

const bodyOf = async (request: IncomingMessage) => {
  const chunks: Array<Buffer> = []
  for await (const chunk of request) chunks.push(chunk)
  return JSON.parse(Buffer.concat(chunks).toString())
}

const challenge = async (request: IncomingMessage) => {
  const { bridge_id, project_id, public_key_fingerprint } = await bodyOf(request)
  const challenge_id = randomUUID()
  const credential_hash = sha256(request.headers.authorization!.slice("Bearer ".length))
  await run(0, { bridge_id, challenge_id, credential_hash })
  const [nonce_b64, expires_at] = [randomBytes(32).toString("base64url"), new Date().toISOString()]
  return { challenge_id, project_id, bridge_id, public_key_fingerprint, nonce_b64, expires_at }
}

const prove = async (request: IncomingMessage) => {
  const proof = await bodyOf(request)
  const key_hash = sha256(String(request.headers["idempotency-key"]))
  const { identity_id } = await run(1, { challenge_id: proof.challenge_id, key_hash })
  const nonce = Buffer.from(proof.nonce_b64, "base64url")
  const signature = Buffer.from(proof.signature_b64, "base64url")
  const key = { kty: "OKP", crv: "Ed25519", x: proof.public_key_b64 }
  if (!verify(null, nonce, { key, format: "jwk" }, signature)) throw new Error("Not signed")
  const token = Tokens.format("sbt", createHmac("sha256", "a key").update(identity_id).update(signature).digest())
  const enrolled = await run(2, { challenge_id: proof.challenge_id, key_hash, token_hash: Tokens.hash(token) })
  if (enrolled === undefined) throw new Error("Not enrolled")
  const { bridge_id, project_id } = proof
  const access_token = Redacted.value(token)
  const expires_at = new Date().toISOString()
  return { project_id, bridge_id, access_token, token_type: "Bearer", scope: "bridge:transport", expires_at }
}

const answerTo = (request: IncomingMessage) => {
  if (request.method === "GET") return [200, self(request)] as const
  return request.url!.endsWith("/challenges") ? ([201, challenge(request)] as const) : ([200, prove(request)] as const)
}

createServer((request, response) => {
  const [status, answer] = answerTo(request)
  response.statusCode = status
  answer.then(
    (body) => response.setHeader("content-type", "application/json").end(JSON.stringify(body)),
    (error: Error) => {
      response.statusCode = 500
      response.end(error.message)
    }
  )
}).listen(port, "127.0.0.1", () => process.send?.("ready"))
