/** Signs a person in on a phone through the services: consent with a project token, then the tokens (spec 4.13). */
import { Context, Duration, Effect, Layer, Option, Redacted } from "effect"
import { createHash, randomBytes, randomUUID } from "node:crypto"
import { ProjectTokens } from "../../../src/signin/access/ProjectTokens.ts"
import { Authorize } from "../../../src/signin/oauth/authorize/Authorize.ts"
import { Clients } from "../../../src/signin/oauth/clients/Clients.ts"
import { Codes } from "../../../src/signin/oauth/tokens/Codes.ts"
import { Consent } from "../../../src/signin/oauth/consent/Consent.ts"
import type { Projects } from "../../../src/operator/projects/Projects.ts"
import type { Scope } from "../../../src/wire/Scopes.ts"
import { makeProject } from "../bridges/Bridge.ts"

type SignInServices = Layer.Success<
  | typeof ProjectTokens.layer
  | typeof Authorize.layer
  | typeof Clients.layer
  | typeof Codes.layer
  | typeof Consent.layer
  | typeof Projects.layer
>
export interface Instance {
  readonly url: string
  readonly services: Context.Context<SignInServices>
}

export const redirectUri = "com.example.app:/signed-in"

/** A project token, which identifies the person. */
export const makeSubject = Effect.fnUntraced(function* ({ services }: Instance, project_id: string) {
  const tokens = Context.get(services, ProjectTokens)
  const secret = yield* tokens.mint
  const request = { project_id, role: "contributor" as const, scopes: [], ttl: Option.none<Duration.Duration>() }
  yield* tokens.issue(request, secret)
  return { token_id: secret.token_id, token: secret.token }
})

/** An OAuth client that is allowed `mobile:devices`. */
export const makeApp = ({ services }: Instance, scopes: ReadonlyArray<Scope> = ["mobile:devices", "tasks:read"]) =>
  Effect.map(
    Context.get(services, Clients).create({
      name: "Companion",
      redirect_uris: [redirectUri],
      application_type: "native",
      scopes
    }),
    ({ client_id }) => client_id
  )

export const signIn = Effect.fnUntraced(function* (
  { services }: Instance,
  {
    client_id,
    label,
    token
  }: { readonly client_id: string; readonly token: Redacted.Redacted<string>; readonly label?: string }
) {
  const cookie = Redacted.make(randomBytes(32).toString("base64url"))
  const browser = Option.some(cookie)
  const verifier = randomBytes(32).toString("base64url")
  const query = new URLSearchParams({
    response_type: "code",
    client_id,
    redirect_uri: redirectUri,
    state: randomUUID(),
    scope: "mobile:devices tasks:read",
    code_challenge: createHash("sha256").update(verifier).digest("base64url"),
    code_challenge_method: "S256"
  })
  const { request_id } = yield* Context.get(services, Authorize).begin(`${query}`, cookie)
  const consent = Context.get(services, Consent)
  const { csrf } = yield* consent.show({ request_id, browser })
  const bound = { request_id, browser: Option.some(yield* consent.enterToken({ request_id, browser, csrf, token })) }
  const shown = yield* consent.show(bound)
  const location = new URL(yield* consent.decide({ ...bound, csrf: shown.csrf, decision: "allow", label }))
  return yield* Context.get(services, Codes).exchange({
    client_id,
    code: Redacted.make(location.searchParams.get("code")!),
    verifier,
    redirect_uri: redirectUri
  })
})

/** A person signed in on a phone, in a new project unless one is given. */
export const makePerson = Effect.fnUntraced(function* (on: Instance, options: { readonly project_id?: string } = {}) {
  const project_id = options.project_id ?? (yield* makeProject(on))
  const client_id = yield* makeApp(on)
  const subject = yield* makeSubject(on, project_id)
  const signedIn = yield* signIn(on, { client_id, token: subject.token })
  return {
    project_id,
    client_id,
    subject: subject.token_id,
    project_token: subject.token,
    bearer: Redacted.value(signedIn.access_token),
    refresh_token: signedIn.refresh_token!
  }
})
export type Person = Effect.Success<ReturnType<typeof makePerson>>
