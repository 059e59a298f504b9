/**
 * The consent boundary (spec 4.10): a person enters a project token, sees what the client will be able to do, and decides.
 *
 * 1. The token only selects the project and the role. The request stores the token's id, never the token. Entering it
 *    renews the cookie that binds the request to the browser. An open console session may stand for its token
 *    (decisions.md, Sessions of the console), and so may a passkey: the request stores the id of either, and Allow needs it
 *    to be in force still.
 * 2. The scopes are limited to those of the token. The person may take the writing ones away and name the sign-in; the
 *    grant holds exactly what the page showed and the person left. If another token was entered in another tab
 *    meanwhile, Allow shows the page again instead.
 * 3. The client is found again at each step: one that was disabled meanwhile is refused. Its document's host may take seconds
 *    to answer, and no step holds a turn for a connection meanwhile.
 * 4. Allow creates the grant and its code in one transaction. Until the client exchanges the code, another click replaces
 *    it with a new code of the same grant, which then holds what that click chose, because the browser follows only its
 *    last click (decisions.md, Pressing Allow twice).
 */
import { findSecret } from "../../../platform/secrets/Secrets.ts"
import { Context, Data, type Duration, Effect, Layer, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Audit } from "../../../platform/audit/Audit.ts"
import { Settings } from "../../../platform/settings/Settings.ts"
import { uuidAt } from "../../../platform/crypto/Random.ts"
import { sha256 } from "../../../platform/crypto/Sha256.ts"
import * as Tokens from "../../../platform/crypto/Tokens.ts"
import { DatabaseClock } from "../../../platform/database/Clock.ts"
import { sharedPersistence, untilSettled } from "../../../platform/database/Persistence.ts"
import { inTurn } from "../../../platform/database/Shares.ts"
import { bucketsIn } from "../../../platform/edge/limits/RateLimit.ts"
import { Outbox } from "../../../push/outbox/Outbox.ts"
import { type PasskeyAnswer, PersonKeys, type WrongKey } from "../../passkeys/PersonKeys.ts"
import { reportAgentToken, Sessions } from "../../sessions/Sessions.ts"
import type { SharedRefusal } from "../../../wire/Errors.ts"
import { after } from "../../../wire/Instant.ts"
import { isWrite, type Role, type Scope } from "../../../wire/Scopes.ts"
import * as Store from "../authorize/AuthorizationRequestStore.ts"
import * as GrantStore from "../grants/GrantStore.ts"
import { displayName } from "../clients/ClientMetadata.ts"
import { Clients, type FoundClient } from "../clients/Clients.ts"
import { matches, withResponse } from "../clients/RedirectUri.ts"
import type { Client } from "../clients/Shapes.ts"
import { refuse } from "../Errors.ts"
import {
  checkCsrf,
  ConsentEnded,
  consentPath,
  openRequest,
  renewed,
  type Submission,
  type Visit
} from "./BrowserBinding.ts"

/** One answer for every value that is not a valid project token: unknown, expired, revoked or malformed. */
export class WrongToken extends Data.TaggedError("WrongToken")<{ readonly page: ConsentPage }> {}

/** The console session that the page offered has ended, or the browser has another one by now. */
export class SessionOver extends Data.TaggedError("SessionOver")<{ readonly page: ConsentPage }> {}

/** The passkey that the person used does not stand for a token. */
export class WrongPasskey extends Data.TaggedError("WrongPasskey")<{
  readonly page: ConsentPage
  readonly reason: WrongKey["reason"]
}> {}

/** The project token was entered too often, or what it grants was changed too often, or too many tokens were wrong. */
export class TooManySignIns extends Data.TaggedError("TooManySignIns")<{ readonly retryAfter: number }> {}

/** The person entered a token of this service where the name of the sign-in belongs. It is not kept. */
export class WrongLabel extends Data.TaggedError("WrongLabel")<{ readonly page: ConsentPage }> {}

