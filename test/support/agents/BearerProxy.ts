/**
 * A loopback proxy that adds the bearer token, which the conformance runner cannot send. Host and Origin pass
 * unchanged.
 */
import { Effect } from "effect"
import { createServer, request } from "node:http"
import type { AddressInfo } from "node:net"

export const bearerProxy = (target: URL, token: string) =>
  Effect.acquireRelease(
    Effect.callback<{ readonly url: string; readonly close: () => void }>((resume) => {
      const server = createServer((incoming, outgoing) => {
        const headers = { ...incoming.headers, authorization: incoming.headers.authorization ?? `Bearer ${token}` }
        const { method, url: path } = incoming
        const onward = request(
          { host: target.hostname, port: target.port, method, path, headers, setHost: false },
          (answer) => {
            outgoing.writeHead(answer.statusCode ?? 502, answer.headers)
            answer.pipe(outgoing)
          }
        )
        onward.on("error", () => outgoing.destroy())
        outgoing.on("close", () => onward.destroy())
        incoming.pipe(onward)
      })
      server.listen(0, "127.0.0.1", () => {
        const { port } = server.address() as AddressInfo
        resume(
          Effect.succeed({
            url: `http://127.0.0.1:${port}`,
            close: () => {
              server.closeAllConnections()
              server.close()
            }
          })
        )
      })
    }),
    ({ close }) => Effect.sync(close)
  ).pipe(Effect.map(({ url }) => url))
