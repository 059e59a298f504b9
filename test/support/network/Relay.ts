/** A TCP relay that injects network faults, in front of the service or in front of PostgreSQL. */
import { Effect, type Scope } from "effect"
import { once } from "node:events"
import { type AddressInfo, connect, createServer, type NetConnectOpts, type Socket } from "node:net"

export interface Relay {
  readonly port: number
  /** Closes every connection and refuses new ones, until `heal`. */
  readonly cut: Effect.Effect<void>
  readonly heal: Effect.Effect<void>
  /** From now on the client's connection is closed as soon as the server begins to answer. */
  readonly loseAnswers: Effect.Effect<void>
  /** The number of lost answers. */
  readonly lost: () => number
  /** From now on each direction is delayed by this many milliseconds. */
  readonly delay: (millis: number) => Effect.Effect<void>
  /**
   * From now on bytes and closes are dropped in both directions; new connections are still accepted. A connection that is
   * open at `heal` stays silent for good.
   */
  readonly blackhole: Effect.Effect<void>
  /** From now on a connection is silent, as with `blackhole`, once its client sends something that begins like this. */
  readonly swallow: (beginning: string) => Effect.Effect<void>
  /**
   * From now on a connection is closed when the client sends something that `fatal` matches: right after it was forwarded
   * ("sent"), or when the server begins to answer ("answered"). `fatal` is created once per connection and sees all bytes
   * of the client in order.
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
      const links = new Set<{ silent: boolean }>()
      let cut = false
      let losing = false
      let lost = 0
      let millis = 0
      let blackholed = false
      let swallowed: string | undefined
      let ending: "sent" | "answered" | undefined
      const listener = createServer((client) => {
        if (cut) return void client.destroy()
        const server = connect(to)
        const link = { silent: blackholed }
        const isFatal = fatal()
        let doomed = false
        links.add(link)
        for (const [one, peer] of [
          [client, server],
          [server, client]
        ] as const) {
          open.add(one)
          // Otherwise small messages wait for up to 40 ms.
          one.setNoDelay(true)
          one.on("error", () => {})
          one.on("close", () => {
            open.delete(one)
            if (!link.silent) peer.destroy()
          })
        }
        const forward = (socket: Socket, bytes: Buffer) => {
          const write = () => void (link.silent || socket.destroyed || socket.write(bytes))
          if (millis === 0) write()
          else setTimeout(write, millis)
        }
        client.on("data", (bytes) => {
          if (swallowed !== undefined && bytes.toString("latin1", 0, swallowed.length) === swallowed) link.silent = true
          const now = isFatal(bytes) && ending !== undefined
          forward(server, bytes)
          if (!now) return
          doomed = true
          if (ending === "sent") server.end(() => client.destroy())
        })
        server.on("data", (bytes) => {
          if (!losing && !doomed) return forward(client, bytes)
          lost++
          client.destroy()
        })
      }).listen(0, "127.0.0.1")
      await once(listener, "listening")
      return {
        port: (listener.address() as AddressInfo).port,
        cut: Effect.sync(() => {
          cut = true
          for (const socket of open) socket.destroy()
        }),
        heal: Effect.sync(() => {
          cut = false
          losing = false
          millis = 0
          blackholed = false
          swallowed = undefined
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
        blackhole: Effect.sync(() => {
          blackholed = true
          for (const link of links) link.silent = true
        }),
        swallow: (beginning: string) =>
          Effect.sync(() => {
            swallowed = beginning
          }),
        endAfter: (when: "sent" | "answered" | undefined) =>
          Effect.sync(() => {
            ending = when
          }),
        close: () => {
          for (const socket of open) socket.destroy()
          listener.close()
        }
      }
    }),
    ({ close }) => Effect.sync(close)
  )
