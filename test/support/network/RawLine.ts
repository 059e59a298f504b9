/** A TCP connection that sends arbitrary bytes and parses the HTTP answers that come back. */
import { connect, type Socket } from "node:net"

export interface RawAnswer {
  readonly status: number
  readonly text: string
}

export interface RawLine {
  /**
   * Sends the bytes and waits for one answer per element of `headOnly`: `true` means that the answer has no body. An empty
   * list waits for one answer with a body. Fewer answers mean that the server closed the connection, `undefined` a timeout.
   */
  readonly send: (bytes: Uint8Array, headOnly: ReadonlyArray<boolean>) => Promise<ReadonlyArray<RawAnswer> | undefined>
  readonly isOpen: () => boolean
  readonly close: () => void
}

/** `deadline`: milliseconds to wait for the answers of one `send`. */
export const rawLine = (url: string, deadline = 15_000): RawLine => {
  const { hostname, port } = new URL(url)
  const socket: Socket = connect(Number(port), hostname)
  let received = Buffer.alloc(0)
  let onChange: (() => void) | undefined
  let open = true
  socket.setNoDelay(true)
  socket.on("data", (chunk) => {
    received = received.length === 0 ? chunk : Buffer.concat([received, chunk])
    onChange?.()
  })
  socket.on("error", () => {})
  const onClose = () => {
    open = false
    onChange?.()
  }
  socket.on("end", onClose)
  socket.on("close", onClose)

  const send: RawLine["send"] = (bytes, headOnly) =>
    new Promise((resolve) => {
      const answers: Array<RawAnswer> = []
      const expected = headOnly.length === 0 ? [false] : headOnly
      const end = (result: ReadonlyArray<RawAnswer> | undefined) => {
        clearTimeout(timer)
        onChange = undefined
        resolve(result)
      }
      const timer = setTimeout(() => end(undefined), deadline)
      onChange = () => {
        while (answers.length < expected.length) {
          const next = parseAnswer(received, expected[answers.length]!)
          if (next === undefined) break
          received = received.subarray(next.length)
          if (next.status >= 200) answers.push(next)
        }
        if (answers.length === expected.length || !open) end(answers)
      }
      received = Buffer.alloc(0)
      socket.write(bytes)
      if (!open) end(answers)
    })

  return { send, isOpen: () => open, close: () => socket.destroy() }
}

/** The first answer and its length in bytes; undefined while it is incomplete. */
const parseAnswer = (received: Buffer, headOnly: boolean) => {
  const end = received.indexOf("\r\n\r\n")
  if (end === -1) return undefined
  const head = received.toString("latin1", 0, end + 2)
  const status = Number(/^HTTP\/1\.[01] (\d{3})/.exec(head)?.[1])
  const start = end + 4
  if (headOnly || status < 200 || status === 204 || status === 304) return { status, text: "", length: start }
  if (/\r\ntransfer-encoding: *chunked/i.test(head)) {
    const last = received.indexOf("0\r\n\r\n", start)
    return last === -1 ? undefined : { status, text: received.toString("utf8", start, last), length: last + 5 }
  }
  const size = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0)
  if (received.length < start + size) return undefined
  return { status, text: received.toString("utf8", start, start + size), length: start + size }
}
