/** The reference Bridge as a simulated process: fresh layers over a state folder, until the work is done or killed. */
import { Cause, Context, Data, Effect, Exit, Layer, Redacted } from "effect"
import { FetchHttpClient, HttpClient } from "effect/http"
import { randomUUID } from "node:crypto"
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Bridges } from "../../../src/bridges/identity/Bridges.ts"
import { Bridge } from "../../../src/client/bridge/Bridge.ts"
import { Client } from "../../../src/client/bridge/Client.ts"
import { Journal } from "../../../src/client/bridge/Journal.ts"
import type { State } from "../../../src/client/bridge/State.ts"
import type { Instance } from "./Bridge.ts"
import { issueCredential } from "./Bridge.ts"

export interface Fate {
  /** Kills the process at its n-th point. There is a point before and after each durable write and each exchange. */
  readonly killAt?: number
  /** The service handles the n-th request, but its answer is lost. */
  readonly loseAt?: number
  readonly onWrite?: (state: State) => Effect.Effect<void>
  /** Told of each durable write, of each answer that arrives or is lost, and of the kill. */
  readonly observe?: (event: "write" | "crash" | { readonly path: string; readonly code: string }) => void
}

/** The number of requests and file operations under way in all processes. Do not move the test clock while it is above 0. */
export const outside = { busy: 0 }

/** The nonces and signatures that were sent, as a file would contain them. */
export const seen = { nonces: new Set<string>(), signatures: new Set<string>() }

class Killed extends Data.TaggedError("Killed") {}

export const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "bridge-state-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

/** Runs `work` in a new process on the folder. `killed` tells how it ended; a failure of `work` fails this effect. */
export const process = Effect.fnUntraced(function* <A, E>(
  path: string,
  work: (bridge: Bridge["Service"]) => Effect.Effect<A, E>,
  fate: Fate = {}
) {
  const exit = yield* Layer.build(Layer.fresh(layer(path, fate))).pipe(
    Effect.flatMap((services) => work(Context.get(services, Bridge))),
    Effect.scoped,
    Effect.exit
  )
  if (Exit.isSuccess(exit)) return { killed: false as const, value: exit.value }
  if (Cause.squash(exit.cause) instanceof Killed) {
    fate.observe?.("crash")
    return { killed: true as const }
  }
  return yield* Effect.failCause(exit.cause)
})

const layer = (path: string, { killAt, loseAt, observe, onWrite }: Fate) => {
  let points = 0
  let requests = 0
  const point = Effect.suspend(() => (++points === killAt ? Effect.die(new Killed()) : Effect.void))

  const journal = Layer.effect(
    Journal,
    Effect.map(Journal, ({ access, keepAccess, keyRotation, keys, read, write, writeKeys }) => {
      const withPoints = <E>(name: string, durable: Effect.Effect<void, E>) =>
        point.pipe(
          Effect.tapCause(() =>
            Effect.sync(() => writeFileSync(join(path, `${name}.new`), `{"version":1,"ba`, { mode: 0o600 }))
          ),
          Effect.andThen(durable),
          Effect.andThen(Effect.sync(() => observe?.("write"))),
          Effect.andThen(point)
        )
      return {
        access,
        keepAccess,
        keys: Effect.suspend(() => (existsSync(join(path, "key.json")) ? counted(keys) : Effect.tap(keys, point))),
        keyRotation: counted(keyRotation),
        writeKeys: (...given: Parameters<typeof writeKeys>) => withPoints("key.json", counted(writeKeys(...given))),
        read: counted(read),
        write: (state: State) =>
          withPoints("state.json", counted(write(state))).pipe(
            Effect.andThen(onWrite === undefined ? Effect.void : onWrite(state))
          )
      }
    })
  ).pipe(Layer.provide(Journal.layer(path)))

  const transport = Layer.effect(
    HttpClient.HttpClient,
    Effect.map(
      HttpClient.HttpClient,
      HttpClient.transform((exchange) => point.pipe(Effect.andThen(counted(exchange)), Effect.tap(point)))
    )
  ).pipe(Layer.provide(FetchHttpClient.layer))

  const network = Layer.succeed(FetchHttpClient.Fetch, async (input: string | URL | Request, init?: RequestInit) => {
    recordSecrets(init?.body)
    const response = await fetch(input, init)
    const body = await response.text()
    const isLost = ++requests === loseAt
    const code = isLost ? "lost" : response.ok ? "ok" : JSON.parse(body).error.code
    observe?.({ path: new URL(input instanceof Request ? input.url : input).pathname, code })
    if (isLost) throw new Error("the connection was lost")
    return new Response(body, response)
  })
  return Bridge.layer.pipe(
    Layer.provide(Client.layer),
    Layer.provide(journal),
    Layer.provide(transport),
    Layer.provide(network)
  )
}

const counted = <A, E, R>(exchange: Effect.Effect<A, E, R>) =>
  Effect.acquireUseRelease(
    Effect.sync(() => void outside.busy++),
    () => exchange,
    () => Effect.sync(() => void outside.busy--)
  )

const recordSecrets = (body: unknown) => {
  if (!(body instanceof Uint8Array)) return
  const { nonce_b64, signature_b64 } = JSON.parse(Buffer.from(body).toString())
  if (nonce_b64 !== undefined) seen.nonces.add(nonce_b64)
  if (signature_b64 !== undefined) seen.signatures.add(signature_b64)
}

/** A new Bridge: its identity, its credential and an empty state folder. */
export const newcomer = Effect.fnUntraced(function* (on: Instance & { readonly url: string }, project_id: string) {
  const { credential } = yield* issueCredential(on, project_id)
  const identity = {
    project_id,
    bridge_id: `bridge-${randomUUID()}`,
    device_id: "device-1",
    display_name: "A test Bridge"
  }
  const order = { base_url: on.url, identity, credential: Redacted.make(credential) }
  return { path: yield* folder, order, enroll: (bridge: Bridge["Service"]) => bridge.enroll(order) }
})

/** A Bridge as the operator sees it. */
export const bridgeOf = (
  { services }: { readonly services: Context.Context<Bridges> },
  { bridge_id, project_id }: { readonly bridge_id: string; readonly project_id: string }
) => Context.get(services, Bridges).show(project_id, bridge_id)

/** The states of a Bridge's tokens at the service, in alphabetical order. */
export const tokensOf = (on: Parameters<typeof bridgeOf>[0], identity: Parameters<typeof bridgeOf>[1]) =>
  Effect.map(bridgeOf(on, identity), ({ tokens }) => tokens.map(({ state }) => state).toSorted())
