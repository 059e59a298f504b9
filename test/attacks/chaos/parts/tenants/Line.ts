/** Plain requests from a chosen source address, and what their answers mean. */
import { Agent, request } from "node:http"

export interface Ask {
  readonly method: string
  readonly path: string
  readonly source: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  /** Sends the body in so many pieces, with a pause of so many milliseconds after each. */
  readonly pieces?: number
  readonly pause?: number
}

/** Status 0: no answer. */
export interface Received {
  readonly status: number
  readonly text: string
}

export type Line = (ask: Ask) => Promise<Received>

export const makeLine = (url: string, signal: AbortSignal, seen: (ask: Ask, answer: Received) => void): Line => {
  const agent = new Agent({ keepAlive: true })
  return (ask) =>
    new Promise((resolve) => {
      const end = (answer: Received) => {
        seen(ask, answer)
        resolve(answer)
      }
      const { body = "", headers, method, pause = 0, path, pieces = 1, source } = ask
      const bytes = Buffer.from(body)
      const length = bytes.length === 0 ? {} : { "content-length": String(bytes.length) }
      const options = {
        method,
        agent,
        localAddress: source,
        signal,
        timeout: 30_000,
        headers: { ...headers, ...length }
      }
      const sent = request(new URL(path, url), options, (response) => {
        const chunks: Array<Buffer> = []
        response.on("data", (chunk) => chunks.push(chunk))
        response.on("error", () => end({ status: 0, text: "" }))
        response.on("end", () => end({ status: response.statusCode!, text: Buffer.concat(chunks).toString() }))
      })
      sent.on("error", () => end({ status: 0, text: "" }))
      sent.on("timeout", () => sent.destroy())
      const size = Math.ceil(bytes.length / pieces)
      const send = (from: number) => {
        if (sent.destroyed) return
        if (from + size >= bytes.length) return void sent.end(bytes.subarray(from))
        sent.write(bytes.subarray(from, from + size))
        setTimeout(send, pause, from + size)
      }
      send(0)
    })
}

/** The outcome of each message of an answer: `ok`, or status and code. A failed tool has the status of its answer. */
export const outcomeOf = ({ status, text }: Received): ReadonlyArray<string> => {
  if (status === 0) return ["no answer"]
  const json = text.startsWith("event:") ? `[${[...text.matchAll(/^data: (.*)$/gm)].map(([, data]) => data)}]` : text
  const parsed: unknown = /^[[{]/.test(json) ? JSON.parse(json) : undefined
  if (typeof (parsed as any)?.error?.code === "string") return [`${status} ${(parsed as any).error.code}`]
  return [parsed ?? {}].flat().map(({ error, result }: any) => {
    if (result?.isError === true) return `${status} ${JSON.parse(result.content[0].text).error.code}`
    return error === undefined ? (status < 400 ? "ok" : `${status}`) : `${status} ${error.code}`
  })
}

/** The maximum of each limit that an answer refuses by. */
export const maximaOf = ({ text }: Received): ReadonlyArray<readonly [limit: string, maximum: number]> =>
  [...text.matchAll(/"details\\?":\{[^}]*?limit\\?":\\?"([\w ]+)\\?"[^}]*?maximum\\?":(\d+)/g)].map(
    ([, limit, maximum]) => [limit!, Number(maximum)]
  )
