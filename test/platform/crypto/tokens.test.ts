import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted, Schema } from "effect"
import { inspect } from "node:util"
import { equal, sha256 } from "../../../src/platform/crypto/Sha256.ts"
import { format, hash, isToken, kindOf, kinds, mint, type TokenKind } from "../../../src/platform/crypto/Tokens.ts"
import { findSecret } from "../../../src/platform/secrets/Secrets.ts"

const everyKind = Object.keys(kinds) as ReadonlyArray<TokenKind>
const counting = Uint8Array.from({ length: 32 }, (_, i) => i)
const text = (kind: TokenKind, bytes: Uint8Array) => Redacted.value(format(kind, bytes))
const fresh = Effect.map(mint("sbt"), Redacted.value)

/** Computed once with another implementation; they never change. */
const vectors: ReadonlyArray<readonly [TokenKind, Uint8Array, string]> = [
  ["sbe", new Uint8Array(32), "sbe_0000000000000000000000000000000000000000000403LK6"],
  ["sbt", new Uint8Array(32).fill(0xff), "sbt_yhjskwdA6OZ1AL1YmHWZWm8LLG7HjnuCA2j5rOw8Xp14JamTI"],
  ["sbe", counting, "sbe_003aUlTJC7tjlCTQj2uNU3MFagCXG9LRKRcwGkBIDlf4Wx8UE"],
  ["sbt", counting, "sbt_003aUlTJC7tjlCTQj2uNU3MFagCXG9LRKRcwGkBIDlf1zwMK8"],
  ["spt", counting, "spt_003aUlTJC7tjlCTQj2uNU3MFagCXG9LRKRcwGkBIDlf04QZ4M"],
  ["sat", counting, "sat_003aUlTJC7tjlCTQj2uNU3MFagCXG9LRKRcwGkBIDlf4Lb9en"],
  ["srt", counting, "srt_003aUlTJC7tjlCTQj2uNU3MFagCXG9LRKRcwGkBIDlf4cduqC"],
  ["sac", counting, "sac_003aUlTJC7tjlCTQj2uNU3MFagCXG9LRKRcwGkBIDlf09vSkf"],
  ["sci", counting, "sci_003aUlTJC7tjlCTQj2uNU3MFagCXG9LRKRcwGkBIDlf2BmJNF"],
  ["scs", counting, "scs_003aUlTJC7tjlCTQj2uNU3MFagCXG9LRKRcwGkBIDlf3mtWEX"],
  ["sco", counting, "sco_003aUlTJC7tjlCTQj2uNU3MFagCXG9LRKRcwGkBIDlf095R0Z"]
]

/** 2^256, and the largest number of 43 digits, each with a correct checksum. */
const tooLarge = [
  "sbt_yhjskwdA6OZ1AL1YmHWZWm8LLG7HjnuCA2j5rOw8Xp226AMi2",
  "sbt_zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz0e8NNB"
]

describe("the format of a token", () => {
  it("is fixed", () => {
    for (const [kind, bytes, expected] of vectors) assert.strictEqual(text(kind, bytes), expected)
  })

  it("is recognised as its own kind and as no other", () => {
    for (const [kind, , token] of vectors) {
      assert.deepStrictEqual(
        everyKind.filter((other) => isToken(other, token)),
        [kind]
      )
      assert.strictEqual(kindOf(token), kind)
    }
  })

  it("shows its kind and nothing else in logs and JSON", () => {
    const token = format("sbt", counting)
    assert.strictEqual(
      `${token} ${inspect(token)} ${JSON.stringify(token)}`,
      `<redacted:sbt> <redacted:sbt> "<redacted:sbt>"`
    )
  })
})

describe("a minted token", () => {
  it.effect("is well formed, whatever the kind", () =>
    Effect.gen(function* () {
      for (const kind of everyKind) assert.strictEqual(kindOf(Redacted.value(yield* mint(kind))), kind)
    })
  )

  it.effect("is never minted twice", () =>
    Effect.gen(function* () {
      const tokens = yield* Effect.replicateEffect(fresh, 10_000)
      assert.strictEqual(new Set(tokens).size, 10_000)
    })
  )
})

