/** The identifiers and encoded bytes that cross the wire (spec 2.3, 2.5). */
import { Effect, Schema, SchemaGetter, SchemaIssue, SchemaTransformation } from "effect"

/** A UUID of any version; compared, stored and returned in lower case. */
export const Uuid = Schema.String.check(Schema.isUUID()).pipe(
  Schema.decode(SchemaTransformation.toLowerCase()),
  Schema.annotate({ identifier: "Uuid" })
)

const isUuid = Schema.is(Schema.String.check(Schema.isUUID()))

/** The nil UUID (RFC 9562 5.9): no row has it, and it sorts before all that rows have. */
export const nil = "00000000-0000-0000-0000-000000000000"

/** A reference to a row. Malformed ids decode to the nil UUID, so they get the same answer as unknown ids. */
export const Id = Schema.String.annotate({ description: "a UUID" }).pipe(
  Schema.decode(
    SchemaTransformation.transform({
      decode: (id) => (isUuid(id) ? id.toLowerCase() : nil),
      encode: (id) => id
    })
  )
)

/** Chosen by the Bridge; unique within its project (spec 2.3). */
export const BridgeId = Schema.String.check(Schema.isPattern(/^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/u)).annotate({
  identifier: "BridgeId",
  description: "1 to 128 letters, digits and ._:- beginning with a letter or digit"
})

/** `sha256:` and the SHA-256 of the raw 32-byte Ed25519 public key in lower-case hex (spec 2.3). */
export const Fingerprint = Schema.String.check(Schema.isPattern(/^sha256:[0-9a-f]{64}$/u)).annotate({
  identifier: "Fingerprint",
  description: "sha256: and 64 lower-case hex digits"
})

/** 1 to 255 visible ASCII characters, compared as received (spec 3.4). */
export const IdempotencyKey = Schema.String.check(
  Schema.isPattern(/^[\x21-\x7e]{1,255}$/u, { expected: "1 to 255 visible ASCII characters" })
).annotate({
  identifier: "IdempotencyKey",
  description: "1 to 255 visible ASCII characters"
})

/** Bytes as text (RFC 4648). Decodes base64url and base64, padded or not; encodes base64url without padding. */
export const Base64Bytes = Schema.String.check(
  Schema.isPattern(/^[A-Za-z0-9+/_-]+={0,2}$/u),
  Schema.isMaxLength(1024)
).pipe(
  Schema.annotate({ description: "base64url" }),
  Schema.decodeTo(Schema.Uint8Array, {
    decode: SchemaGetter.transformEffect((text: string) => {
      const bytes = new Uint8Array(Buffer.from(text, "base64"))
      const digits = text.replace(/={1,2}$/, "")
      const padded = text.length === digits.length || text.length % 4 === 0
      return padded && base64url(bytes) === digits.replaceAll("+", "-").replaceAll("/", "_")
        ? Effect.succeed(bytes)
        : Effect.fail(new SchemaIssue.InvalidValue({ message: "Expected base64" }))
    }),
    encode: SchemaGetter.transform(base64url)
  }),
  Schema.annotate({ identifier: "Base64Bytes" })
)

function base64url(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("base64url")
}
