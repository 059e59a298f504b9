/**
 * Asks an OpenAI-compatible endpoint for vectors (`POST /v1/embeddings`), as Ollama, vLLM and others serve it.
 *
 * Redirects are not followed, an answer has a time limit and a largest size, and no text reaches a log. After a failure the
 * endpoint is left alone, for a second at first and for a minute at most: searches then answer by words at once. Queries and
 * entries are told apart: a batch may take longer than a search can wait.
 */
import { Clock, type Context, Data, type Duration, Effect, Redacted, Schema } from "effect"
import { readFileSync } from "node:fs"
import { logFault } from "../../platform/database/FaultLog.ts"
import { count, embeddingRequests } from "../../platform/metrics/Metrics.ts"
import { ConfigurationError, type Settings } from "../../platform/settings/Settings.ts"
import { normalized, type Vector } from "./Vectors.ts"

export class EndpointAway extends Data.TaggedError("EndpointAway")<{
  readonly reason: string
  /** The endpoint refused this text, and may accept others. */
  readonly refused?: boolean
}> {}

type EmbeddingSettings = NonNullable<Context.Service.Shape<typeof Settings>["embeddings"]>

export type Purpose = "query" | "entry"

const Answer = Schema.Struct({
  data: Schema.Array(Schema.Struct({ index: Schema.Int, embedding: Schema.Array(Schema.Finite) }))
})
const decode = Schema.decodeUnknownEffect(Schema.fromJsonString(Answer))

/** Bytes of an answer per value: `-0.0123456789012345678, `. */
const bytesPerValue = 32
/** Milliseconds. */
const [firstRest, longestRest] = [1_000, 60_000]

export const makeEndpoint = Effect.fnUntraced(function* ({ dimensions, keyFile, model, url }: EmbeddingSettings) {
  const key = keyFile === undefined ? undefined : yield* readKey(keyFile)
  const state = { query: { failures: 0, restUntil: 0 }, entry: { failures: 0, restUntil: 0 } }

  const post = (texts: ReadonlyArray<string>) =>
    Effect.tryPromise({
      try: async (signal) => {
        const response = await fetch(url, {
          method: "POST",
          redirect: "error",
          signal,
          headers: {
            "content-type": "application/json",
            ...(key && { authorization: `Bearer ${Redacted.value(key)}` })
          },
          body: JSON.stringify({ model, input: texts, encoding_format: "float" })
        })
        const most = 65_536 + texts.length * dimensions * bytesPerValue
        return { status: response.status, body: await readUpTo(response, most) }
      },
      // Its message may quote the address with a password, or what was sent.
      catch: () => new EndpointAway({ reason: "not reachable" })
    })

  const vectorsOf = Effect.fnUntraced(function* (texts: ReadonlyArray<string>) {
    const { body, status } = yield* post(texts)
    if (status !== 200) {
      return yield* new EndpointAway({ reason: `status ${status}`, refused: [400, 413, 422].includes(status) })
    }
    if (body === undefined) return yield* new EndpointAway({ reason: "answer too large" })
    const { data } = yield* Effect.mapError(decode(body), () => new EndpointAway({ reason: "answer not understood" }))
    const vectors = new Map(data.map(({ embedding, index }) => [index, embedding]))
    return yield* Effect.forEach(texts, (_, n) => {
      const values = vectors.get(n)
      if (values?.length === dimensions) return Effect.succeed(normalized(values))
      const reason = values === undefined ? "a vector is missing" : `vectors have ${values.length} dimensions`
      return Effect.fail(new EndpointAway({ reason }))
    })
  })

  /** Whether the endpoint is left alone. */
  const rests = (purpose: Purpose) => Effect.map(Clock.currentTimeMillis, (now) => now < state[purpose].restUntil)

  /** The vectors of the texts, in their order. Fails at once while the endpoint is left alone. */
  const embed = Effect.fnUntraced(function* (purpose: Purpose, texts: ReadonlyArray<string>, within: Duration.Input) {
    const own = state[purpose]
    if (yield* rests(purpose)) return yield* new EndpointAway({ reason: "left alone" })
    return yield* vectorsOf(texts).pipe(
      Effect.timeoutOrElse({ duration: within, orElse: () => new EndpointAway({ reason: "took too long" }) }),
      Effect.tapError(({ reason, refused }) =>
        Effect.gen(function* () {
          yield* count(embeddingRequests(purpose, "failed"))
          if (refused === true) return
          own.restUntil = (yield* Clock.currentTimeMillis) + Math.min(longestRest, firstRest * 2 ** own.failures)
          own.failures = Math.min(own.failures + 1, 6)
          yield* logFault("The endpoint for embeddings failed; searches answer by words", { reason })
        })
      ),
      Effect.tap(() => {
        own.failures = 0
        return count(embeddingRequests(purpose, "answered"))
      })
    ) as Effect.Effect<ReadonlyArray<Vector>, EndpointAway>
  })

  return { embed, rests, model: `${model}/${dimensions}` }
})

const readKey = (file: string) =>
  Effect.try({
    try: () => Redacted.make(readFileSync(file, "utf8").trim()),
    catch: () => new ConfigurationError({ message: `SERVICE_EMBEDDINGS_KEY_FILE ${file} cannot be read.` })
  })

/** The body, unless it is longer. */
const readUpTo = async (response: Response, most: number) => {
  const chunks: Array<Uint8Array> = []
  let bytes = 0
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length
    if (bytes > most) return undefined
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString("utf8")
}
