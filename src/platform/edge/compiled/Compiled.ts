/**
 * The compiled edge: every endpoint of a declared contract gets, at the start, a listener of its own. Its requests skip
 * the router and what the library decides anew for each request (decisions.md, The compiled edge).
 *
 * 1. `endpointEffect` makes one effect of the declaration, its middlewares and the handler that the router has as well.
 * 2. The boundary goes around it, with the template of its path.
 * 3. The library's adapter makes a listener of node:http of it.
 * 4. The server asks `listenerOf` for each request. A request that it does not know exactly goes to the router: another
 *    method, a query, a parameter with an unusual character.
 *
 * Nothing in a domain knows of this. An endpoint is added by its declaration and its handler.
 */
import { NodeHttpServer } from "@effect/platform-node"
import { Context, Effect, Layer, Scope } from "effect"
import { HttpApi, type HttpApiGroup } from "effect/http-api"
import type { IncomingMessage, RequestListener } from "node:http"
import { Boundary } from "../Boundary.ts"
import { Listeners } from "../Listener.ts"
import { type Handler, endpointEffect } from "./Endpoint.ts"

/** Off in tests that compare both ways. */
export const CompilesEndpoints = Context.Reference<boolean>("service/edge/CompilesEndpoints", {
  defaultValue: () => true
})

/** What `HttpApiBuilder.group` leaves in the context for `HttpApiBuilder.layer`. */
interface GroupService {
  readonly handlers: ReadonlyMap<string, { readonly handler: Handler; readonly isRaw: boolean }>
}

export const compiled = <Id extends string, Groups extends HttpApiGroup.Constraint>(
  api: HttpApi.HttpApi<Id, Groups>
): Layer.Layer<never, never, Boundary | Listeners | HttpApiGroup.ToService<Id, Groups>> =>
  Layer.effectDiscard(
    Effect.gen(function* () {
      if (!(yield* CompilesEndpoints)) return
      const { around } = yield* Boundary
      const listeners = yield* Listeners
      const context = flat(yield* Effect.context<never>())
      const scope = yield* Scope.fork(yield* Effect.scope, "parallel")
      const exact = new Map<string, RequestListener>()
      const parametric: Array<readonly [method: string, path: RegExp, RequestListener]> = []

      const add: Parameters<typeof HttpApi.reflect>[1]["onEndpoint"] = ({
        endpoint,
        errors,
        group,
        mergedAnnotations,
        successes
      }) => {
        const { handlers } = context.mapUnsafe.get(group.key) as GroupService
        const { handler, isRaw } = handlers.get(endpoint.identifier)!
        const { method, path } = endpoint
        const pattern = patternOf(path)
        const paramsOf = (url: string) => pattern.exec(url)!.groups
        const declared = { group, endpoint, annotations: mergedAnnotations, successes, errors }
        const effect = endpointEffect(declared, handler, paramsOf, context)
        if (effect === undefined || isRaw) return
        const bounded = around(() => path)(Effect.interruptible(effect))
        const listener = Effect.runSyncWith(context)(NodeHttpServer.makeHandler(bounded, { scope }))
        if (path.includes(":")) parametric.push([method, pattern, listener])
        else exact.set(`${method} ${path}`, listener)
      }
      HttpApi.reflect(api, { onGroup: () => {}, onEndpoint: add })

      yield* listeners.use(({ method, url = "" }: IncomingMessage) =>
        exact.get(`${method} ${url}`) ??
        parametric.find(([served, path]) => served === method && path.test(url))?.[2]
      )
    })
  )

/**
 * The context of every request: it holds all that the layers of the handlers ask for. Nothing is copied when a request
 * adds a dozen services of its own.
 */
const flat = (context: Context.Context<never>) =>
  Context.makeUnsafe<unknown>(context.mapUnsafe, { maxDepth: 32 }) as Context.Context<unknown>

/** Takes parameters that are ids as they are sent: no character of them could mean another one. */
const patternOf = (path: string) => new RegExp(`^${path.replaceAll(/:(\w+)/g, "(?<$1>[A-Za-z0-9-]{1,64})")}$`)
