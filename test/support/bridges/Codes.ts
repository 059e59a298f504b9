/** Tables of refusals: each row is a test that a request in some state gets a status and a code. */
import { assert, type Vitest } from "@effect/vitest"
import { Effect, type Scope } from "effect"
import { OpenApi } from "effect/http-api"
import { Api } from "../../../src/wire/Api.ts"
import type { Answer } from "../network/Http.ts"

export interface Row<R> {
  /** The endpoint's name in wire/bridges/*Api.ts. */
  readonly endpoint: string
  readonly state: string
  readonly code: string
  readonly status: number
  readonly request: Effect.Effect<Answer, unknown, R>
}

/** Makes rows of one endpoint: `rowsFor("prove")("an expired challenge", 410, "enrollment_challenge_expired", request)`. */
export const rowsFor =
  (endpoint: string) =>
  <R>(state: string, status: number, code: string, request: Effect.Effect<Answer, unknown, R>): Row<R> => ({
    endpoint,
    state,
    status,
    code,
    request
  })

export const testEach = <R>(it: Vitest.MethodsNonLive<R>, rows: ReadonlyArray<Row<R | Scope.Scope>>) => {
  for (const { code, endpoint, request, state, status } of rows) {
    it.effect(`${endpoint}: ${state} -> ${code}`, () =>
      Effect.gen(function* () {
        const answer = yield* request
        assert.deepStrictEqual([answer.status, answer.code], [status, code], answer.text)
        assertRefusal(answer)
      })
    )
  }
}

/** What every refusal has in common (spec 2.7, 7.1). */
export const assertRefusal = ({ body, code, headers, status }: Answer) => {
  assert.deepStrictEqual(Object.keys(body), ["error"])
  assert.deepStrictEqual(Object.keys(body.error), ["code", "message"])
  assert.isNotEmpty(body.error.message)
  assert.strictEqual(headers.get("cache-control"), "no-store")
  assert.match(headers.get("content-type")!, /^application\/json/)
  assert.match(headers.get("x-request-id")!, /^[0-9a-f-]{36}$/)
  const scheme = code === "bridge_proof_of_possession_invalid" ? "DPoP" : "Bearer"
  assert.strictEqual(headers.get("www-authenticate"), status === 401 ? scheme : null)
  if (status === 429 || status === 503) assert.match(headers.get("retry-after")!, /^[1-9]\d*$/)
}

/** One `endpoint status code` per declaration of a group's endpoints, from the OpenAPI document. */
export const declared = (group: string): ReadonlyArray<string> =>
  Object.values(OpenApi.fromApi(Api).paths)
    .flatMap((path) => Object.values(path as Record<string, OpenApi.OpenAPISpecOperation>))
    .filter(({ operationId }) => operationId.startsWith(`${group}.`))
    .flatMap(({ operationId, responses }) =>
      Object.entries(responses).flatMap(([status, response]) =>
        codesIn(response).map((code) => `${operationId.slice(group.length + 1)} ${status} ${code}`)
      )
    )
    .toSorted()

/** The same for what rows provoke. */
export const reached = (rows: ReadonlyArray<Row<never>>): ReadonlyArray<string> =>
  [...new Set(rows.map(({ code, endpoint, status }) => `${endpoint} ${status} ${code}`))].toSorted()

/** The codes that an OpenAPI document declares for one status. */
export const codesIn = (response: unknown): ReadonlyArray<string> => {
  const { code } = (response as any).content?.["application/json"]?.schema.properties?.error?.properties ?? {}
  return code?.enum ?? code?.anyOf.flatMap((one: { readonly enum: ReadonlyArray<string> }) => one.enum) ?? []
}
