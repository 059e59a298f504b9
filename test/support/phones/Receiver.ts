/** A receiver of ntfy messages and webhooks: takes the real requests, over TLS and plain, and answers as the test says. */
import { Duration, Effect } from "effect"
import { once } from "node:events"
import { createServer as createPlain, type RequestListener } from "node:http"
import { createServer } from "node:https"
import type { AddressInfo } from "node:net"
import { throwAwayCertificate } from "./ThrowAwayCertificate.ts"

export const host = "hooks.example"

export interface Received {
  readonly path: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: string
  readonly at: number
  readonly answer: ReceiverAnswer
}

type ReceiverAnswer = number | "hang" | "endless" | readonly [number, Record<string, string>]

/** Answers the status of `answers` by path, else 200; `"hang"` never answers, `"endless"` never stops. */
export const makeReceiver = ({ deadline = Duration.seconds(2) } = {}) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const { cert, key } = throwAwayCertificate({ host })
      const received: Array<Received> = []
      const answers = new Map<string, ReceiverAnswer>()
      const listener: RequestListener = (request, response) => {
        const chunks: Array<Buffer> = []
        request.on("data", (chunk: Buffer) => chunks.push(chunk))
        request.on("end", () => {
          const path = request.url ?? ""
          const body = Buffer.concat(chunks).toString()
          const answer = answers.get(path) ?? 200
          received.push({ path, headers: request.headers, body, at: performance.now(), answer })
          if (answer === "hang") return
          if (answer !== "endless") {
            const [status, headers] = typeof answer === "number" ? [answer, {}] : answer
            return void response.writeHead(status, headers).end("x".repeat(100))
          }
          response.writeHead(200)
          const more = () => response.destroyed || response.write(Buffer.alloc(65_536), () => setImmediate(more))
          more()
        })
      }
      const servers = [createServer({ cert, key }, listener), createPlain(listener)]
      for (const server of servers) await once(server.listen(0, "127.0.0.1"), "listening")
      const [port, plainPort] = servers.map((server) => (server.address() as AddressInfo).port)
      /** Where the name leads, one answer after another; the last one stays. */
      const addresses = [["127.0.0.1"]]
      return {
        received,
        answers,
        servers,
        addresses,
        origin: `https://${host}:${port}`,
        plain: `http://${host}:${plainPort}`,
        /** For `PostNetwork`. */
        network: {
          resolve: async () => (addresses.length > 1 ? addresses.shift()! : addresses[0]!),
          ca: cert,
          deadline
        }
      }
    }),
    ({ servers }) =>
      Effect.sync(() => {
        for (const server of servers) {
          server.closeAllConnections()
          server.close()
        }
      })
  )
