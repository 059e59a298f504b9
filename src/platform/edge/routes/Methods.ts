/** Answers 405 with Allow where a known path does not serve the method (RFC 9110 15.5.6). */
import { Effect, Layer } from "effect"
import { type HttpMethod, HttpRouter } from "effect/http"
import { HttpApi, type HttpApiGroup } from "effect/http-api"
import { METHODS } from "node:http"
import { refuse } from "../../../wire/Errors.ts"
import { answer } from "../../../wire/Refusal.ts"

/** Every method that reaches the router. It routes HEAD as GET, and Node handles CONNECT elsewhere. */
export const methods = METHODS.filter(
  (method) => method !== "HEAD" && method !== "CONNECT"
) as ReadonlyArray<HttpMethod.HttpMethod>

/** For a plain route that serves only the methods in `served`. */
export const onlyMethods = (path: HttpRouter.PathInput, served: ReadonlyArray<string>) => {
  const allow = (served.includes("GET") ? ["HEAD", ...served] : served).join(", ")
  const refused = Effect.succeed(answer(refuse("method_not_allowed"), { allow }))
  return HttpRouter.addAll(
    methods.filter((method) => !served.includes(method)).map((method) => HttpRouter.route(method, path, refused))
  )
}

/** For every path of an API. */
export const onlyDeclaredMethods = <Id extends string, Groups extends HttpApiGroup.Constraint>(
  api: HttpApi.HttpApi<Id, Groups>
) => {
  const served = new Map<string, Array<string>>()
  HttpApi.reflect(api, {
    onGroup: () => undefined,
    onEndpoint: ({ endpoint }) => served.set(endpoint.path, [...(served.get(endpoint.path) ?? []), endpoint.method])
  })
  return Layer.mergeAll(
    Layer.empty,
    ...[...served].map(([path, allowed]) => onlyMethods(path as HttpRouter.PathInput, allowed))
  )
}
