/**
 * Asks an OpenAI-compatible endpoint for vectors (`POST /v1/embeddings`), as Ollama, vLLM and others serve it.
 *
 * Redirects are not followed, an answer has a time limit and a largest size, and no text reaches a log. After a failure the
 * endpoint is left alone, for a second at first and for a minute at most: searches then answer by words at once. Queries and
 * entries are told apart: a batch may take longer than a search can wait.
 *
 * Models fail on some texts, with 500, by taking too long, or by ending; the text of one project must not stop the others. So
 * a query that may be the cause of a failure rests its own project only. After entries that may be the cause, the endpoint is
 * asked for a harmless sentence: if it answers, they were. If not, it gets no entries until it has answered the sentence.
 */
import { Clock, type Context, Data, type Duration, Effect, Redacted, Schema } from "effect"
import { readFileSync } from "node:fs"
import { logFault } from "../../platform/database/FaultLog.ts"
import { recent } from "../../platform/edge/limits/Recent.ts"
import { count, embeddingRequests } from "../../platform/metrics/Metrics.ts"
import { ConfigurationError, type Settings } from "../../platform/settings/Settings.ts"
import { normalized, type Vector } from "./Vectors.ts"

export class EndpointAway extends Data.TaggedError("EndpointAway")<{
  readonly reason: string
  /** What failed: the endpoint, whatever it is asked; these texts, while it answers others; or `either`, which is unknown. */
  readonly fault: "endpoint" | "text" | "either"
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
/** How long a batch of entries may take. */
const entriesWithin = "30 seconds"
/** A text that every model embeds. */
const sentence = "The quick brown fox jumps over the lazy dog."
/** Statuses of an endpoint that refuses these texts, and of one that refuses everybody. */
const [ofTexts, ofEndpoint] = [
  [400, 413, 422],
  [401, 429]
]
/** Codes of connections that ended after the request was sent. */
const ended = ["ECONNRESET", "EPIPE", "UND_ERR_SOCKET"]

interface Rest {
  failures: number
  /** Milliseconds of the epoch. */
  until: number
}
const rested = (): Rest => ({ failures: 0, until: 0 })

export const makeEndpoint = Effect.fnUntraced(function* ({ dimensions, keyFile, model, url }: EmbeddingSettings) {
  const key = keyFile === undefined ? undefined : yield* readKey(keyFile)
  const ofAll = { query: rested(), entry: rested() }
  /** Those of projects whose queries failed. */
  const ofProjects = recent<Rest>(10_000, 600_000)

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
      catch: (error) =>
        ended.includes(((error as Error).cause as NodeJS.ErrnoException | undefined)?.code ?? "")
          ? new EndpointAway({ reason: "the connection ended", fault: "either" })
          : new EndpointAway({ reason: "not reachable", fault: "endpoint" })
    })

  const vectorsOf = Effect.fnUntraced(function* (texts: ReadonlyArray<string>) {
    const { body, status } = yield* post(texts)
    if (status !== 200) {
      const fault = ofTexts.includes(status) ? "text" : ofEndpoint.includes(status) ? "endpoint" : "either"
      return yield* new EndpointAway({ reason: `status ${status}`, fault })
    }
    const unusable = (reason: string) => new EndpointAway({ reason, fault: "either" })
    if (body === undefined) return yield* unusable("answer too large")
    const { data } = yield* Effect.mapError(decode(body), () => unusable("answer not understood"))
    const vectors = new Map(data.map(({ embedding, index }) => [index, embedding]))
    return yield* Effect.forEach(texts, (_, n) => {
      const values = vectors.get(n)
      if (values?.length === dimensions) return Effect.succeed(normalized(values))
      return Effect.fail(
        unusable(values === undefined ? "a vector is missing" : `vectors have ${values.length} dimensions`)
      )
    })
  })

  const ask = (purpose: Purpose, texts: ReadonlyArray<string>, within: Duration.Input) =>
    vectorsOf(texts).pipe(
      Effect.timeoutOrElse({
        duration: within,
        orElse: () => new EndpointAway({ reason: "took too long", fault: "either" })
      }),
      Effect.tapError(() => count(embeddingRequests(purpose, "failed"))),
      Effect.tap(() => count(embeddingRequests(purpose, "answered")))
    ) as Effect.Effect<ReadonlyArray<Vector>, EndpointAway>

  const isOver = ({ until }: Rest) => Effect.map(Clock.currentTimeMillis, (now) => now >= until)

  const leaveAlone = Effect.fnUntraced(function* (rest: Rest, reason: string) {
    rest.until = (yield* Clock.currentTimeMillis) + Math.min(longestRest, firstRest * 2 ** rest.failures)
    rest.failures = Math.min(rest.failures + 1, 6)
    yield* logFault("The endpoint for embeddings failed; searches answer by words", { reason })
  })

  /** The vector of a project's query, within half a second. Fails at once while the endpoint is left alone. */
  const query = Effect.fnUntraced(function* (project_id: string, text: string) {
    const own = ofProjects.get(project_id) ?? rested()
    if (!(yield* isOver(ofAll.query)) || !(yield* isOver(own))) {
      return yield* new EndpointAway({ reason: "left alone", fault: "endpoint" })
    }
    const [vector] = yield* ask("query", [text], "500 millis").pipe(
      Effect.tapError(
        Effect.fnUntraced(function* ({ fault, reason }) {
          if (fault === "text") return
          if (fault === "either") ofProjects.set(project_id, own, yield* Clock.currentTimeMillis)
          yield* leaveAlone(fault === "either" ? own : ofAll.query, reason)
        })
      )
    )
    ofProjects.delete(project_id)
    ofAll.query.failures = 0
    return vector!
  })

  const harmless = ask("entry", [sentence], entriesWithin)

  /** Whether it may be asked for entries: after a failure only once it was left alone and has answered the sentence. */
  const ready = Effect.gen(function* () {
    if (!(yield* isOver(ofAll.entry))) return false
    if (ofAll.entry.failures > 0) yield* harmless
    ofAll.entry.failures = 0
    return true
  }).pipe(Effect.catch(({ reason }) => Effect.as(leaveAlone(ofAll.entry, reason), false)))

  /** The vectors of entries, in their order. Fails with `either` only where an outage seems to begin. */
  const entries = (texts: ReadonlyArray<string>) =>
    ask("entry", texts, entriesWithin).pipe(
      Effect.catch(
        Effect.fnUntraced(function* ({ fault, reason }) {
          const answers =
            fault !== "endpoint" && (yield* Effect.match(harmless, { onFailure: () => false, onSuccess: () => true }))
          if (answers) yield* logFault("The endpoint for embeddings fails with some texts", { reason })
          else yield* leaveAlone(ofAll.entry, reason)
          return yield* new EndpointAway({ reason, fault: answers ? "text" : fault === "endpoint" ? fault : "either" })
        })
      )
    )

  return { query, ready, entries, model: `${model}/${dimensions}` }
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
