/**
 * A port that nothing listens on, for whatever must be told its port before it starts. Until that binds it, nobody else gets
 * it by chance: systems give connections, and whoever listens on port 0, a higher one (Linux from 32768, macOS from 49152).
 */
import { Effect } from "effect"
import { randomInt } from "node:crypto"
import { once } from "node:events"
import { createServer } from "node:net"

const unbound = Effect.tryPromise(async () => {
  const port = randomInt(20_000, 32_000)
  const server = createServer().listen(port, "127.0.0.1")
  await once(server, "listening")
  server.close()
  await once(server, "close")
  return port
})

export const freePort = Effect.orDie(Effect.retry(unbound, { times: 100 }))
