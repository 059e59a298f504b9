/**
 * A minimal keep-alive HTTP/1.1 connection: CPU time that the load generator uses is missing at the server under load.
 * Answers must have a Content-Length.
 */
import { connect } from "node:net"
import { connect as connectSecurely } from "node:tls"

export interface Received {
  readonly status: number
  readonly head: string
  readonly body: string
}

export interface Connection {
  readonly request: (
    method: string,
    path: string,
    headers: Readonly<Record<string, string>>,
    body?: string
  ) => Promise<Received>
  readonly close: () => void
}

export const open = (url: string): Promise<Connection> =>
  new Promise((resolve, reject) => {
    const { hostname: host, port, protocol } = new URL(url)
    const address = { host, port: Number(port) }
    // A peer has a self-signed certificate made for the run.
    const socket = protocol === "https:" ? connectSecurely({ ...address, rejectUnauthorized: false }) : connect(address)
    let received = Buffer.alloc(0)
    let waiting: { readonly headOnly: boolean; readonly answer: (received: Received) => void } | undefined
    let fail = reject

    socket.setNoDelay(true)
    socket.on("error", (error) => fail(error))
    socket.on("close", () => fail(new Error("The connection was closed.")))
    socket.on("data", (chunk) => {
      received = received.length === 0 ? chunk : Buffer.concat([received, chunk])
      const end = received.indexOf("\r\n\r\n")
      if (end === -1 || waiting === undefined) return
      const head = received.toString("latin1", 0, end)
      const length = waiting.headOnly ? 0 : Number(/\r\ncontent-length: *(\d+)/i.exec(head)![1])
      if (received.length < end + 4 + length) return
      const { answer } = waiting
      const body = received.toString("utf8", end + 4, end + 4 + length)
      received = Buffer.alloc(0)
      waiting = undefined
      answer({ status: Number(head.slice(9, 12)), head, body })
    })

    const request: Connection["request"] = (method, path, headers, body = "") =>
      new Promise((answer, reject) => {
        fail = reject
        waiting = { headOnly: method === "HEAD", answer }
        const lines = Object.entries({ host: `${host}:${port}`, ...headers }).map(
          ([name, value]) => `${name}: ${value}`
        )
        const length = body === "" ? [] : [`content-length: ${Buffer.byteLength(body)}`]
        socket.write(`${[`${method} ${path} HTTP/1.1`, ...lines, ...length].join("\r\n")}\r\n\r\n${body}`)
      })

    const close = () => {
      fail = () => undefined
      socket.destroy()
    }
    socket.once(protocol === "https:" ? "secureConnect" : "connect", () => resolve({ request, close }))
  })
