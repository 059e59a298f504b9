/**
 * An OpenAI-compatible endpoint for embeddings that always gives a text the same vector: the sum of one vector for each of its
 * words. Words of one group have the same vector; that is all it knows of meaning.
 */
import { Effect } from "effect"
import { createHash } from "node:crypto"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"

export const dimensions = 256

export interface Embedder {
  readonly url: string
  readonly settings: Readonly<Record<string, string>>
  /** Every text that arrived, with what authorized it. */
  readonly received: Array<{ readonly text: string; readonly model: string; readonly key: string | undefined }>
  /** Answers at `url` instead of the vectors; undefined answers with them. Other paths answer with them anyway. */
  answer: Answer | undefined
  /** Answers with the vectors of these texts. */
  readonly send: Answer
}
type Answer = (response: ServerResponse, texts: ReadonlyArray<string>) => void

export const startEmbedder = (groups: ReadonlyArray<string> = []) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const concepts = new Map(groups.flatMap((group) => group.split(" ").map((word) => [word, group] as const)))
      const vectorOf = (text: string) => {
        const sum = Array.from({ length: dimensions }, () => 0)
        for (const word of text.toLowerCase().match(/\p{L}+/gu) ?? []) {
          for (const [n, value] of signsOf(concepts.get(word) ?? word).entries()) sum[n]! += value
        }
        return sum
      }
      /** Each vector has the index of its text, whatever their order. */
      const sendVectors: Answer = (response, texts) =>
        send(response, 200, { data: texts.map((text, index) => ({ index, embedding: vectorOf(text) })).toReversed() })
      const embedder = { received: [], answer: undefined, send: sendVectors } as unknown as Embedder & {
        url: string
        settings: object
      }
      const server = createServer(async (request, response) => {
        const { input, model } = JSON.parse(await bodyOf(request)) as { input: ReadonlyArray<string>; model: string }
        const key = request.headers.authorization
        embedder.received.push(...input.map((text) => ({ text, model, key })))
        const answer = embedder.url.endsWith(request.url!) ? embedder.answer : undefined
        return (answer ?? sendVectors)(response, input)
      })
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
      embedder.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/embeddings`
      embedder.settings = {
        SERVICE_EMBEDDINGS_URL: embedder.url,
        SERVICE_EMBEDDINGS_MODEL: "words",
        SERVICE_EMBEDDINGS_DIMENSIONS: String(dimensions)
      }
      return { embedder: embedder as Embedder, server }
    }),
    ({ server }) =>
      Effect.promise(
        () =>
          new Promise<void>((resolve) => {
            server.close(() => resolve())
            server.closeAllConnections()
          })
      )
  ).pipe(Effect.map(({ embedder }) => embedder))

export const send = (response: ServerResponse, status: number, body: object) =>
  void response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body))

/** A sign for each dimension, always the same for a word. */
const signsOf = (word: string) => {
  const bits = createHash("sha256").update(word).digest()
  return Array.from({ length: dimensions }, (_, n) => ((bits[n >>> 3]! >>> (n & 7)) & 1 ? 1 : -1))
}

const bodyOf = async (request: IncomingMessage) => {
  const chunks: Array<Buffer> = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString("utf8")
}
