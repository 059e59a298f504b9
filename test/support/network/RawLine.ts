/** One connection that sends any bytes and parses the HTTP answers. */
import { connect, type Socket } from "node:net"

export interface Got {
  readonly status: number
  readonly text: string
}

export interface RawLine {
  /**
   * Sends the bytes and waits for one answer per element of `answers`; `true` means that the answer has no body (HEAD). For
   * an empty list it waits for the first answer. Returns fewer if the server closes the connection, undefined if neither
   * happens in time.
   */
  readonly send: (bytes: Uint8Array, answers: ReadonlyArray<boolean>) => Promise<ReadonlyArray<Got> | undefined>
  readonly isOpen: () => boolean
  readonly close: () => void
}

export const rawLine = (url: string, deadline = 15_000): RawLine => {
  const { hostname, port } = new URL(url)
  const socket: Socket = connect(Number(port), hostname)
  let received = Buffer.alloc(0)
  let waiting: (() => void) | undefined
  let open = true
  socket.setNoDelay(true)
  socket.on("data", (chunk) => {
    received = received.length === 0 ? chunk : Buffer.concat([received, chunk])
    waiting?.()
  })
  socket.on("error", () => {})
  const closed = () => {
    open = false
    waiting?.()
  }
  socket.on("end", closed)
  socket.on("close", closed)

  const send: RawLine["send"] = (bytes, answers) =>
    new Promise((resolve) => {
      const got: Array<Got> = []
      const due = answers.length === 0 ? [false] : answers
      const end = (result: ReadonlyArray<Got> | undefined) => {
        clearTimeout(timer)
        waiting = undefined
        resolve(result)
      }
      const timer = setTimeout(() => end(undefined), deadline)
      waiting = () => {
        while (got.length < due.length) {
          const next = answerIn(received, due[got.length]!)
          if (next === undefined) break
          received = received.subarray(next.length)
          if (next.status >= 200) got.push(next)
        }
        if (got.length === due.length || !open) end(got)
      }
      received = Buffer.alloc(0)
      socket.write(bytes)
      if (!open) end(got)
    })

  return { send, isOpen: () => open, close: () => socket.destroy() }
}

/** The first answer and its length in bytes; undefined if it is not complete yet. */
const answerIn = (received: Buffer, headOnly: boolean) => {
  const end = received.indexOf("\r\n\r\n")
  if (end === -1) return undefined
  const head = received.toString("latin1", 0, end + 2)
  const status = Number(/^HTTP\/1\.[01] (\d{3})/.exec(head)?.[1])
  const at = end + 4
  if (headOnly || status < 200 || status === 204 || status === 304) return { status, text: "", length: at }
  if (/\r\ntransfer-encoding: *chunked/i.test(head)) {
    const last = received.indexOf("0\r\n\r\n", at)
    return last === -1 ? undefined : { status, text: received.toString("utf8", at, last), length: last + 5 }
  }
  const size = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0)
  if (received.length < at + size) return undefined
  return { status, text: received.toString("utf8", at, at + size), length: at + size }
}
