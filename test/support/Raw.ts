/** Bytes as they are, for what no HTTP client would send. */
import { Effect } from "effect"
import { connect } from "node:net"

/** Everything that came back until the server closed the connection. */
export const exchange = (url: string, bytes: string | Uint8Array, half = true) =>
  Effect.callback<string>((resume) => {
    const { hostname, port } = new URL(url)
    const chunks: Array<Buffer> = []
    const socket = connect(Number(port), hostname, () => (half ? socket.end(bytes) : socket.write(bytes)))
    socket.on("data", (chunk) => chunks.push(chunk))
    socket.on("error", () => {})
    socket.on("close", () => resume(Effect.succeed(Buffer.concat(chunks).toString("latin1"))))
    return Effect.sync(() => socket.destroy())
  })