export interface ConsentPage {
  readonly request_id: string
  readonly csrf: string
  readonly client: Pick<FoundClient, "client_id" | "name" | "kind" | "is_copy">
  readonly redirect_uri: string
  readonly scopes: ReadonlyArray<Scope>
  readonly resource: string
  /** How long the grant lasts without use. */
  readonly idle: Duration.Duration
  /** Where its person ends it; undefined without the console. */
  readonly endedAt: string | undefined
  /** Undefined until a token was entered; the page then asks for one. */
  readonly project:
    | { readonly token_id: string; readonly name: string; readonly role: Role; readonly until: Date }
    | undefined
}

interface Decision extends Submission {
  readonly decision: "allow" | "deny"
  /** The project token of the page that the person saw; omitted by programs that never loaded the page. */
  readonly token_id?: string | undefined
  /** `read` takes the writing scopes away. */
  readonly access?: "read" | "write" | undefined
  /** What the person calls the sign-in. */
  readonly label?: string | undefined
}

type Unavailable = SharedRefusal<"bridge_persistence_error">

/** How many characters of a label are searched for a secret. 64 are kept. */
const searchedOfLabel = 1000

/** Of one project token. Each entry may become a grant, and each change of a choice leaves an audit row: both stay for weeks. */
const signInRate = { perSecond: 1 / 6, burst: 150 }

/** Of one project token. A sign-in beyond ends the one that was used least recently, as with sessions of the console. */
const mostGrants = 200

export class Consent extends Context.Service<
  Consent,
  {
    readonly show: (visit: Visit) => Effect.Effect<ConsentPage, ConsentEnded | Unavailable>
    /** Enters a project token. Returns the value of the request's new cookie; the old one is worthless from now on. */
    readonly enterToken: (
      visit: Submission & { readonly token: Redacted.Redacted<string> }
    ) => Effect.Effect<Redacted.Redacted<string>, ConsentEnded | TooManySignIns | WrongToken | Unavailable>
    /** The same, with the console session of the browser for the token. `session_id` is the one that the page named. */
    readonly useSession: (
      visit: Submission & { readonly session_id: string; readonly secret: Redacted.Redacted<string> }
    ) => Effect.Effect<Redacted.Redacted<string>, ConsentEnded | TooManySignIns | SessionOver | Unavailable>
    /** The same, with a passkey. It opens no session. */
    readonly usePasskey: (
      visit: Submission & { readonly answer: PasskeyAnswer }
    ) => Effect.Effect<Redacted.Redacted<string>, ConsentEnded | TooManySignIns | WrongPasskey | Unavailable>
    /** Returns the address to redirect the browser to. */
    readonly decide: (
      visit: Decision
    ) => Effect.Effect<string, ConsentEnded | TooManySignIns | WrongLabel | Unavailable>
  }
