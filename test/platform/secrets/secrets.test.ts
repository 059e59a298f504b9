/** What is a secret and what is not (spec 1.5). */
import { assert, describe, it } from "@effect/vitest"
import { Redacted } from "effect"
import { hash } from "node:crypto"
import { format } from "../../../src/platform/crypto/Tokens.ts"
import { findSecret, findSecretIn } from "../../../src/platform/secrets/Secrets.ts"
import { innocent } from "../../support/secrets/Innocent.ts"
import { planted } from "../../support/secrets/Planted.ts"

const now = new Date("2026-11-23T12:00:00Z")

describe("a secret", () => {
  const all = planted(now)
  it(`is found in each of ${all.length} texts that people paste`, () => {
    assert.isAtLeast(all.length, 200)
    for (const { kind, text } of all) assert.strictEqual(findSecret(text, now), kind, `${kind}: ${text.slice(0, 60)}`)
  })

  for (const seed of [2, 3, 4]) {
    it(`is found with other random values (${seed})`, () => {
      const missed = planted(now, seed).filter(({ kind, text }) => findSecret(text, now) !== kind)
      assert.deepStrictEqual(
        missed.map(({ kind, text }) => `${kind}: ${text.slice(0, 80)}`),
        []
      )
    })
  }

  for (const [where, texts] of Object.entries(innocent)) {
    it(`is not found in ${where} (${texts.length})`, () => {
      assert.isAtLeast(texts.length, 100)
      for (const text of texts) assert.isUndefined(findSecret(text, now), text)
    })
  }

  it("is every key of Ed25519, also one with a + in its base64, in a diff, and in strings that are joined", () => {
    const before = Buffer.from("302e020100300506032b657004220420", "hex")
    const keys = Array.from({ length: 50 }, (_, n) => hash("sha256", `${n}`, "buffer"))
    for (const key of keys) {
      const lines = ["-----BEGIN PRIVATE KEY-----", Buffer.concat([before, key]).toString("base64")]
      const diff = lines.map((line) => `+${line}`).join("\n")
      const joined = lines.map((line) => `"${line}\\n"`).join(" +\n  ")
      for (const text of [lines.join("\n"), diff, joined])
        assert.strictEqual(findSecret(text, now), "private_key", text)
    }
  })

  it("is no id of an OAuth client", () => {
    const id = Redacted.value(format("sci", Buffer.alloc(32, "client")))
    assert.isUndefined(findSecret(`The client ${id} may sign in.`, now))
  })

  it("is found when it is cut in two, or given in two fields", () => {
    const { secret } = all.find(({ kind }) => kind === "github_token")!
    const [title, body] = [secret.slice(0, 20), secret.slice(20)]
    assert.deepStrictEqual(findSecretIn({ title, body }, now), { field: "", kind: "github_token" })
    const pair = all.find(({ kind }) => kind === "aws_credentials")!.secret.split("\n")
    assert.deepStrictEqual(findSecretIn({ tasks: pair }, now), { field: "", kind: "aws_credentials" })
    const { secret: pem } = all.find(({ kind }) => kind === "private_key")!
    const lines = pem.split("\n")
    assert.deepStrictEqual(findSecretIn({ a: lines[0], b: lines.slice(1).join("\n") }, now)?.kind, "private_key")
  })

  it("is named by the path of its field", () => {
    const { secret } = all.find(({ kind }) => kind === "npm_token")!
    assert.deepStrictEqual(findSecretIn({ title: "T", receipt: { pitfalls: ["a", secret] } }, now), {
      field: "receipt.pitfalls.1",
      kind: "npm_token"
    })
  })

  it("a JWT is one until it expires", () => {
    const { text } = all.find(({ kind }) => kind === "live_jwt")!
    assert.isUndefined(findSecret(text, new Date(now.getTime() + 2 * 3_600_000)))
  })
})
