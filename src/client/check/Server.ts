/** The service of a scenario over HTTP, with the faults that the scenario plans, and a record of every request. */
import { Effect } from "effect"
import { once } from "node:events"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { text } from "node:stream/consumers"
import { type Answer, refusal } from "./Answer.ts"
import { type Operation, operations, type Service } from "./Service.ts"

/** What happens to one request. */
export type Fault =
  /** The connection ends before the service sees the request. */
  | { readonly kind: "request lost" }
  /** The service handles the request, and the connection ends before the answer. */
  | { readonly kind: "answer lost" }
  /** Somebody was faster with the same proof; nothing happens to a request without one. */
  | { readonly kind: "proof used" }
  /** 503 with Retry-After. */
  | { readonly kind: "unavailable"; readonly retryAfter: number }
  /** 502 with a page, as a proxy sends it. */
  | { readonly kind: "broken proxy" }
  /** The Bridge is killed as the request arrives, once it was handled, or so many milliseconds after its answer. */
  | { readonly kind: "killed"; readonly when: "arrived" | "handled" | { readonly answered: number } }

export interface Plan {
  readonly operation: Operation
  /** How many requests of the operation have the fault. */
  times: number
  readonly fault: Fault
}

export interface Exchange {
  readonly operation: Operation | undefined
  /** Milliseconds of this process. */
  readonly at: number
  readonly bearer: string | undefined
  readonly key: string | undefined
  readonly body: string
  /** Undefined if there was no answer. */
  status: number | undefined
  code: string | undefined
}

const operationsByAddress = new Map(Object.entries(operations).map(([name, address]) => [address, name as Operation]))

/** A request that is larger is not one of a Bridge. */
const largest = 16_384

export const serve = Effect.fnUntraced(function* (service: Service, now: () => number) {
  const exchanges: Array<Exchange> = []
  const plans: Array<Plan> = []
  const control = {
    /** No connection is accepted, as while the service restarts. */
    isAway: false,
    /** Every answer redirects there. */
    redirect: undefined as string | undefined,
    /** Every object in an answer has a field that no version of the protocol knows. */
    addsFields: false,
    /** Kills the command that runs. */
    kill: () => {}
  }

  const faultOf = (operation: Operation | undefined): Fault | undefined => {
    const plan = plans.find((plan) => plan.operation === operation && plan.times > 0)
    if (plan === undefined) return undefined
    plan.times--
    return plan.fault
  }

  const handle = async (request: IncomingMessage, response: ServerResponse) => {
    const body = await text(request)
    const { authorization, dpop } = request.headers
    const proof = Array.isArray(dpop) ? dpop.join(", ") : dpop
    const key = request.headers["idempotency-key"]
    const operation = operationsByAddress.get(`${request.method} ${request.url}` as never)
    const exchange: Exchange = {
      operation,
      at: performance.now(),
      bearer: /^(?:Bearer|DPoP) (.+)$/.exec(authorization ?? "")?.[1],
      key: Array.isArray(key) ? undefined : key,
      body,
      status: undefined,
      code: undefined
    }
    exchanges.push(exchange)
    const send = ({ body, code, headers, status }: Answer) => {
      Object.assign(exchange, { status, code })
      const sent = control.addsFields ? { ...body, added_later: { by: ["a", "newer", "version"] } } : body
      response
        .writeHead(status, {
          "content-type": "application/json",
          "cache-control": "no-store",
          date: new Date(now()).toUTCString(),
          ...headers
        })
        .end(JSON.stringify(sent))
    }
    if (control.redirect !== undefined) {
      return void response.writeHead(307, { location: `${control.redirect}${request.url}` }).end()
    }
    if (operation === undefined) {
      return send({ status: 404, code: "not_found", headers: {}, body: { error: { code: "not_found", message: "" } } })
    }
    const fault = faultOf(operation)
    const lose = () => void response.destroy()
    if (fault?.kind === "request lost") return lose()
    if (fault?.kind === "proof used" && proof !== undefined) return send(refusal("bridge_proof_of_possession_invalid"))
    if (fault?.kind === "unavailable") return send(refusal("bridge_persistence_error", fault.retryAfter))
    if (fault?.kind === "broken proxy") {
      exchange.status = 502
      return void response.writeHead(502, { "content-type": "text/html" }).end("<h1>502 Bad Gateway</h1>")
    }
    const when = fault?.kind === "killed" ? fault.when : undefined
    if (when === "arrived") return (control.kill(), lose())
    const contentType = request.headers["content-type"]?.split(";", 1)[0]?.trim().toLowerCase()
    const answer =
      body.length > largest
        ? refusal("payload_too_large")
        : service.handle(operation, { bearer: exchange.bearer, key: exchange.key, proof, contentType, body })
    if (when === "handled") return (control.kill(), lose())
    if (fault?.kind === "answer lost") return lose()
    send(answer)
    if (when !== undefined) response.once("finish", () => setTimeout(control.kill, when.answered))
  }

  const server = createServer((request, response) => {
    if (control.isAway) return void request.socket.destroy()
    handle(request, response).catch(() => response.destroy())
  })
  server.keepAliveTimeout = 1000
  yield* Effect.acquireRelease(
    Effect.promise(() => once(server.listen(0, "127.0.0.1"), "listening")),
    () =>
      Effect.sync(() => {
        server.closeAllConnections()
        server.close()
      })
  )
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, exchanges: exchanges as ReadonlyArray<Exchange>, plans, control }
})