>()("service/oauth/Consent") {
  static readonly layer = Layer.effect(
    Consent,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const audit = yield* Audit
      const outbox = yield* Outbox
      const clients = yield* Clients
      const sessions = yield* Sessions
      const keys = yield* PersonKeys
      const settings = yield* Settings
      const { access, authUrl, baseUrl, console, oauth, resource } = settings
      const endedAt = console.enabled ? `${baseUrl.origin}/console/apps` : undefined
      const signIns = bucketsIn(settings)(signInRate)
      const countSignIn = (token_id: string) =>
        Effect.flatMap(signIns.take(token_id), (wait) =>
          wait === 0 ? Effect.void : new TooManySignIns({ retryAfter: wait })
        )
      const store = Store.make(sql)
      const grants = GrantStore.make(sql)

      const find = openRequest((request_id, now) => inTurn(store.find(request_id, now)))
      const lock = openRequest(store.lock)

      /** The client of a request as it is now: enabled, and with the redirect URI to which the answer will go. */
      const clientOf = Effect.fnUntraced(function* ({ client_id, redirect_uri }: Store.Request) {
        const found = yield* clients
          .find(client_id)
          .pipe(Effect.catchTag("DocumentUnavailable", () => new ConsentEnded({ reason: "client_unavailable" })))
        const client = Option.filter(found, ({ redirect_uris }) => matches(redirect_uri, redirect_uris))
        return Option.isSome(client) ? client.value : yield* new ConsentEnded({ reason: "unknown_client" })
      })

      const pageOf = (
        { client_id, is_copy = false, kind, name }: FoundClient,
        request: Store.Request,
        csrf: string,
        now: Date
      ): ConsentPage => ({
        request_id: request.request_id,
        csrf,
        client: { client_id, name, kind, is_copy },
        redirect_uri: request.redirect_uri,
        resource,
        idle: oauth.refreshIdleTtl,
        endedAt,
        scopes: request.project_id === null ? request.scopes : grantable(request),
        project:
          request.project_id === null
            ? undefined
            : {
                token_id: request.project_token_id!,
                name: request.project_name!,
                role: request.role!,
                until: grantExpiry(request, now)
              }
      })

      /** A grant never outlives its project token. */
      const grantExpiry = ({ token_expires_at }: Store.Request, now: Date) => {
        const latest = after(now, oauth.refreshMaxTtl)
        return token_expires_at !== null && token_expires_at < latest ? token_expires_at : latest
      }

      const show = Effect.fn("Consent.show")(function* (visit: Visit) {
        const now = yield* clock.now
        const { csrf, request } = yield* find(visit, now)
        if (request.decided_at !== null) return yield* new ConsentEnded({ reason: "answered" })
        return pageOf(yield* clientOf(request), request, csrf, now)
      }, sharedPersistence)

      /**
       * Binds the request to what the secret stands for and renews the cookie. If `found` is none, fails as `otherwise`
       * says, with the page that asks again.
       */
      const bind = <FindError, AskError>(
        visit: Submission,
        secret: Redacted.Redacted<string>,
        found: (now: Date) => Effect.Effect<Option.Option<Store.Bearer>, FindError>,
        otherwise: (page: ConsentPage) => Effect.Effect<never, AskError>
      ) =>
        Effect.gen(function* () {
          const now = yield* clock.now
          const browser = renewed(visit, secret)
          const attempt = Effect.gen(function* () {
            const { csrf, isRepeated, request } = yield* find(visit, now).pipe(
              Effect.map((opened) => ({ ...opened, isRepeated: false })),
              // A form that is sent twice: the first one has renewed the cookie.
              Effect.catchTag("ConsentEnded", (ended) =>
                ended.reason === "other_browser" && Option.isSome(browser)
                  ? Effect.map(find({ ...visit, browser }, now), (opened) => ({ ...opened, isRepeated: true }))
                  : ended
              )
            )
            yield* checkCsrf(visit)
            if (request.decided_at !== null) return yield* new ConsentEnded({ reason: "answered" })
            if (isRepeated) return browser
            const client = yield* clientOf(request)
            const binding = Effect.gen(function* () {
              const bearer = yield* found(now)
              if (Option.isNone(bearer) || Option.isNone(browser)) {
                return yield* otherwise(pageOf(client, { ...request, project_id: null }, csrf, now))
              }
              yield* countSignIn(bearer.value.token_id)
              const bound = yield* store.bindToken(request, bearer.value, sha256(Redacted.value(browser.value)))
              return Option.as(bound, browser.value)
            })
            return yield* inTurn(binding)
          })
          return yield* untilSettled(attempt)
        })

      const enterToken = Effect.fn("Consent.enterToken")(function* (
        visit: Submission & { readonly token: Redacted.Redacted<string> }
      ) {
        const { request_id, token } = visit
        const found = Effect.fnUntraced(function* (now: Date) {
          if (!Tokens.isToken("spt", Redacted.value(token))) return Option.none()
          const entered = yield* store.findToken(Tokens.hash(token), now)
          if (Option.isNone(entered)) return Option.none()
          if (entered.value.opens_console) {
            return Option.some({ token_id: entered.value.token_id, session_id: null, person_key_id: null })
          }
          yield* reportAgentToken(audit, clock, entered.value)
          return Option.none()
        })
        const wrong = (page: ConsentPage) => Effect.andThen(store.countWrongToken(request_id), new WrongToken({ page }))
        return yield* bind(visit, token, found, wrong)
      }, sharedPersistence)

      const useSession = Effect.fn("Consent.useSession")(function* (
        visit: Submission & { readonly session_id: string; readonly secret: Redacted.Redacted<string> }
      ) {
        const { secret, session_id } = visit
        const found = () =>
          Effect.map(
            sessions.find(secret),
            Option.flatMap((session) =>
              session.session_id === session_id && session.token !== undefined
                ? Option.some({ token_id: session.token.token_id, session_id, person_key_id: session.person_key_id })
                : Option.none()
            )
          )
        return yield* bind(visit, secret, found, (page) => new SessionOver({ page }))
      }, sharedPersistence)

      /** The answer of the authenticator renews the cookie: nobody else can know its signature. */
      const usePasskey = Effect.fn("Consent.usePasskey")(function* (
        visit: Submission & { readonly answer: PasskeyAnswer }
      ) {
        const { answer } = visit
        const found = () => Effect.map(keys.identify(answer), (key) => Option.some({ ...key, session_id: null }))
        return yield* bind(visit, answer.credential, found, Effect.die).pipe(
          Effect.catchTag("WrongKey", ({ reason }) =>
            Effect.flatMap(show(visit), (page) => new WrongPasskey({ page: { ...page, project: undefined }, reason }))
          )
        )
      }, sharedPersistence)

      /** Finds the client before the transaction, because its metadata document may have to be fetched. */
      const decide = Effect.fn("Consent.decide")(function* (visit: Decision) {
        if (visit.decision === "deny") return yield* inTurn(decideFor(visit, Option.none()))
        const now = yield* clock.now
        const { csrf, request } = yield* find(visit, now)
        const client = yield* clientOf(request)
        if (findSecret((visit.label ?? "").slice(0, searchedOfLabel), now) !== undefined) {
          return yield* new WrongLabel({ page: pageOf(client, request, csrf, now) })
        }
        return yield* inTurn(decideFor(visit, Option.some(client)))
      }, sharedPersistence)

      /** `client` is not needed to deny. */
      const decideFor = Effect.fnUntraced(function* (visit: Decision, client: Option.Option<Client>) {
        const now = yield* clock.now
        const { request } = yield* lock(visit, now)
        // A token that was entered in another tab has renewed the cookie, and with it the CSRF value.
        const { project_token_id } = request
        if (project_token_id !== null && (visit.token_id ?? project_token_id) !== project_token_id) {
          return consentPath(request.request_id)
        }
        yield* checkCsrf(visit)
        const respond = (response: Readonly<Record<string, string>>) =>
          withResponse(request.redirect_uri, { ...response, state: request.state ?? undefined, iss: authUrl.origin })
        const { _tag: error, message: error_description } = refuse("access_denied")
        const denied = respond({ error, error_description })

        if (request.decided_at !== null && (request.grant_id === null) !== (visit.decision === "deny")) {
          return yield* new ConsentEnded({ reason: "answered" })
        }
        if (Option.isNone(client)) {
          if (request.decided_at === null) yield* recordDenial(request, now)
          return denied
        }
        if (request.project_id === null) return yield* new ConsentEnded({ reason: "expired" })
        const chosen = {
          scopes: grantable(request).filter((scope) => visit.access !== "read" || !isWrite(scope)),
          label: displayName(visit.label ?? "") || null
        }
        if (chosen.scopes.length === 0) {
          yield* recordDenial(request, now)
          return denied
        }

        if (request.grant_id !== null) yield* reviseGrant(request, chosen, now)
        const grant_id = request.grant_id ?? (yield* makeGrant(request, client.value, chosen, now))
        const code = yield* Tokens.mint("sac")
        const placed = yield* store.replaceCode(
          grant_id,
          {
            code_hash: Tokens.hash(code),
            code_challenge: request.code_challenge,
            dpop_jkt: request.dpop_jkt,
            expires_at: after(now, oauth.codeTtl)
          },
          now
        )
        if (Option.isNone(placed)) return yield* new ConsentEnded({ reason: "answered" })
        return respond({ code: Redacted.value(code) })
      }, sql.withTransaction)

      type Chosen = Parameters<typeof makeGrant>[2]

      const reviseGrant = Effect.fnUntraced(function* (request: Store.Request, chosen: Chosen, now: Date) {
        const grant_id = request.grant_id!
        const revised = yield* store.reviseGrant({ ...chosen, grant_id })
        if (Option.isNone(revised)) return
        yield* countSignIn(request.project_token_id!)
        yield* audit.done(now, {
          action: "oauth_grant.revised",
          project_id: request.project_id,
          actor: `project_token:${request.project_token_id}`,
          subject: { grant_id, client_id: request.client_id }
        })
      })

      const recordDenial = Effect.fnUntraced(function* (request: Store.Request, now: Date) {
        yield* store.decide(request.request_id, null, now)
        if (request.project_id === null) return
        yield* audit.done(now, {
          action: "oauth_grant.denied",
          project_id: request.project_id,
          actor: `project_token:${request.project_token_id}`,
          subject: { client_id: request.client_id }
        })
      })

      /** For one more grant of the project token. */
      const makeRoom = Effect.fnUntraced(function* ({ project_id, project_token_id }: Store.Request, now: Date) {
        const ended = yield* grants.endBeyond(project_token_id!, mostGrants - 1, now)
        yield* Effect.forEach(ended, ({ grant_id }) =>
          audit.done(now, {
            action: "oauth_grant.revoked",
            project_id,
            actor: `project_token:${project_token_id}`,
            subject: { grant_id }
          })
        )
      })

      const makeGrant = Effect.fnUntraced(function* (
        request: Store.Request,
        client: Client,
        chosen: { readonly scopes: ReadonlyArray<Scope>; readonly label: string | null },
        now: Date
      ) {
        const kept = yield* store.keepClient(client, now)
        if (kept.length === 0) return yield* new ConsentEnded({ reason: "unknown_client" })
        const grant_id = yield* uuidAt(now)
        const grant = {
          grant_id,
          ...chosen,
          resource,
          instance_id: access.instanceId,
          expires_at: grantExpiry(request, now)
        }
        // Sign-ins with one token wait for each other from here on, so that none ends what another one has just ended.
        yield* store.touchToken(request.project_token_id!, now)
        yield* makeRoom(request, now)
        yield* store.insertGrant(request.request_id, grant, now)
        yield* store.decide(request.request_id, grant_id, now)
        yield* audit.done(now, {
          action: "oauth_grant.created",
          project_id: request.project_id,
          actor: `project_token:${request.project_token_id}`,
          subject: {
            grant_id,
            client_id: request.client_id,
            ...(request.person_key_id !== null && { person_key_id: request.person_key_id })
          }
        })
        const { project_id, project_token_id } = request
        yield* outbox.enqueue(now, {
          kind: "security.client_authorized",
          event_id: grant_id,
          project_id: project_id!,
          about: grant_id,
          subject: project_token_id!
        })
        return grant_id
      })

      return { show, enterToken, useSession, usePasskey, decide }
    })
  )
}

/** The requested scopes that the token has. `mobile:devices` depends only on the client, which /authorize has checked. */
const grantable = ({ scopes, token_scopes }: Store.Request): ReadonlyArray<Scope> =>
  scopes.filter((scope) => scope === "mobile:devices" || token_scopes!.includes(scope))
