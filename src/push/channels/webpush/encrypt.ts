/**
 * Encryption of a push message for one browser (RFC 8291, in one record of RFC 8188 `aes128gcm`): the push service
 * carries the message and cannot read it.
 */
import { createCipheriv, createECDH, type ECDH, hkdfSync, randomBytes } from "node:crypto"

/** The browser's keys, of its subscription. */
export interface Recipient {
  /** Uncompressed P-256 point, 65 bytes. */
  readonly p256dh: Uint8Array
  /** 16 bytes. */
  readonly auth: Uint8Array
}

/** Push services accept bodies up to this many bytes (RFC 8030 7.2). */
const recordSize = 4096
/** What is left of a record after header (86), padding delimiter (1) and tag (16). */
export const maxPlaintext: number = recordSize - 86 - 1 - 16

/** `fresh` is for the example of the RFC only: each message has a key pair and a salt of its own. */
export const encrypt = (plaintext: Buffer, { auth, p256dh }: Recipient, fresh = ephemeral()): Buffer => {
  if (plaintext.length > maxPlaintext) throw new Error("The message does not fit into one record.")
  const { curve, salt } = fresh
  const ours = curve.getPublicKey()
  const keyInfo = Buffer.concat([Buffer.from("WebPush: info\0"), p256dh, ours])
  const input = derive(curve.computeSecret(p256dh), auth, keyInfo, 32)
  const key = derive(input, salt, "Content-Encoding: aes128gcm\0", 16)
  const nonce = derive(input, salt, "Content-Encoding: nonce\0", 12)
  const cipher = createCipheriv("aes-128-gcm", key, nonce)
  const header = Buffer.alloc(21)
  salt.copy(header)
  header.writeUInt32BE(recordSize, 16)
  header.writeUInt8(ours.length, 20)
  // 2 ends the last record.
  const encrypted = [cipher.update(plaintext), cipher.update(Buffer.from([2])), cipher.final(), cipher.getAuthTag()]
  return Buffer.concat([header, ours, ...encrypted])
}

const ephemeral = (): { readonly curve: ECDH; readonly salt: Buffer } => {
  const curve = createECDH("prime256v1")
  curve.generateKeys()
  return { curve, salt: randomBytes(16) }
}

const derive = (input: Uint8Array, salt: Uint8Array, info: string | Uint8Array, length: number) =>
  Buffer.from(hkdfSync("sha256", input, salt, info, length))
