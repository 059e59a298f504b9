/** An OAuth client and the person who uses it: requests are written by hand, pages are answered through their forms. */
import { Context, Effect, Option, Redacted } from "effect"
import { createHash, randomBytes } from "node:crypto"
import { ProjectTokens } from "../../../src/signin/access/ProjectTokens.ts"
import { Clients } from "../../../src/signin/oauth/clients/Clients.ts"
import { Projects } from "../../../src/operator/projects/Projects.ts"
import type { Role, Scope } from "../../../src/wire/Scopes.ts"
import { freePort } from "../network/FreePort.ts"
import { type Answer, send } from "../network/Http.ts"
import { instance } from "../service/Service.ts"

export type Instance = {
  readonly url: string
  readonly services: Context.Context<Projects | ProjectTokens | Clients>
}

export const callback = "http://127.0.0.1/callback"
export const resource = "http://127.0.0.1:8787/mcp"

/** An instance that listens at its base URL, which real clients require. */
export const reachable = Effect.fnUntraced(function* (
  settings: Readonly<Record<string, string>> = {},
  host = "127.0.0.1"
) {
  const port = String(yield* freePort)
  const made = yield* instance({ SERVICE_PORT: port, SERVICE_BASE_URL: `http://${host}:${port}`, ...settings })
  return { ...made, url: `http://${host}:${port}` }
})

export const makeToken = Effect.fnUntraced(function* (
  { services }: Instance,
  options: {
    readonly project_id?: string
    readonly role?: Role
    readonly scopes?: ReadonlyArray<Scope>
    readonly ttl?: Ttl
    readonly label?: string
    readonly opens_console?: boolean
  } = {}
) {
  const tokens = Context.get(services, ProjectTokens)
  const project_id = options.project_id ?? (yield* Context.get(services, Projects).create("Harbour")).project_id
  const secret = yield* tokens.mint
  const issued = yield* tokens.issue(
    {
      project_id,
      label: options.label,
      role: options.role ?? "contributor",
      scopes: options.scopes ?? [],
      ttl: options.ttl ?? Option.none(),
      opens_console: options.opens_console ?? true
    },
    secret
  )
  return { ...issued, token: Redacted.value(secret.token) }
})
type Ttl = Parameters<ProjectTokens["Service"]["issue"]>[0]["ttl"]

export const makeClient = (
  { services }: Instance,
  options: Partial<Parameters<Clients["Service"]["create"]>[0]> = {}
) =>
  Effect.map(
    Context.get(services, Clients).create({
      name: "Lighthouse",
      redirect_uris: [callback],
      application_type: undefined,
      scopes: [],
      ...options
    }),
    ({ client_id }) => client_id
  )

export const pkce = () => {
  const verifier = randomBytes(32).toString("base64url")
  return { verifier, challenge: createHash("sha256").update(verifier).digest("base64url") }
}

export const authorizeQuery = (options: Readonly<Record<string, string | undefined>>) =>
  new URLSearchParams(
    Object.entries({
      response_type: "code",
      code_challenge_method: "S256",
      code_challenge: pkce().challenge,
      redirect_uri: callback,
      state: "state-1",
      ...options
    }).filter((entry): entry is [string, string] => entry[1] !== undefined)
  ).toString()

export const post = (url: string, fields: Readonly<Record<string, string | undefined>>, headers = {}) =>
  send(url, {
    headers: { "content-type": "application/x-www-form-urlencoded", ...headers },
    body: new URLSearchParams(
      Object.entries(fields).filter((entry): entry is [string, string] => entry[1] !== undefined)
    ).toString()
  })

/** A browser with one cookie jar. With its forms it sends the issuer's origin, wherever the instance listens. */
export class Browser {
  declare readonly cookies: Map<string, string>
  declare readonly url: string
  private origin: string | undefined
  constructor(url: string, cookies: Iterable<readonly [string, string]> = []) {
    this.url = url
    this.cookies = new Map(cookies)
  }

  get cookie() {
    return [...this.cookies].map((pair) => pair.join("=")).join("; ")
  }

  private storeCookie = (answer: Answer) => {
    for (const set of answer.headers.getSetCookie()) {
      const [name, value] = set.split(";")[0]!.split("=")
      this.cookies.set(name!, value!)
    }
    return answer
  }

