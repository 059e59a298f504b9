/** An endpoint for embeddings on the port of argv: random vectors, always the same for a text. It costs hardly any time. */
import { createServer } from "node:http"

const [port, dimensions] = process.argv.slice(2).map(Number) as [number, number]

/** Numbers of 4 digits; the state begins with a hash of the text (FNV-1a). */
const vectorOf = (text: string) => {
  let state = 0x811c9dc5
  for (let n = 0; n < text.length; n++) state = Math.imul(state ^ text.charCodeAt(n), 0x01000193)
  return Array.from({ length: dimensions }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) | 0
    return Math.round(state / 214748.3648) / 10_000
  })
}

createServer(async (request, response) => {
  const chunks: Array<Buffer> = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const texts = (chunks.length > 0 ? JSON.parse(Buffer.concat(chunks).toString()).input : []) as ReadonlyArray<string>
  response.end(JSON.stringify({ data: texts.map((text, index) => ({ index, embedding: vectorOf(text) })) }))
}).listen(port, "127.0.0.1")
