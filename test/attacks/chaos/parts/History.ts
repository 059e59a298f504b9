/**
 * The requests of one Bridge about its tokens, with times and answers, in the terms of the model of spec 3, and whether the
 * model could have given these answers. A request without an answer may or may not have been executed.
 */
import { Effect, Redacted } from "effect"
import type { HttpClientError, HttpClientRequest, HttpClientResponse } from "effect/http"
import { apply, initial, type Op } from "../../model/Model.ts"
import { type Call, linearizable } from "../../../support/attacks/Linearizability.ts"

/** The enrollment before the history. */
const opening: ReadonlyArray<Op> = [
  { op: "issue", credential: "c0", reenroll: false },
  { op: "challenge", credential: "c0", key: "k", keys: "a" },
  { op: "prove", challenge: "c0/k", key: "p0" }
]

type Exchange = Effect.Effect<HttpClientResponse.HttpClientResponse, HttpClientError.HttpClientError>

export const makeHistory = () => {
  const calls: Array<Call<Op>> = []
  /** The name of a token by its secret: the key of the prepare that made it. */
  const names = new Map<string, string>()
  const secrets = new Map<string, string>()
  const rotations = new Map<string, string>()
  const violations: Array<string> = []

  const learn = (secret: string, name: string) => {
    if ((names.get(secret) ?? name) !== name) violations.push("one token was returned to two calls")
    if ((secrets.get(name) ?? secret) !== secret) violations.push("a retry returned another token")
    names.set(secret, name)
    secrets.set(name, secret)
  }

  const opOf = ({ headers, url }: HttpClientRequest.HttpClientRequest): Op | undefined => {
    const token = names.get(headers["authorization"]?.replace("Bearer ", "") ?? "")
    const key = headers["idempotency-key"] ?? ""
    const path = /\/tokens\/(?:rotate\/)?(\w+)$/.exec(url)?.[1]
    if (token === undefined) return undefined
    if (path === "prepare") return { op: "prepare", token, key }
    if (path === "confirm" || path === "abort") return { op: path, token, rotation: token, key }
    return path === "self" ? { op: "self", token } : undefined
  }

  const answered = Effect.fnUntraced(function* (op: Op, response: HttpClientResponse.HttpClientResponse) {
    const body = JSON.parse(yield* response.text)
    const { status } = response
    if (op.op === "prepare" && status === 201) {
      learn(body.successor_token, op.key)
      rotations.set(body.rotation_id, op.key)
    }
    if (op.op === "self" && status === 200) return `200 ${body.pending_rotation?.rotation_id ?? "nothing"} pending`
    const replayed = response.headers["idempotency-replayed"] === "true" ? " replayed" : ""
    return status >= 500 ? undefined : (body.error?.code ?? `${status}${replayed}`)
  })

  return {
    /** The token of the enrollment. */
    begin: (token: Redacted.Redacted<string>) => learn(Redacted.value(token), "c0/k"),
    /** One of the tokens handed out most recently. */
    secret: (which: number) => [...names.keys()].at(-1 - Math.floor(which * Math.min(3, names.size)))!,
    watch: (exchange: Exchange, request: HttpClientRequest.HttpClientRequest): Exchange =>
      Effect.suspend(() => {
        const op = opOf(request)
        if (op === undefined) return exchange
        const started = performance.now()
        let outcome: string | undefined
        return exchange.pipe(
          Effect.tap((response) => Effect.map(answered(op, response), (result) => (outcome = result))),
          Effect.onExit(() =>
            Effect.sync(() => {
              const ended = outcome === undefined ? Infinity : performance.now()
              calls.push({ op, started, ended, outcome })
            })
          )
        )
      }),
    calls,
    violations,
    isLinearizable: () => {
      const state = opening.reduce((state, op) => apply(state, op)[0], initial)
      const named = calls
        .map((call) => ({ ...call, outcome: call.outcome?.replace(/[0-9a-f-]{36}/, (id) => rotations.get(id) ?? id) }))
        .toSorted((left, right) => left.started - right.started)
      return linearizable(named, state, apply)
    }
  }
}
