import { assert, describe, it } from "@effect/vitest"
import { Option, Redacted } from "effect"
import { inspect } from "node:util"
import { type Field, KeyRing, type Purpose, subkey } from "../../../src/platform/crypto/Derivation.ts"

const secret = Redacted.make("correct horse battery staple, thirty-two bytes at least")
const older = Redacted.make("a previous secret, in UTF-8: päßwörd, also long enough")
const oldest = Redacted.make("the secret before the previous one, no longer configured")

const salt = Uint8Array.from({ length: 32 }, (_, i) => i)
const credential = Redacted.make("sbe_0000000000000000000000000000000000000000000403LK6")
const fields: ReadonlyArray<Field> = ["id-1", salt, credential]

const ring = (options: {
  current: Redacted.Redacted<string>
  previous?: Redacted.Redacted<string>
  purpose?: Purpose
}) =>
  KeyRing.make({
    purpose: options.purpose ?? "bridge/v1/access-token",
    current: options.current,
    previous: Option.fromUndefinedOr(options.previous)
  })
const derive = (label: string, ...fields: ReadonlyArray<Field>) =>
  hex(ring({ current: secret }).current.derive(label, fields))
const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex")

/** Computed once with another implementation. If they changed, Bridges could not finish a retry across an upgrade. */
const vectors: ReadonlyArray<
  readonly [Purpose, Redacted.Redacted<string>, id: string, derived: string, subkey: string]
> = [
  [
    "bridge/v1/challenge-nonce",
    secret,
    "5c32f8ff",
    "1fe6f20f734663317ba04c50c042b4015ac41235a93417d72fbde8da9c441cd0",
    "7b63ec77c92661b4c73afbc02ec862bd9ef8fbe985ccfcc343c4d1d136fefbfe"
  ],
  [
    "bridge/v1/access-token",
    secret,
    "7218fac0",
    "43ec60af466044a6e5833c433b7f255dd0a11b2a5e53641e0c416c0226ed071c",
    "ee25d8745236e6479ccc214e1b15ebb581ec7f50c02d129dfeb569673440c0af"
  ],
  [
    "mobile/v1/push-token",
    secret,
    "74edca44",
    "67375d1bf13b9339ef6fbf8d7726f089998f431a9ab9831c4d07c447de350f1b",
    "e5b4be2338ce1d755f91d12c038375024842d1410b6c281b08b20a1da0e65c39"
  ],
  [
    "mobile/v1/push-lookup",
    secret,
    "01fa943b",
    "8c70a5309ca4392eadc898fd1c3caf55a7304ccd72028622423c9a6f356efb0d",
    "bd0ba9b650fcdcfc2654b6bf35a409587780116cb2f8a17539a2b9927045a55c"
  ],
  [
    "bridge/v1/access-token",
    older,
    "4fab6d7f",
    "4859ff29bb2f9902970f62d208d4995b267179f723e7c5cb7f9ecc16e2a1c75e",
    "24fe6616436387a58deacafaf5b965810caa6671cc3c06b29868adb51a15d33d"
  ]
]

describe("a derived secret", () => {
  for (const [purpose, current, id, derived, key] of vectors) {
    it(`is fixed for ${purpose}, key ${id}`, () => {
      const keys = ring({ purpose, current })
      assert.strictEqual(keys.current.id, id)
      assert.strictEqual(hex(keys.current.derive("proof", fields)), derived)
      assert.strictEqual(hex(Redacted.value(subkey(current, purpose))), key)
    })
  }

  it("is the same for the same fields", () => {
    assert.strictEqual(derive("proof", ...fields), derive("proof", ...fields))
  })

  it("is different for a different label", () => {
    assert.notStrictEqual(derive("proof", ...fields), derive("rotate", ...fields))
  })

  it("is different when the same text is split differently", () => {
    const splits = [
      derive("x", "a", "bc"),
      derive("x", "ab", "c"),
      derive("x", "abc"),
      derive("x", "abc", ""),
      derive("xa", "bc")
    ]
    assert.strictEqual(new Set(splits).size, splits.length)
  })

  it("takes text as its UTF-8 bytes, redacted or not", () => {
    const forms: ReadonlyArray<Field> = ["päß", Buffer.from("päß", "utf8"), Redacted.make("päß")]
    assert.strictEqual(new Set(forms.map((field) => derive("x", field))).size, 1)
  })

  it("takes fields of up to 65,535 bytes", () => {
    assert.strictEqual(derive("x", new Uint8Array(65_535)).length, 64)
    assert.throws(() => derive("x", new Uint8Array(65_536)), RangeError)
  })
})

describe("a key ring", () => {
  const before = ring({ current: older })
  const after = ring({ current: secret, previous: older })

  it("derives again what its current key derived", () => {
    const again = after.derive(after.current.id, "proof", fields)
    assert.deepStrictEqual(Option.map(again, hex), Option.some(hex(after.current.derive("proof", fields))))
  })

  it("derives again what the previous key derived", () => {
    const again = after.derive(before.current.id, "proof", fields)
    assert.deepStrictEqual(Option.map(again, hex), Option.some(hex(before.current.derive("proof", fields))))
  })

  it("derives nothing with a key it does not hold", () => {
    assert.isTrue(Option.isNone(after.derive(ring({ current: oldest }).current.id, "proof", fields)))
    assert.isTrue(Option.isNone(before.derive(after.current.id, "proof", fields)))
    assert.isTrue(Option.isNone(after.derive("", "proof", fields)))
  })

  it("shows no key in logs and JSON", () => {
    const shown = inspect(after, { depth: null, showHidden: true }) + JSON.stringify(after)
    for (const [purpose, current, , , key] of vectors) {
      assert.notInclude(shown, Redacted.value(current))
      assert.notInclude(shown, key)
      assert.strictEqual(`${subkey(current, purpose)}`, "<redacted>")
    }
  })
})
