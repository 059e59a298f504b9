/** Attestations in the format "packed" (WebAuthn Level 3, 8.2): by the passkey's own key, and by a certificate. */
import { generateKeyPairSync, type KeyObject, sign } from "node:crypto"

/** Makes format and statement. `signed`: authenticator data and the hash of the client data; `key`: that of the passkey. */
export type Attestation = (signed: Uint8Array, key: KeyObject) => readonly [format: string, statement: Uint8Array]

export const byOwnKey: Attestation = (signed, key) => ["packed", statementOf(sign("sha256", signed, key))]

export const byCertificate: Attestation = (signed) => {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" })
  return ["packed", statementOf(sign("sha256", signed, privateKey), certificateOf(publicKey, privateKey))]
}

const hex = (digits: string) => Buffer.from(digits, "hex")

/** {"alg": -7, "sig": signature}, and "x5c": [certificate] if there is one, in CBOR. */
const statementOf = (signature: Uint8Array, certificate?: Uint8Array) =>
  Buffer.concat([
    hex(`a${certificate === undefined ? 2 : 3}63616c672663736967`),
    byteString(signature),
    ...(certificate === undefined ? [] : [hex("6378356381"), byteString(certificate)])
  ])

const byteString = (bytes: Uint8Array) =>
  Buffer.concat([Buffer.from([0x59, bytes.length >> 8, bytes.length & 0xff]), bytes])

/** A certificate (RFC 5280 4.1) as 8.2.1 requires it, signed by its own key. */
const certificateOf = (publicKey: KeyObject, privateKey: KeyObject) => {
  const ecdsaWithSha256 = sequence(hex("06082a8648ce3d040302"))
  const name = sequence(
    ...Object.entries({ 6: "DE", 10: "Tests", 11: "Authenticator Attestation", 3: "Tests" }).map(([type, value]) =>
      der(0x31, sequence(der(0x06, Buffer.from([0x55, 4, Number(type)])), der(0x13, Buffer.from(value))))
    )
  )
  const content = sequence(
    hex("a003020102020101"),
    ecdsaWithSha256,
    name,
    sequence(der(0x17, Buffer.from("200101000000Z")), der(0x17, Buffer.from("491231235959Z"))),
    name,
    publicKey.export({ type: "spki", format: "der" })
  )
  const signature = sign("sha256", content, privateKey)
  return sequence(content, ecdsaWithSha256, der(0x03, hex("00"), signature))
}

const der = (tag: number, ...parts: ReadonlyArray<Uint8Array>) => {
  const content = Buffer.concat(parts)
  return Buffer.concat([Buffer.from([tag, 0x82, content.length >> 8, content.length & 0xff]), content])
}

const sequence = (...parts: ReadonlyArray<Uint8Array>) => der(0x30, ...parts)