describe("a token is refused", () => {
  it.effect("with any one character changed", () =>
    Effect.gen(function* () {
      const accepted: Array<string> = []
      for (const token of yield* Effect.replicateEffect(fresh, 10)) {
        for (let at = 0; at < token.length; at++) {
          for (let code = 0; code < 256; code++) {
            const changed = token.slice(0, at) + String.fromCharCode(code) + token.slice(at + 1)
            if (changed !== token && kindOf(changed) !== undefined) accepted.push(changed)
          }
        }
      }
      assert.deepStrictEqual(accepted, [])
    })
  )

  it.effect("with any two neighbours swapped", () =>
    Effect.gen(function* () {
      for (const token of yield* Effect.replicateEffect(fresh, 100)) {
        for (let at = 0; at + 1 < token.length; at++) {
          const swapped = token.slice(0, at) + token[at + 1] + token[at] + token.slice(at + 2)
          if (swapped !== token) assert.isUndefined(kindOf(swapped))
        }
      }
    })
  )

  it.effect("with anything before or after it, or a character missing", () =>
    Effect.gen(function* () {
      const token = yield* fresh
      for (const changed of [
        ` ${token}`,
        `${token}\n`,
        `${token}\0`,
        `${token}A`,
        token.slice(1),
        token.slice(0, -1)
      ]) {
        assert.isUndefined(kindOf(changed))
      }
    })
  )

  it("with a value of 2^256 or more", () => {
    for (const token of tooLarge) assert.isUndefined(kindOf(token))
  })

  it.prop("if it is some other text", [Schema.String], ([other]) => kindOf(other) === undefined)

  it("without an exception, whatever the text", () => {
    for (const other of [
      "",
      "_",
      "sbt",
      "sbt_",
      `sbt_${"é".repeat(49)}`,
      `sbt_${"\ud800".repeat(49)}`,
      "s".repeat(1e6)
    ]) {
      assert.isUndefined(kindOf(other))
    }
  })
})

describe("a whole token inside a longer text", () => {
  it.effect("is found at any position", () =>
    Effect.gen(function* () {
      const token = yield* fresh
      for (const other of [token, `my ${token}.`, `{"t":"${token}"}`, `x${token}y`, `sbt_ ${token}`, `\n${token}\n`]) {
        assert.strictEqual(findSecret(other), "sbt")
      }
    })
  )

  it.effect("is found after a false match", () =>
    Effect.gen(function* () {
      const token = yield* fresh
      assert.strictEqual(findSecret(`spt_${"A".repeat(49)}${token}`), "sbt")
    })
  )

  it.effect("is found where a false match ends in its prefix", () =>
    Effect.gen(function* () {
      const token = yield* fresh
      assert.strictEqual(findSecret(`spt_${"A".repeat(46)}${token}`), "sbt")
    })
  )

  it.effect("is not found if it is only a prefix, truncated or mistyped", () =>
    Effect.gen(function* () {
      const token = yield* fresh
      const mistyped = token.slice(0, -1) + (token.endsWith("A") ? "B" : "A")
      for (const other of ["tokens begin with sbt_", token.slice(0, -1), mistyped, tooLarge.join(" ")]) {
        assert.isUndefined(findSecret(`see ${other} there`))
      }
    })
  )
})

describe("the hash of a token", () => {
  it("is the SHA-256 of its text", () => {
    const expected = Buffer.from("1bcd15f6dcb50d8290148f0d0ab9ab989863ecfaf7cd5b01c164ed13ef8c91c0", "hex")
    assert.isTrue(equal(hash(format("sbt", counting)), expected))
  })

  it("equals only bytes of the same length and content", () => {
    assert.isTrue(equal(sha256("a"), sha256(Buffer.from("a"))))
    assert.isFalse(equal(sha256("a"), sha256("b")))
    assert.isFalse(equal(sha256("a"), sha256("a").subarray(1)))
  })
})