  get(path: string): Effect.Effect<Answer> {
    const url = path.startsWith("/") ? `${this.url}${path}` : path
    return Effect.map(send(url, { method: "GET", headers: { cookie: this.cookie } }), this.storeCookie)
  }

  authorize(query: string) {
    return Effect.flatMap(this.get(`/authorize?${query}`), (answer) =>
      answer.status === 303 && answer.headers.get("location")!.startsWith("/oauth/consent")
        ? this.get(answer.headers.get("location")!)
        : Effect.succeed(answer)
    )
  }

  /** Posts the form of a page: its hidden fields and these. */
  submit(page: Answer, fields: Readonly<Record<string, string>>, headers: Readonly<Record<string, string>> = {}) {
    return Effect.flatMap(
      Effect.flatMap(this.issuer(), (origin) =>
        post(
          `${this.url}/oauth/consent`,
          { ...hiddenFields(page), ...fields },
          { cookie: this.cookie, origin, ...headers }
        )
      ),
      (answer) => {
        this.storeCookie(answer)
        const location = answer.headers.get("location") ?? ""
        return location.startsWith("/oauth/consent") ? this.get(location) : Effect.succeed(answer)
      }
    )
  }

  private issuer(): Effect.Effect<string> {
    if (this.origin !== undefined) return Effect.succeed(this.origin)
    const metadata = send(`${this.url}/.well-known/oauth-authorization-server`, { method: "GET" })
    return Effect.map(metadata, ({ body }) => (this.origin = body.issuer as string))
  }

  /** The whole flow, from the authorization request to the redirect to the client. */
  consent(query: string, token: string, decision: "allow" | "deny" = "allow") {
    return this.authorize(query).pipe(
      Effect.flatMap((page) => this.submit(page, { project_token: token })),
      Effect.flatMap((page) => this.submit(page, { decision }))
    )
  }
}

export const hiddenFields = (page: Answer): Record<string, string> =>
  Object.fromEntries(
    [...page.text.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)"/g)].map(([, name, value]) => [
      name!,
      value!
    ])
  )

export const answerOf = (answer: Answer) => {
  const location = new URL(answer.headers.get("location") ?? "about:blank")
  return Object.fromEntries(location.searchParams) as Readonly<Record<string, string>>
}

/** A client with a code that a person has just allowed. */
export const obtainCode = Effect.fnUntraced(function* (
  on: Instance,
  options: {
    readonly client_id?: string
    readonly token?: string
    readonly redirect_uri?: string
    readonly query?: Readonly<Record<string, string | undefined>>
  } = {}
) {
  const client_id = options.client_id ?? (yield* makeClient(on))
  const token = options.token ?? (yield* makeToken(on)).token
  const { challenge, verifier } = pkce()
  const answer = yield* new Browser(on.url).consent(
    authorizeQuery({ client_id, code_challenge: challenge, redirect_uri: options.redirect_uri, ...options.query }),
    token
  )
  return { client_id, verifier, code: answerOf(answer)["code"]!, answer }
})

export const exchange = (on: { readonly url: string }, fields: Readonly<Record<string, string | undefined>>) =>
  post(`${on.url}/token`, { grant_type: "authorization_code", ...fields })

export const refresh = (on: { readonly url: string }, fields: Readonly<Record<string, string | undefined>>) =>
  post(`${on.url}/token`, { grant_type: "refresh_token", ...fields })

/** Refreshes a sign-in so many times; returns the access tokens, which all stay in force. */
export const refreshTimes = Effect.fnUntraced(function* (
  on: { readonly url: string },
  times: number,
  signedIn: { readonly client_id: string; readonly refresh_token: string }
) {
  const accessTokens: Array<string> = []
  let { refresh_token } = signedIn
  for (let n = 0; n < times; n++) {
    const { body } = yield* refresh(on, { client_id: signedIn.client_id, refresh_token })
    refresh_token = body.refresh_token
    accessTokens.push(body.access_token)
  }
  return accessTokens
})

/** Signs in; returns the client id and both tokens. */
export const signIn = Effect.fnUntraced(function* (on: Instance, options: Parameters<typeof obtainCode>[1] = {}) {
  const { client_id, code, verifier } = yield* obtainCode(on, options)
  const { body } = yield* exchange(on, { client_id, code, code_verifier: verifier })
  return {
    client_id,
    access_token: body.access_token as string,
    refresh_token: body.refresh_token as string,
    scope: body.scope as string
  }
})
