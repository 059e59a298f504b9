/** The encryption and the signature of web push: the examples of the RFCs, and a second implementation. */
import { assert, describe, it } from "@effect/vitest"
import { Redacted } from "effect"
import { createECDH, ECDH, randomBytes, webcrypto } from "node:crypto"
import { deriveKey, isPoint } from "../../../src/platform/crypto/P256.ts"
import { encrypt, maxPlaintext } from "../../../src/push/channels/webpush/encrypt.ts"
import { browserPayload } from "../../../src/push/delivery/Payload.ts"
import { authorization } from "../../../src/push/channels/webpush/authorization.ts"
import { decrypt, makeBrowser } from "../../support/phones/Browser.ts"

const bytes = (text: string) => Buffer.from(text, "base64url")

describe("a push message", () => {
  it("is encrypted as in the example of RFC 8291 (section 5)", () => {
    const curve = createECDH("prime256v1")
    curve.setPrivateKey(bytes("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"))
    const encrypted = encrypt(
      Buffer.from("When I grow up, I want to be a watermelon"),
      {
        p256dh: bytes("BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"),
        auth: bytes("BTBZMqHH6r4Tts7J_aSIgg")
      },
      { curve, salt: bytes("DGv6ra1nlYgDCS1FRnbzlw") }
    )
    assert.strictEqual(
      encrypted.toString("base64url"),
      "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
    )
  })

  it.each([0, 1, 200, maxPlaintext])(
    "of %d bytes is read by another implementation, with the browser's keys only",
    async (length) => {
      const browser = await makeBrowser()
      const plain = randomBytes(length)
      const encrypted = encrypt(plain, browser.recipient)
      assert.isAtMost(encrypted.length, 4096)
      assert.deepStrictEqual(await decrypt(encrypted, browser), plain)
      assert.strictEqual(await decrypt(encrypted, await makeBrowser()).catch(() => "unreadable"), "unreadable")
    }
  )

  it.each([
    ["task.blocked", "tasks/task-1"],
    ["bridge.revoked", "bridges"],
    ["security.client_authorized", "agents"],
    ["device.test", "phones"]
  ] as const)("about %s leads to %s", (kind, page) => {
    const notification = { delivery_id: "delivery-1", kind, project_id: "project-1", reference: "task-1" }
    const { url } = JSON.parse(browserPayload(notification, { origin: "https://bridge.example.com" }))
    assert.strictEqual(url, `https://bridge.example.com/console/project-1/${page}`)
  })

  it("has another key and salt each time", () => {
    const recipient = { p256dh: createECDH("prime256v1").generateKeys(), auth: randomBytes(16) }
    const heads = Array.from({ length: 50 }, () => encrypt(Buffer.from("again"), recipient).toString("hex", 0, 86))
    assert.strictEqual(new Set(heads).size, 50)
  })

  it("longer than a record is refused", () => {
    const recipient = { p256dh: createECDH("prime256v1").generateKeys(), auth: randomBytes(16) }
    assert.throws(() => encrypt(Buffer.alloc(maxPlaintext + 1), recipient))
  })
})

describe("a key of P-256", () => {
  const secret = (fill: number) => Redacted.make<Uint8Array>(Buffer.alloc(32, fill))

  it("is the same for the same secret, salt and purpose, and another for any other", () => {
    const point = (...given: Parameters<typeof deriveKey>) => Buffer.from(deriveKey(...given).point).toString("hex")
    const salt = Buffer.alloc(32, 7)
    assert.strictEqual(point(secret(1), salt, "one"), point(secret(1), salt, "one"))
    const others = [
      point(secret(2), salt, "one"),
      point(secret(1), Buffer.alloc(32, 8), "one"),
      point(secret(1), salt, "two")
    ]
    assert.strictEqual(new Set([...others, point(secret(1), salt, "one")]).size, 4)
  })

  it("is a point of the curve, and other bytes are none", () => {
    const { point } = deriveKey(secret(1), Buffer.alloc(32), "one")
    assert.isTrue(isPoint(point))
    const bent = Buffer.from(point)
    bent[64]! ^= 1
    for (const wrong of [bent, Buffer.alloc(65), Buffer.alloc(65, 4), point.subarray(0, 64), Buffer.alloc(0)]) {
      assert.isFalse(isPoint(wrong))
    }
    const compressed = ECDH.convertKey(point, "prime256v1", undefined, undefined, "compressed")
    assert.isFalse(isPoint(compressed as Buffer))
  })

  it("signs what RFC 8292 asks for, and WebCrypto verifies it", async () => {
    const key = deriveKey(secret(3), Buffer.alloc(32), "one")
    const now = new Date("2026-11-23T12:00:00Z")
    const header = Redacted.value(
      authorization(key, new URL("https://push.example:8443/send/abc"), "mailto:ops@example.com", now)
    )
    const [, token = "", k = ""] = /^vapid t=([\w.-]+), k=([\w-]{87})$/.exec(header) ?? []
    const [head = "", claims = "", signature = ""] = token.split(".")
    assert.deepStrictEqual(JSON.parse(bytes(head).toString()), { typ: "JWT", alg: "ES256" })
    assert.deepStrictEqual(JSON.parse(bytes(claims).toString()), {
      aud: "https://push.example:8443",
      exp: now.getTime() / 1000 + 43_200,
      sub: "mailto:ops@example.com"
    })
    const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" }
    const publicKey = await webcrypto.subtle.importKey("raw", bytes(k), algorithm, false, ["verify"])
    const content = Buffer.from(`${head}.${claims}`)
    assert.isTrue(await webcrypto.subtle.verify(algorithm, publicKey, bytes(signature), content))
  })
})
