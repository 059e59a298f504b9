/** Every kind of token at every endpoint: each endpoint accepts only the kinds listed here (spec 5). */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Redacted } from "effect"
import { Sessions } from "../../src/signin/sessions/Sessions.ts"
import {
  authorizeQuery,
  Browser,
  exchange,
  makeClient,
  makeToken,
  obtainCode,
  post,
  refresh
} from "../support/agents/Agent.ts"
import { Person } from "../support/people/Console.ts"
import { accessToken } from "../support/bridges/Access.ts"
import { Bridge } from "../support/bridges/Bridge.ts"
import { type Answer, send } from "../support/network/Http.ts"
import { Service } from "../support/service/Service.ts"
import { rotating } from "../support/bridges/Tokens.ts"

/** One valid token of each kind, and what the endpoints ask for besides the token. */
const keyring = Effect.gen(function* () {
  const service = yield* Service
  const newcomer = yield* Bridge.make(service)
  const { bridge: enrolled, rotation_id, successor, token: bridge } = yield* rotating()
  const { token: project } = yield* makeToken(service)
  const client_id = yield* makeClient(service, { scopes: ["context:read", "mobile:devices"] })
  const consent = obtainCode(service, { client_id, token: project, query: { scope: "context:read mobile:devices" } })
  const unused = yield* consent
  const { code, verifier } = yield* consent
  const { access_token, refresh_token } = (yield* exchange(service, { client_id, code, code_verifier: verifier })).body
  const sessions = Context.get(service.services, Sessions)
  const link = yield* sessions.makeLink("operator", undefined)
  const tokens: Record<string, string> = {
    "bootstrap credential": newcomer.credential,
    "Bridge token": bridge,
    "pending successor": successor,
    "project token": project,
    "access token": access_token,
    "access token of a Bridge": yield* accessToken(service, enrolled),
    "refresh token": refresh_token,
    "authorization code": unused.code,
    "client id": client_id,
    "console session": Redacted.value((yield* sessions.signIn(Redacted.make(project))).secret),
    "console link": new URL(Redacted.value(link.url)).searchParams.get("code")!
  }
  return { url: service.url, tokens, newcomer, rotation_id, client_id, verifier: unused.verifier }
})
type Keyring = Effect.Success<typeof keyring>

const good = ({ status }: Answer) => status >= 200 && status < 300

const bearerAt =
  (path: string, given: (ring: Keyring) => Parameters<typeof send>[1] = () => ({})) =>
  (bearer: string, ring: Keyring) =>
    Effect.map(send(ring.url + path, { bearer, ...given(ring) }), good)

const rotation = ({ rotation_id }: Keyring) => ({ key: "bridge-end-1", body: { rotation_id } })

const mcpAt = (path: string) =>
  bearerAt(path, () => ({
    headers: { accept: "application/json, text/event-stream" },
    body: { jsonrpc: "2.0", id: 1, method: "tools/list" }
  }))

