/**
 * Secrets in the forms that people paste. They are made here, with random values and sound checksums: the repository
 * holds none, so no scanner of repositories reports it.
 */
import { generateKeyPairSync, type KeyObject } from "node:crypto"
import { crc32 } from "node:zlib"
import { Redacted } from "effect"
import { digits, format } from "../../../src/platform/crypto/Tokens.ts"
import type { SecretKind } from "../../../src/platform/secrets/Rules.ts"

const lower = "abcdefghijklmnopqrstuvwxyz"
const upper = lower.toUpperCase()
const numbers = "0123456789"
const base62 = numbers + upper + lower

/** Mulberry32: the same numbers in every run. */
const randomOf = (seed: number) => () => {
  seed = (seed + 0x6d2b79f5) | 0
  let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed)
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
}

export interface Planted {
  readonly kind: SecretKind
  readonly secret: string
  readonly text: string
}

const exported = ({ privateKey }: { readonly privateKey: KeyObject }, type: "pkcs8" | "sec1" | "pkcs1") =>
  privateKey.export({ type, format: "pem" }).toString()

/** `now` decides when the JWTs expire: an hour later. */
export const planted = (now: Date, seed = 1): ReadonlyArray<Planted> => {
  const random = randomOf(seed)
  const of = (alphabet: string, length: number) =>
    Array.from({ length }, () => alphabet[Math.floor(random() * alphabet.length)]).join("")
  const checked = (prefix: string) => {
    const value = of(base62, 30)
    return prefix + value + digits(crc32(value), 6)
  }
  const json = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url")
  const jwt = () =>
    `${json({ alg: "RS256", typ: "JWT" })}.${json({ sub: of(numbers, 10), exp: Math.floor(now.getTime() / 1000) + 3600 })}.${of(`${base62}-_`, 86)}`
  const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 })
  const ec = generateKeyPairSync("ec", { namedCurve: "P-256" })
  const ed = generateKeyPairSync("ed25519")
  const openssh = () =>
    `-----BEGIN OPENSSH PRIVATE KEY-----\n${of(`${base62}+/`, 350).replaceAll(/(.{70})/g, "$1\n")}\n-----END OPENSSH PRIVATE KEY-----\n`
  const pgp = () =>
    `-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n${of(`${base62}+/`, 600).replaceAll(/(.{64})/g, "$1\n")}\n-----END PGP PRIVATE KEY BLOCK-----`
  const aws = () => [`AKIA${of("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16)}`, of(`${base62}+/`, 40)]
  const bot = (digits: number) => Buffer.from(of("123456789", digits)).toString("base64url")
  const password = () => `${of(lower, 5)}${of(upper, 3)}${of(numbers, 4)}${of(lower, 4)}`

  const forms: ReadonlyArray<readonly [kind: SecretKind, secret: () => string]> = [
    ["private_key", () => exported(rsa, "pkcs8")],
    ["private_key", () => exported(rsa, "pkcs1")],
    ["private_key", () => exported(ec, "sec1")],
    ["private_key", openssh],
    ["private_key", pgp],
    ["private_key", () => JSON.stringify(ed.privateKey.export({ format: "jwk" }))],
    ["private_key", () => JSON.stringify(ed.privateKey.export({ format: "jwk" })).replaceAll('"', "'")],
    ["private_key", () => JSON.stringify({ type: "service_account", private_key: exported(rsa, "pkcs8") })],
    ["private_key", () => `AGE-SECRET-KEY-1${of("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58)}`],
    ["github_token", () => checked(["ghp_", "gho_", "ghu_", "ghs_", "ghr_"][Math.floor(random() * 5)]!)],
    ["github_token", () => `github_pat_${of(base62, 22)}_${of(base62, 59)}`],
    ["gitlab_token", () => `glpat-${of(`${base62}_-`, 19)}7`],
    ["gitlab_token", () => `glpat-${of(`${base62}_-`, 27)}.01.${of(numbers + lower, 9).slice(2)}`],
    ["npm_token", () => checked("npm_")],
    ["npm_token", () => `//npm.shop.test/:_password="${Buffer.from(password()).toString("base64")}"`],
    ["npm_token", () => `//npm.shop.test/:_auth = ${Buffer.from(`ci:${password()}`).toString("base64")}`],
    ["pypi_token", () => `pypi-AgEIcHlwaS5vcmc${of(`${base62}_-`, 150)}`],
    ["slack_token", () => `xoxb-${of(numbers, 12)}-${of(numbers, 13)}-${of(base62, 24)}`],
    [
      "slack_token",
      () => `https://hooks.slack.com/services/T${of(upper + numbers, 9)}/B${of(upper + numbers, 9)}/${of(base62, 23)}7`
    ],
    ["stripe_key", () => `sk_live_${of(base62, 24)}`],
    ["stripe_key", () => `rk_live_${of(base62, 99)}`],
    ["webhook_secret", () => `whsec_${Buffer.from(of(base62, 32)).toString("base64")}`],
    ["aws_credentials", () => aws().join("\n")],
    ["aws_credentials", () => (([id, key]) => `aws_access_key_id = ${id}\naws_secret_access_key = ${key}`)(aws())],
    ["openai_key", () => `sk-proj-${of(`${base62}_-`, 74)}T3BlbkFJ${of(`${base62}_-`, 73)}7`],
    ["anthropic_key", () => `sk-ant-api03-${of(`${base62}_-`, 93)}AA`],
    ["hugging_face_token", () => `hf_${of(lower + upper, 34)}`],
    ["google_key", () => `AIzaSy${of(`${base62}_-`, 32)}7`],
    ["google_key", () => `GOCSPX-${of(`${base62}_-`, 27)}7`],
    ["sendgrid_key", () => `SG.${of(`${base62}_-`, 22)}.${of(`${base62}_-`, 42)}7`],
    ["telegram_token", () => `${of("123456789", 10)}:AA${of(`${base62}_-`, 32)}7`],
    ["telegram_token", () => `https://api.telegram.org/bot${of("123456789", 9)}:AA${of(`${base62}_-`, 32)}7/getMe`],
    ["discord_token", () => `${bot(18)}.${of(base62, 6)}.${of(`${base62}_-`, 26)}7`],
    ["discord_token", () => `${bot(19)}.${of(base62, 6)}.${of(`${base62}_-`, 37)}7`],
    ["discord_token", () => `https://discord.com/api/webhooks/${of("123456789", 19)}/${of(`${base62}_-`, 67)}7`],
    ["live_jwt", jwt],
    ["connection_password", () => `postgres://shop:${password()}@db.internal:5432/shop`],
    ["connection_password", () => `mongodb+srv://app:${password()}@cluster0.${of(lower, 5)}.mongodb.net/shop`],
    ["connection_password", () => `Server=tcp:sql.internal,1433;Database=shop;User ID=app;Password=${password()}!;`],
    ["connection_password", () => `postgres://shop:${password()}$${of(lower, 2)}*${of(upper, 2)}@db.internal/shop`],
    ["connection_password", () => `jdbc:postgresql://db.internal/shop?user=app&password=${password()}&ssl=true`],
    [
      "connection_password",
      () => `spring.datasource.url=jdbc:mysql://db.internal/shop\nspring.datasource.password=${password()}`
    ],
    [
      "connection_password",
      () =>
        `DefaultEndpointsProtocol=https;AccountName=shop;AccountKey=${of(base62, 86)}==;EndpointSuffix=core.windows.net`
    ],
    [
      "connection_password",
      () => `Endpoint=sb://shop.servicebus.windows.net/;SharedAccessKeyName=send;SharedAccessKey=${of(base62, 43)}=`
    ],
    ["spt", () => Redacted.value(format("spt", Buffer.from(of(base62, 32))))],
    ["sbe", () => Redacted.value(format("sbe", Buffer.from(of(base62, 32))))]
  ]
  const pastes: ReadonlyArray<(secret: string) => string> = [
    (secret) => secret,
    (secret) => `I used this one, it still works:\n\n${secret}\n\nPlease rotate it some day.`,
    (secret) => `export SERVICE_KEY="${secret}"`,
    (secret) => JSON.stringify({ env: { KEY: secret } }, undefined, 2),
    (secret) => `\`\`\`\n$ curl -H 'Authorization: Bearer ${secret}' https://api.shop.test/orders\n\`\`\``,
    (secret) => `data:\n  key: ${Buffer.from(secret).toString("base64")}\n`,
    (secret) => `https://shop.test/callback?key=${encodeURIComponent(secret)}&state=1`
  ]
  return forms.flatMap(([kind, make]) =>
    pastes.map((paste) => {
      const secret = make()
      return { kind, secret, text: paste(secret) }
    })
  )
}
