/** A TCP relay whose line can be cut: in front of the service it loses answers, in front of PostgreSQL the database. */
import { Effect, type Scope } from "effect"
import { once } from "node:events"
import { type AddressInfo, connect, createServer, type NetConnectOpts, type Socket } from "node:net"

export interface Relay {
  readonly port: number
  /** Ends every connection and refuses new ones, until `heal`. */
  readonly cut: Effect.Effect<void>
  readonly heal: Effect.Effect<void>
  /** From now on the client is cut off as soon as the other side begins to answer. */
  readonly loseAnswers: Effect.Effect<void>
  /** How many answers were lost. */
  readonly lost: () => number
}

export const relay = (to: NetConnectOpts): Effect.Effect<Relay, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const open = new Set<Socket>()
      let cut = false
      let losing = false
      let lost = 0
      const server = createServer((client) => {
        if (cut) return void client.destroy()
        const other = connect(to)
        for (const [one, peer] of [
          [client, other],
          [other, client]
        ] as const) {
          open.add(one)
          one.on("error", () => {})
          one.on("close", () => {
            open.delete(one)
            peer.destroy()
          })
        }
        client.pipe(other)
        other.on("data", (bytes) => {
          if (!losing) return void client.write(bytes)
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
        }),
        loseAnswers: Effect.sync(() => {
          losing = true
        }),
        lost: () => lost,
        close: () => {
          for (const socket of open) socket.destroy()
          server.close()
        }
      }
    }),
    ({ close }) => Effect.sync(close)
  )