/** Whether the endpoint accepts the token. */
const endpoints: Readonly<Record<string, (token: string, ring: Keyring) => Effect.Effect<boolean>>> = {
  "/bridge/v1/enrollment/challenges": bearerAt("/bridge/v1/enrollment/challenges", ({ newcomer }) => ({
    key: "bridge-enroll-1",
    body: newcomer.challengeBody
  })),
  "/bridge/v1/tokens/self": bearerAt("/bridge/v1/tokens/self", () => ({ method: "GET" })),
  "/bridge/v1/tokens/rotate": bearerAt("/bridge/v1/tokens/rotate", () => ({ key: "bridge-rotate-1" })),
  "/bridge/v1/tokens/rotate/prepare": bearerAt("/bridge/v1/tokens/rotate/prepare", () => ({ key: "bridge-rotate-1" })),
  "/bridge/v1/tokens/rotate/confirm": bearerAt("/bridge/v1/tokens/rotate/confirm", rotation),
  "/bridge/v1/tokens/rotate/abort": bearerAt("/bridge/v1/tokens/rotate/abort", rotation),
  "/bridge/v1/tokens/revoke": bearerAt("/bridge/v1/tokens/revoke"),
  "/mcp": mcpAt("/mcp"),
  "/mcp/": mcpAt("/mcp/"),
  /** An accepted caller gets `device_not_found`. */
  "/bridge/v1/mobile": (bearer, { url }) =>
    Effect.map(
      send(`${url}/bridge/v1/mobile/devices/00000000-0000-4000-8000-000000000000`, { method: "GET", bearer }),
      ({ code }) => code === "device_not_found"
    ),
  "/oauth/consent": Effect.fnUntraced(function* (project_token, { client_id, url }) {
    const browser = new Browser(url)
    const page = yield* browser.authorize(authorizeQuery({ client_id }))
    return good(yield* browser.submit(page, { project_token }))
  }),
  "/console": (secret, { url }) => {
    const person = new Person(url)
    person.cookie = `console_8787=${secret}`
    return Effect.map(person.get("/console"), ({ headers }) => !headers.get("location")!.includes("sign-in"))
  },
  "/console/sign-in": (token, { url }) => Effect.map(new Person(url).signIn(token), ({ status }) => status === 303),
  "/console/enter": (code, { url }) =>
    Effect.map(new Person(url).post("/console/enter", { code }), ({ status }) => status === 303),
  "/token with a code": (code, { url, client_id, verifier }) =>
    Effect.map(exchange({ url }, { client_id, code, code_verifier: verifier }), good),
  "/token with a refresh token": (refresh_token, { url, client_id }) =>
    Effect.map(refresh({ url }, { client_id, refresh_token }), good),
  /** It answers 200 to everything; the token was accepted if its grant has ended. */
  "/revoke": Effect.fnUntraced(function* (token, ring) {
    const granted = mcpAt("/mcp")(ring.tokens["access token"]!, ring)
    const before = yield* granted
    yield* post(`${ring.url}/revoke`, { client_id: ring.client_id, token })
    return before && !(yield* granted)
  })
}

const accepted: Readonly<Record<string, ReadonlyArray<string>>> = {
  "/bridge/v1/enrollment/challenges": ["bootstrap credential"],
  "/bridge/v1/tokens/self": ["Bridge token"],
  "/bridge/v1/tokens/rotate": [],
  "/bridge/v1/tokens/rotate/prepare": ["Bridge token"],
  "/bridge/v1/tokens/rotate/confirm": ["pending successor"],
  "/bridge/v1/tokens/rotate/abort": ["pending successor"],
  "/bridge/v1/tokens/revoke": ["Bridge token"],
  "/mcp": ["project token", "access token", "access token of a Bridge"],
  "/mcp/": ["project token", "access token", "access token of a Bridge"],
  "/bridge/v1/mobile": ["access token"],
  "/oauth/consent": ["project token"],
  "/console": ["console session"],
  "/console/sign-in": ["project token"],
  "/console/enter": ["console link"],
  "/token with a code": ["authorization code"],
  "/token with a refresh token": ["refresh token"],
  "/revoke": ["access token", "refresh token"]
}

layer(Service.layer)("every kind of token", (it) => {
  for (const [endpoint, accepts] of Object.entries(endpoints)) {
    it.effect(`is accepted at ${endpoint} only if it is: ${accepted[endpoint]!.join(" or ") || "none"}`, () =>
      Effect.gen(function* () {
        const kinds: Array<string> = []
        let ring = yield* keyring
        for (const kind of Object.keys(ring.tokens)) {
          if (!(yield* accepts(ring.tokens[kind]!, ring))) continue
          kinds.push(kind)
          // Accepting a token may use up another token of the ring.
          ring = yield* keyring
        }
        assert.deepStrictEqual(kinds, accepted[endpoint])
      })
    )
  }
})
