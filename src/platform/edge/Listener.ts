/** The Node server and its limits per connection. */
import { NodeHttpServer } from "@effect/platform-node"
import { Effect, Layer } from "effect"
import { createServer } from "node:http"
import { Settings } from "../settings/Settings.ts"

/** A request must arrive within 8 s, its headers within 5 s. The check runs every second: slow clients last 10 s at most. */
const server = (connections: number) => () => {
  const server = createServer({
    headersTimeout: 5_000,
    requestTimeout: 8_000,
    connectionsCheckingInterval: 1_000,
    keepAliveTimeout: 65_000
  })
  // Node closes further connections at once, before they cost memory.
  server.maxConnections = connections
  // A connection that becomes idle during shutdown would delay it for the rest of its keep-alive.
  return server.on("request", (_, response) =>
    response.once("finish", () => {
      if (!server.listening) setImmediate(() => server.closeIdleConnections())
    })
  )
}

export const listener = Layer.unwrap(
  Effect.map(Settings, ({ http }) =>
    NodeHttpServer.layer(server(http.connections), {
      host: http.host,
      port: http.port,
      gracefulShutdownTimeout: "10 seconds"
    })
  )
)
