/** A browser's side of web push, with WebCrypto: its keys, and the decryption of RFC 8291 written from the RFC. */
import { randomBytes, webcrypto } from "node:crypto"

const { subtle } = webcrypto
const curve = { name: "ECDH", namedCurve: "P-256" }

export type Browser = Awaited<ReturnType<typeof makeBrowser>>

export const makeBrowser = async () => {
  const pair = (await subtle.generateKey(curve, false, ["deriveBits"])) as webcrypto.CryptoKeyPair
  const p256dh = Buffer.from(await subtle.exportKey("raw", pair.publicKey))
  const auth = randomBytes(16)
  return {
    privateKey: pair.privateKey,
    recipient: { p256dh, auth },
    /** As PushSubscription.toJSON writes them. */
    keys: { p256dh: p256dh.toString("base64url"), auth: auth.toString("base64url") }
  }
}

/** A new browser, and its subscription as it is registered. */
export const makeSubscription = async (
  endpoint = `https://fcm.googleapis.com/fcm/send/${randomBytes(60).toString("base64url")}`
) => {
  const browser = await makeBrowser()
  return { browser, push: { provider: "webpush", endpoint, keys: browser.keys } }
}

const hkdf = async (input: Uint8Array, salt: Uint8Array, info: Uint8Array, length: number) => {
  const key = await subtle.importKey("raw", input, "HKDF", false, ["deriveBits"])
  return Buffer.from(await subtle.deriveBits({ name: "HKDF", hash: "SHA-256", salt, info }, key, length * 8))
}

/** The plaintext; rejects a message for another browser. */
export const decrypt = async (message: Buffer, { privateKey, recipient }: Browser): Promise<Buffer> => {
  const salt = message.subarray(0, 16)
  const idLength = message.readUInt8(20)
  const sender = message.subarray(21, 21 + idLength)
  const publicKey = await subtle.importKey("raw", sender, curve, false, [])
  const shared = Buffer.from(await subtle.deriveBits({ name: "ECDH", public: publicKey }, privateKey, 256))
  const text = (of: string) => Buffer.from(`${of}\0`)
  const info = Buffer.concat([text("WebPush: info"), recipient.p256dh, sender])
  const input = await hkdf(shared, recipient.auth, info, 32)
  const key = await subtle.importKey(
    "raw",
    await hkdf(input, salt, text("Content-Encoding: aes128gcm"), 16),
    "AES-GCM",
    false,
    ["decrypt"]
  )
  const iv = await hkdf(input, salt, text("Content-Encoding: nonce"), 12)
  const record = Buffer.from(await subtle.decrypt({ name: "AES-GCM", iv }, key, message.subarray(21 + idLength)))
  // The last byte that is not padding says that this is the last record.
  const end = record.findLastIndex((byte) => byte !== 0)
  if (record[end] !== 2) throw new Error("not the last record")
  return record.subarray(0, end)
}
