/** Another valid signature of the same message: Ed25519 with a random r instead of the derived one (RFC 8032 5.1.6). */
import { hashes, Point } from "@noble/ed25519"
import { Effect, Redacted } from "effect"
import { randomBytes } from "node:crypto"
import type { KeyPair } from "../../../../src/client/Crypto.ts"

const L = 2n ** 252n + 27742317777372353535851937790883648493n

export const secondSignature = ({ privateKey, publicKey }: KeyPair, message: Uint8Array) =>
  Effect.promise(async () => {
    const sha512 = async (bytes: Uint8Array) => Buffer.from(await hashes.sha512Async(bytes))
    const head = (await sha512(Redacted.value(privateKey))).subarray(0, 32)
    head[0]! &= 248
    head[31] = (head[31]! & 127) | 64
    const r = littleEndian(randomBytes(64)) % L
    const R = Point.BASE.multiply(r).toBytes()
    const k = littleEndian(await sha512(Buffer.concat([R, publicKey, message]))) % L
    const S = (r + k * littleEndian(head)) % L
    const bytes = Buffer.from(S.toString(16).padStart(64, "0"), "hex").toReversed()
    return Buffer.concat([R, bytes])
  })

const littleEndian = (bytes: Uint8Array) => BigInt(`0x${Buffer.from(bytes.toReversed()).toString("hex")}`)
