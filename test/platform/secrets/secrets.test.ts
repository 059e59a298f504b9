/** What is a secret and what is not (spec 1.5). */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Redacted } from "effect"
import { hash } from "node:crypto"
import { format } from "../../../src/platform/crypto/Tokens.ts"
import { secretIn } from "../../../src/platform/secrets/Guard.ts"
import { isRandom } from "../../../src/platform/secrets/Rules.ts"
import { findSecret, findSecretIn } from "../../../src/platform/secrets/Secrets.ts"
import { innocent } from "../../support/secrets/Innocent.ts"
import { planted } from "../../support/secrets/Planted.ts"

const now = new Date("2026-11-23T12:00:00Z")

describe("characters drawn at random", () => {
  it.each([
    ["of two cases", "qWeRtYuIoPaSdFgH"],
    ["with three of sixteen like the one before", "qqwwee3r4t5y6u7i"],
    ["with three of sixteen next to the one before", "q1ac2df3ab4cd5ef"],
    ["with sixteen different ones of forty-eight", "q1w2e3r4t5y6u7i8".repeat(3)],
    ["with eight different ones of twenty", "q1w2e3r4q1w2e3r4q1w2"]
  ])("look so: %s", (_, value) => {
    assert.isTrue(isRandom(value))
  })

  it.each<[string, string]>([
    ["of one case without a digit", "qwertyuiopasdfgh"],
    ["with four of sixteen like the one before", "qqwweerr4t5y6u7i"],
    ["with four of sixteen next to the one before", "q1ab2cd3ef4gh5t6"],
    ["with fifteen different ones of forty", "q1w2e3r4t5y6u7iq1w2e3r4t5y6u7iq1w2e3r4t5"],
    ["with seven different ones of twenty", "q1w2e3rq1w2e3rq1w2e3"],
    ...["example", "YOUR", "placeholder", "redacted", "dummy", "sample", "xxxx", "XXXX", "***", "..."].map(
      (word): [string, string] => [`with ${word} in them`, `q1w2e3r4t5y6u7i8${word}9o0p`]
    )
  ])("do not look %s", (_, value) => {
    assert.isFalse(isRandom(value))
  })
})

