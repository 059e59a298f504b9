/**
 * The compiled edge: an endpoint whose path and method are known gets a listener of its own when the service starts. Its
 * requests skip the router and all that the library decides anew for each request (decisions.md, The compiled edge).
 *
 * 1. `compiled` makes one effect of each declaration, its middlewares and the handler that the router has as well
 *    (Endpoint.ts). A plain route is an effect already.
 * 2. The boundary goes around it, with the template of its path.
 * 3. The library's adapter makes a listener of node:http of it.
 * 4. The server looks for a request's listener first. What has none goes to the router: another method, a query, a
 *    parameter with an unusual character. So the router serves every route, and the same handlers.
 *
 * An endpoint is added by its declaration and its handler; neither knows of this.
 */
import { NodeHttpServer } from "@effect/platform-node"
import { Context, Effect, Layer, References, Scope } from "effect"
import type { HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApi, type HttpApiGroup } from "effect/http-api"
import type { RequestListener } from "node:http"
import { Boundary } from "../Boundary.ts"
import { Listeners } from "../Listener.ts"
import { endpointEffect, type Handler } from "./Endpoint.ts"

/** Whether requests may skip the router, and calls of tools the SDK. Off in tests that compare both ways. */
export const Shortcuts = Context.Reference<boolean>("service/edge/Shortcuts", { defaultValue: () => true })

type Request = HttpServerRequest.HttpServerRequest
type Response = HttpServerResponse.HttpServerResponse
/** What a route requires and no request brings with it. */
type Rest<R> = Exclude<R | Request, Request | Scope.Scope>

export class CompiledEdge extends Context.Service<
  CompiledEdge,
  {
    /** Serves requests for exactly this method and path. The path may have parameters. */
    readonly add: <E, R>(
      method: string,
      path: string,
      handled: Effect.Effect<Response, E, R>
    ) => Effect.Effect<void, never, Rest<R>>
  }
>()("service/edge/CompiledEdge") {
  static readonly layer = Layer.effect(
    CompiledEdge,
    Effect.gen(function* () {
      const { around } = yield* Boundary
      const isOn = yield* Shortcuts
      const exported = yield* References.TracerEnabled
      const scope = yield* Scope.fork(yield* Effect.scope, "parallel")
      const exact = new Map<string, RequestListener>()
      const withParameters: Array<readonly [method: string, path: RegExp, RequestListener]> = []
      const { use } = yield* Listeners
      yield* use(
        ({ method, url = "" }) =>
          exact.get(`${method} ${url}`) ??
          withParameters.find(([served, path]) => served === method && path.test(url))?.[2]
      )

      return {
        add: Effect.fnUntraced(function* <E, R>(method: string, path: string, handled: Effect.Effect<Response, E, R>) {
          if (!isOn) return
          // The adapter runs a request uninterruptibly, and the router each of its routes interruptibly, under this name.
          const interruptible = Effect.interruptible(handled)
          const named = exported
            ? Effect.andThen(Effect.annotateCurrentSpan("http.route", path), interruptible)
            : interruptible
          const listener = yield* Effect.updateContext(
            NodeHttpServer.makeHandler(around(() => path)(named), { scope }),
            flat<Rest<R>>
          )
          if (path.includes(":")) withParameters.push([method, patternOf(path), listener])
          else exact.set(`${method} ${path}`, listener)
        })
      }
    })
  )
}

/** The context that every request starts with. A request adds a dozen services to it, and should not copy it for that. */
const flat = <R>(context: Context.Context<R>) => Context.makeUnsafe<R>(context.mapUnsafe, { maxDepth: 32 })

/** Takes parameters that are ids as they were sent: none of their characters could mean another one. */
const patternOf = (path: string) => new RegExp(`^${path.replaceAll(/:(\w+)/g, "(?<$1>[A-Za-z0-9-]{1,64})")}$`)

/** What `HttpApiBuilder.group` leaves in the context for `HttpApiBuilder.layer`. */
interface GroupService {
  readonly handlers: ReadonlyMap<string, { readonly handler: Handler; readonly isRaw: boolean }>
}

/** Compiles every endpoint of a contract. The layer of its handlers asks for the services that they need. */
export const compiled = <Id extends string, Groups extends HttpApiGroup.Constraint>(
  api: HttpApi.HttpApi<Id, Groups>
): Layer.Layer<never, never, CompiledEdge | HttpApiGroup.ToService<Id, Groups>> =>
  Layer.effectDiscard(
    Effect.gen(function* () {
      const { add } = yield* CompiledEdge
      // It holds what every handler requires: `HttpApiBuilder.group` has asked for that.
      const context = (yield* Effect.context<never>()) as Context.Context<unknown>
      const additions: Array<Effect.Effect<void>> = []
      HttpApi.reflect(api, {
        onGroup: () => undefined,
        onEndpoint: ({ endpoint, errors, group, mergedAnnotations, successes }) => {
          const { handlers } = context.mapUnsafe.get(group.key) as GroupService
          const { handler, isRaw } = handlers.get(endpoint.identifier)!
          const { method, path } = endpoint
          const pattern = patternOf(path)
          const paramsOf = (url: string) => pattern.exec(url)?.groups
          const declared = { group, endpoint, annotations: mergedAnnotations, successes, errors }
          const effect = isRaw ? undefined : endpointEffect(declared, handler, paramsOf, context)
          if (effect !== undefined) additions.push(Effect.provideContext(add(method, path, effect), context))
        }
      })
      yield* Effect.all(additions, { discard: true })
    })
  )
