/** A new self-signed P-256 certificate for a host name and 127.0.0.1 (RFC 5280; DER written by hand). */
import { generateKeyPairSync, randomBytes, sign } from "node:crypto"

export const throwAwayCertificate = ({
  host = "localhost",
  from = new Date("2020-01-01"),
  until = new Date("2120-01-01")
} = {}) => {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" })
  const algorithm = sequence(oid("2a8648ce3d040302")) // ecdsa-with-SHA256
  const name = sequence(set(sequence(oid("550403"), der(0x0c, host))))
  const extension = (id: string, value: Buffer) => sequence(oid(id), der(0x04, value))
  const content = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, Buffer.concat([Buffer.from([1]), randomBytes(8)])),
    algorithm,
    name,
    sequence(...[from, until].map((at) => der(0x18, `${at.toISOString().replaceAll(/[-:T]|\..*/g, "")}Z`))),
    name,
    publicKey.export({ type: "spki", format: "der" }),
    der(
      0xa3,
      sequence(
        extension("551d13", sequence(der(0x01, Buffer.from([0xff])))), // basic constraints: a CA
        extension("551d11", sequence(der(0x82, host), der(0x87, Buffer.from([127, 0, 0, 1]))))
      )
    )
  )
  const signature = der(0x03, Buffer.concat([Buffer.from([0]), sign("sha256", content, privateKey)]))
  const body = sequence(content, algorithm, signature)
    .toString("base64")
    .match(/.{1,64}/g)!
    .join("\n")
  return {
    key: privateKey.export({ type: "pkcs8", format: "pem" }) as string,
    cert: `-----BEGIN CERTIFICATE-----\n${body}\n-----END CERTIFICATE-----\n`
  }
}

const der = (tag: number, value: Buffer | string) => {
  const bytes = Buffer.from(value)
  const { length } = bytes
  const head = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255]
  return Buffer.concat([Buffer.from([tag, ...head]), bytes])
}
const sequence = (...parts: ReadonlyArray<Buffer>) => der(0x30, Buffer.concat(parts))
const set = (...parts: ReadonlyArray<Buffer>) => der(0x31, Buffer.concat(parts))
const oid = (hex: string) => der(0x06, Buffer.from(hex, "hex"))