describe("a password in an address", () => {
  const found = (password: string, user = "app") => findSecret(`postgres://${user}:${password}@db.internal/shop`, now)

  it.each(["qW3eR4tY", "q3e4r5t6y7u8"])("is a secret: %s", (password) => {
    assert.strictEqual(found(password), "connection_password")
  })

  it.each([
    ["is too short", "qW3eR4t"],
    ["has two kinds of characters and is too short for them", "q3e4r5t6y7u"],
    ["has two kinds of characters and no digit", "qWeRtYuIoPaS"],
    ["has one kind of characters", "314159265358979"],
    ["names a variable", "qW3eR4$AB"],
    ["is a word of documentation", "qW3eR4tYtoken"]
  ])("is none if it %s: %s", (_, password) => {
    assert.isUndefined(found(password))
  })

  it("is none if it is the user's name, or the address leads to nothing that has accounts", () => {
    assert.isUndefined(found("qW3eR4tY", "qW3eR4tY"))
    assert.isUndefined(findSecret("git-annex://app:qW3eR4tY@db.internal/shop", now))
  })
})

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

  it("is no beginning and end of a key without the key, whatever follows", () => {
    const random = hash("sha512", "follows", "base64")
    assert.isUndefined(findSecret(`-----BEGIN PRIVATE KEY-----\n(cut)\n-----END PRIVATE KEY-----\n${random}`, now))
    assert.isUndefined(findSecret(`A file begins with -----BEGIN PRIVATE KEY, a checksum is ${random}`, now))
  })

  it("is 60 characters of a key that was cut off, and not fewer", () => {
    const cut = (length: number) => `-----BEGIN PRIVATE KEY-----\n${hash("sha512", "cut", "base64").slice(0, length)}`
    assert.strictEqual(findSecret(cut(60), now), "private_key")
    assert.isUndefined(findSecret(cut(59), now))
  })

  it("is no key id of AWS that documentation shows or nobody has drawn, though a secret stands beside it", () => {
    const { secret } = all.find(({ kind }) => kind === "aws_credentials")!
    const [known, key] = secret.split("\n")
    for (const id of ["AKIAIOSFODNN7EXAMPLE", "AKIAABABABABABABABAB"])
      assert.isUndefined(findSecret(`${id}\n${key}`, now))
    // Nor is a commit the secret of a key that was drawn.
    assert.isUndefined(findSecret(`${known}\n${hash("sha1", "commit")}`, now))
  })

  it.each([
    // In pieces, so that no scanner of repositories reports them.
    ["Discord", ["MTk4NjIyNDgzNDcxOTI1MjQ4", "Cl2FMQ", "ZnCjm1XVW7vRze4b7Cq4se7kKWs"].join(".")],
    ["Google", `AIzaSy${"DaGmWKa4JsXZ-HjGw7ISLn_3namBGewQe"}`],
    ["Telegram", `110201543:${"AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"}`]
  ])("is not the example in the documentation of %s", (_, example) => {
    assert.isUndefined(findSecret(example, now))
  })

  it.each(["q1w2e3r4t5", "ci:test1234", "AbCd"])("is no password for a registry that looks like none: %s", (given) => {
    assert.isUndefined(findSecret(`//npm.shop.test/:_auth=${Buffer.from(given).toString("base64")}`, now))
  })

  it.each([
    ["gitlab_token", "glpat-"],
    ["slack_token", "xoxb-"],
    ["anthropic_key", "sk-ant-"]
  ])("of the kind %s is found before and behind another %s", (wanted, beginning) => {
    const { secret } = all.find(({ kind }) => kind === wanted)!
    for (const text of [`${secret}-${beginning}`, `${beginning}${"x".repeat(30)}${secret}`])
      assert.strictEqual(findSecret(text, now), wanted, text)
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

  it.effect("is refused with the words for its field, or for several together", () =>
    Effect.gen(function* () {
      const { secret } = all.find(({ kind }) => kind === "github_token")!
      assert.include((yield* secretIn({ title: secret }, now))?.message, "title contains a GitHub token")
      const cut = { title: secret.slice(0, 20), body: secret.slice(20) }
      assert.include((yield* secretIn(cut, now))?.message, "What the fields say together contains a GitHub token")
      assert.isUndefined(yield* secretIn({ title: "T", body: "B" }, now))
    })
  )

  it.effect("is looked for in turns with other requests, and found in the last of much text", () =>
    Effect.gen(function* () {
      const { secret } = all.find(({ kind }) => kind === "github_token")!
      const tasks = Array.from({ length: 50 }, () => ":_auth=".repeat(2000))
      let turns = 0
      const others = yield* Effect.forkChild(
        Effect.forever(
          Effect.andThen(
            Effect.sync(() => (turns += 1)),
            Effect.yieldNow
          )
        )
      )
      assert.include((yield* secretIn({ tasks: [...tasks, secret] }, now))?.message, "tasks.50 contains a GitHub token")
      const turnsOfFields = turns
      assert.isAtLeast(turnsOfFields, 5, "within 700,000 characters")
      yield* secretIn({ tasks }, now)
      assert.isAtLeast(turns, 4 * turnsOfFields, "they are searched together as well, in two ways")
      turns = 0
      const ends = [{ tasks }, { tasks }, { title: "T" }].map((input) => Effect.map(secretIn(input, now), () => turns))
      const [first, second, short] = yield* Effect.all(ends, { concurrency: 3 })
      assert.isAtLeast(second!, 1.5 * first!, "one search after the other")
      assert.isBelow(short!, 5, "what is short waits for none")
      yield* Fiber.interrupt(others)
    })
  )

  it("is named by the path of its field", () => {
    const { secret } = all.find(({ kind }) => kind === "npm_token")!
    assert.deepStrictEqual(findSecretIn({ title: "T", receipt: { pitfalls: ["a", secret] } }, now), {
      field: "receipt.pitfalls.1",
      kind: "npm_token"
    })
  })

  it("is no value without text", () => {
    assert.isUndefined(findSecretIn({ a: null, b: 1, c: undefined, d: [true, null] }, now))
  })

  it("a JWT is one until it expires", () => {
    const { text } = all.find(({ kind }) => kind === "live_jwt")!
    assert.isUndefined(findSecret(text, new Date(now.getTime() + 2 * 3_600_000)))
    // In a name, which has no time.
    assert.isUndefined(findSecret(text))
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url")
    const unsigned = [part({ typ: "something else" }), part({ exp: now.getTime() }), "q1w2e3r4t5y6u7i8q1w2e3r4"]
    assert.isUndefined(findSecret(unsigned.join("."), now))
  })
})
