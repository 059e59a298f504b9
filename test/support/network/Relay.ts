/** A TCP relay that breaks connections on request: between client and service, or between service and PostgreSQL. */
import { Effect, type Scope } from "effect"
import { once } from "node:events"
import { type AddressInfo, connect, createServer, type NetConnectOpts, type Socket } from "node:net"

export interface Relay {
  readonly port: number
  /** Ends every connection and refuses new ones, until `heal`. */
  readonly cut: Effect.Effect<void>
  readonly heal: Effect.Effect<void>
  /** From now on each connection ends as soon as the server begins to answer; the client does not get the answer. */
  readonly loseAnswers: Effect.Effect<void>
  /** The number of lost answers. */
  readonly lost: () => number
  /** From now on each direction is delayed by this many milliseconds. */
  readonly delay: (millis: number) => Effect.Effect<void>
  /**
   * From now on nothing arrives on either side, not even the end of a connection; new connections are accepted.
   * Connections that are open at `heal` stay silent for good.
   */
  readonly swallow: Effect.Effect<void>
  /**
   * From now on a connection ends when `fatal` matches what the client sent, either before or after the server answers.
   * Each connection has its own `fatal`, which gets every chunk that the client sends.
   */
  readonly endAfter: (when: "sent" | "answered" | undefined) => Effect.Effect<void>
}

export const relay = (
  to: NetConnectOpts,
  fatal: () => (sent: Buffer) => boolean = () => () => false
): Effect.Effect<Relay, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const open = new Set<Socket>()
      const lines = new Set<{ deaf: boolean }>()
      let cut = false
      let losing = false
      let lost = 0
      let millis = 0
      let swallowing = false
      let ending: "sent" | "answered" | undefined
      const server = createServer((client) => {
        if (cut) return void client.destroy()
        const other = connect(to)
        const line = { deaf: swallowing }
        const isFatal = fatal()
        let doomed = false
        lines.add(line)
        for (const [one, peer] of [
          [client, other],
          [other, client]
        ] as const) {
          open.add(one)
          one.on("error", () => {})
          one.on("close", () => {
            open.delete(one)
            if (!line.deaf) peer.destroy()
          })
        }
        const pass = (socket: Socket, bytes: Buffer) => {
          const arrive = () => void (line.deaf || socket.destroyed || socket.write(bytes))
          if (millis === 0) arrive()
          else setTimeout(arrive, millis)
        }
        client.on("data", (bytes) => {
          const now = isFatal(bytes) && ending !== undefined
          pass(other, bytes)
          if (!now) return
          doomed = true
          if (ending === "sent") other.end(() => client.destroy())
        })
        other.on("data", (bytes) => {
          if (!losing && !doomed) return pass(client, bytes)
          lost++
          client.destroy()
        })
      }).listen(0, "127.0.0.1")
      await once(server, "listening")
      return {
        port: (server.address() as AddressInfo).port,
        cut: Effect.sync(() => {
          cut = true
          for (const socket of open) socket.destroy()
        }),
        heal: Effect.sync(() => {
          cut = false
          losing = false
          millis = 0
          swallowing = false
          ending = undefined
        }),
        loseAnswers: Effect.sync(() => {
          losing = true
        }),
        lost: () => lost,
        delay: (by: number) =>
          Effect.sync(() => {
            millis = by
          }),
        swallow: Effect.sync(() => {
          swallowing = true
          for (const line of lines) line.deaf = true
        }),
        endAfter: (when: "sent" | "answered" | undefined) =>
          Effect.sync(() => {
            ending = when
          }),
        close: () => {
          for (const socket of open) socket.destroy()
          server.close()
        }
      }
    }),
    ({ close }) => Effect.sync(close)
  )
