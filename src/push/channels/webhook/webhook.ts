/**
 * A webhook as the Standard Webhooks specification has it (standardwebhooks.com): the receiver checks `webhook-signature`
 * over `webhook-id`, `webhook-timestamp` and the body, and ignores an id that it has seen.
 */
import { createHmac, randomBytes } from "node:crypto"
import { Redacted } from "effect"
import type { Message } from "../Message.ts"

/** 32 bytes. */
export const makeSecret = (): Redacted.Redacted<string> => Redacted.make(`whsec_${randomBytes(32).toString("base64")}`)

/** 24 to 64 bytes in base64, after `whsec_`. */
export const isSecret = (text: string): boolean => {
  const [, base64 = ""] = /^whsec_([A-Za-z0-9+/]{32,88}={0,2})$/.exec(text) ?? []
  const bytes = Buffer.from(base64, "base64")
  return bytes.toString("base64") === base64 && bytes.length >= 24 && bytes.length <= 64
}

/** `id` is the same on every attempt, `now` the time of this one. */
export const webhookRequest = (message: Message, secrets: ReadonlyArray<string>, id: string, now: Date) => {
  const { at, kind, project_id, subject_id, title, url, version } = message
  const data = { project_id, kind, url, subject_id, version, ...(title !== null && { title }) }
  const body = Buffer.from(JSON.stringify({ type: kind, timestamp: at.toISOString(), data }))
  const timestamp = String(Math.floor(now.getTime() / 1000))
  const signature = secrets.map((secret) => `v1,${sign(secret, `${id}.${timestamp}.`, body)}`).join(" ")
  const headers = {
    "content-type": "application/json",
    "webhook-id": id,
    "webhook-timestamp": timestamp,
    "webhook-signature": signature
  }
  return { headers, body }
}

const sign = (secret: string, head: string, body: Buffer) =>
  createHmac("sha256", Buffer.from(secret.slice("whsec_".length), "base64"))
    .update(head)
    .update(body)
    .digest("base64")
