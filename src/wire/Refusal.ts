/**
 * A refusal is one documented error code: its HTTP status and the sentence shown to people.
 *
 * On the wire every refusal is `{ "error": { "code", "message" } }` with `Cache-Control: no-store` (spec 2.7, 7.1).
 */
import { Data, Schema } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiSchema } from "effect/http-api"

/** The typed failure of one code. `_tag` is the code, so `Effect.catchTag("project_mismatch", …)` works. */
export class Refusal<out Code extends string = string> extends Data.Error<{
  readonly _tag: Code
  readonly status: number
  readonly message: string
  /** Whole seconds after which the same request may succeed. */
  readonly retryAfter?: number | undefined
  /** The value of WWW-Authenticate if it is more than `Bearer` (RFC 6750 3). */
  readonly challenge?: string | undefined
  /** Facts that tool results add to code and message. HTTP responses do not carry them. */
  readonly details?: Readonly<Record<string, unknown>> | undefined
}> {}

/** A Bridge's reaction to a refusal. */
export type Reaction =
  /** Send the same request with the same Idempotency-Key again, after a pause. */
  | "retry"
  /** Another rotation, of token or key, is pending: send the same request again, but not before Retry-After. */
  | "wait"
  /** Correct the clock by `Date`, and send the same request again, once, with the same Idempotency-Key and a new proof. */
  | "prove"
  /** Request a new challenge, with new Idempotency-Keys and the same credential. */
  | "challenge"
  /** The successor, or the new key, has ended and its predecessor is still valid: prepare again, with a new Idempotency-Key. */
  | "prepare"
  /** The change has already happened. */
  | "done"
  /** Stop: a person has to issue a credential or look into it. */
  | "operator"
  /** Stop: client and service disagree about the protocol. */
  | "report"

/** One row per code; the key is the code on the wire. Codes that a Bridge can meet also say what it does about them. */
export type RefusalTable = Readonly<Record<string, readonly [status: number, sentence: string, reaction?: Reaction]>>

/** The union of refusals a table can raise. */
export type RefusalOf<Table extends RefusalTable, Code extends keyof Table = keyof Table> = {
  readonly [C in Code & string]: Refusal<C>
}[Code & string]

/** The two uses of an error table: `refuse` raises a code, `refusals` declares codes on an endpoint. */
export const fromTable = <const Table extends RefusalTable>(table: Table) => {
  type Code = keyof Table & string

  const refuse = <C extends Code>(code: C, retryAfter?: number): RefusalOf<Table, C> => {
    const [status, message] = table[code]!
    return new Refusal({ _tag: code, status, message, retryAfter }) as RefusalOf<Table, C>
  }

  const refusals = <C extends Code>(
    ...codes: ReadonlyArray<C>
  ): ReadonlyArray<Schema.Codec<RefusalOf<Table, C>, unknown>> =>
    Object.values(Object.groupBy(new Set(codes), (code) => table[code]![0])).map((sameStatus) => declared(sameStatus!))

  // OpenAPI describes each code by its sentence.
  const described = (code: Code) => Schema.Literal(code).annotate({ description: table[code]![1] })

  const oneOf = ([first, ...others]: ReadonlyArray<Code>): Schema.Codec<Code> =>
    others.length === 0 ? described(first!) : Schema.Union([first!, ...others].map(described))

  // HttpApi allows one response with headers per status, so codes are declared grouped by status.
  const declared = (codes: ReadonlyArray<Code>): Schema.Codec<any, unknown> =>
    Schema.declare(
      (u: unknown): u is Refusal<Code> => u instanceof Refusal && (codes as ReadonlyArray<string>).includes(u._tag)
    ).pipe(
      HttpApiSchema.encodeToWithHeaders(
        {
          body: Schema.Struct({
            error: Schema.Struct({ code: oneOf(codes), message: Schema.String })
          }).annotate({ httpApiStatus: table[codes[0]!]![0] }),
          headers: {
            "cache-control": Schema.Literal("no-store"),
            "www-authenticate": Schema.optional(Schema.String),
            "retry-after": Schema.optional(Schema.String)
          }
        },
        {
          decode: ({ body, headers }) =>
            refuse(body.error.code, headers["retry-after"] === undefined ? undefined : Number(headers["retry-after"])),
          encode: (refusal) => ({
            body: wireBody(refusal as Refusal<Code>),
            headers: wireHeaders(refusal as Refusal)
          })
        }
      )
    )

  return { refuse, refusals, codes: Object.keys(table) as ReadonlyArray<Code> }
}

/** A copy of the refusal with the facts that a caller needs to act on it, and optionally a message that names them. */
export const withDetails = <R extends Refusal>(
  { _tag, challenge, message: sentence, retryAfter, status }: R,
  details: Readonly<Record<string, unknown>>,
  message: string = sentence
): R => new Refusal({ _tag, status, message, retryAfter, challenge, details }) as R

/** The response for a refusal that no endpoint declares: at the edge, or on a plain route. */
export const answer = (refusal: Refusal, headers?: Readonly<Record<string, string>>) =>
  HttpServerResponse.jsonUnsafe(wireBody(refusal), {
    status: refusal.status,
    headers: { ...wireHeaders(refusal), ...headers }
  })

const wireBody = <Code extends string>({ _tag, message }: Refusal<Code>) => ({ error: { code: _tag, message } })

/** Every 401 says how to authenticate, every 503 when to retry (RFC 9110 11.6.1, 10.2.3). */
const wireHeaders = ({ challenge, status, retryAfter = status === 503 ? 1 : undefined }: Refusal) => ({
  "cache-control": "no-store" as const,
  ...(status === 401 || challenge !== undefined ? { "www-authenticate": challenge ?? "Bearer" } : undefined),
  ...(retryAfter === undefined ? undefined : { "retry-after": String(retryAfter) })
})
