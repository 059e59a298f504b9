/** Requests as raw bytes, for what no HTTP client would send. */
import { Effect } from "effect"
import { connect } from "node:net"

/** Sends the bytes; returns everything that the server sends until it closes the connection. */
export const exchange = (url: string, bytes: string | Uint8Array) =>
  Effect.callback<string>((resume) => {
    const { hostname, port } = new URL(url)
    const chunks: Array<Buffer> = []
    const socket = connect(Number(port), hostname, () => socket.write(bytes))
    socket.on("data", (chunk) => chunks.push(chunk))
    socket.on("error", () => {})
    socket.on("close", () => resume(Effect.succeed(Buffer.concat(chunks).toString("latin1"))))
    return Effect.sync(() => socket.destroy())
  })

/** One request and its answer; `body` is sent unchanged. */
export const request = (
  url: string,
  method: string,
  path: string,
  headers: Readonly<Record<string, string>> = {},
  body: string | Uint8Array = ""
) => {
  const bytes = Buffer.from(body)
  const sent = { host: "localhost", connection: "close", "content-length": String(bytes.length), ...headers }
  const lines = Object.entries(sent).map(([name, value]) => `${name}: ${value}\r\n`)
  const head = Buffer.from(`${method} ${path} HTTP/1.1\r\n${lines.join("")}\r\n`, "latin1")
  return Effect.map(exchange(url, Buffer.concat([head, bytes])), parseAnswer)
}

const parseAnswer = (text: string) => {
  const end = text.indexOf("\r\n\r\n")
  const [status = "", ...lines] = text.slice(0, end).split("\r\n")
  const headers = new Headers(lines.map((line) => line.split(/: (.*)/s).slice(0, 2) as [string, string]))
  const rest = text.slice(end + 4)
  const chunked = headers.get("transfer-encoding") === "chunked"
  const payload = chunked ? rest.replaceAll(/(^|\r\n)[0-9a-f]+\r\n/g, "").replace(/\r\n$/, "") : rest
  const body = headers.get("content-type")?.includes("json") && payload !== "" ? JSON.parse(payload) : undefined
  return { status: Number(status.split(" ")[1]), headers, text: payload, body, code: body?.error?.code }
}
