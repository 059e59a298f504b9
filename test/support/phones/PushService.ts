/** A push service of a test: takes the real requests over TLS, checks their signature, and answers as the test says. */
import { Duration, Effect } from "effect"
import { webcrypto } from "node:crypto"
import { once } from "node:events"
import { createServer } from "node:https"
import type { AddressInfo } from "node:net"
import { throwAwayCertificate } from "./ThrowAwayCertificate.ts"

export const host = "push.example"

export interface Received {
  readonly path: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: Buffer
  /** The claims of the signature, and the key that verified it. */
  readonly claims: { readonly aud: string; readonly sub: string; readonly exp: number }
  readonly public_key: string
}

/** Answers the status of `answers` by path, else 201; `"hang"` never answers, `"endless"` never stops. */
export const makePushService = () =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const { cert, key } = throwAwayCertificate({ host })
      const received: Array<Received> = []
      const answers = new Map<string, number | "hang" | "endless" | readonly [number, Record<string, string>]>()
      const server = createServer({ cert, key }, (request, response) => {
        const chunks: Array<Buffer> = []
        request.on("data", (chunk: Buffer) => chunks.push(chunk))
        request.on("end", () => {
          void verified(request.headers.authorization ?? "").then((signed) => {
            if (signed === undefined) return response.writeHead(403).end()
            const path = request.url ?? ""
            received.push({ path, headers: request.headers, body: Buffer.concat(chunks), ...signed })
            const answer = answers.get(path) ?? 201
            if (answer === "hang") return
            if (answer !== "endless") {
              const [status, headers] = typeof answer === "number" ? [answer, {}] : answer
              return response.writeHead(status, headers).end("x".repeat(100))
            }
            response.writeHead(201)
            const more = () => response.destroyed || response.write(Buffer.alloc(65_536), () => setImmediate(more))
            return more()
          })
        })
      })
      server.listen(0, "127.0.0.1")
      await once(server, "listening")
      const { port } = server.address() as AddressInfo
      return {
        received,
        answers,
        server,
        origin: `https://${host}:${port}`,
        /** For `PostNetwork`. */
        network: {
          resolve: async (name: string) => {
            if (name !== host) throw new Error(`no ${name} here`)
            return ["127.0.0.1"]
          },
          ca: cert,
          deadline: Duration.seconds(2)
        }
      }
    }),
    ({ server }) =>
      Effect.sync(() => {
        server.closeAllConnections()
        server.close()
      })
  )

/** RFC 8292, verified with WebCrypto. */
const verified = async (authorization: string) => {
  const [, token = "", public_key = ""] = /^vapid t=([\w.-]+), k=([\w-]+)$/.exec(authorization) ?? []
  const [head = "", claims = "", signature = ""] = token.split(".")
  const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" }
  const bytes = (text: string) => Buffer.from(text, "base64url")
  const key = await webcrypto.subtle.importKey("raw", bytes(public_key), algorithm, false, ["verify"])
  const isRight = await webcrypto.subtle.verify(algorithm, key, bytes(signature), Buffer.from(`${head}.${claims}`))
  return isRight ? { claims: JSON.parse(bytes(claims).toString()), public_key } : undefined
}
