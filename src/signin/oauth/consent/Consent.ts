/**
 * The consent boundary (spec 4.10): a person shows a project token, sees what it would give away, and decides.
 *
 * 1. The token is used solely to pick the project and its role: the request keeps the token's id, nobody keeps the token.
 * 2. Scopes are cut to what the token has. What the page shows is what the grant will hold: where another tab has shown
 *    another token since, the page comes again instead.
 * 3. Allowing makes the grant and its code in one transaction. A second click gets a new code for the same grant, as
 *    long as the client has not fetched the first: the browser only follows its last click.
 */
import { Context, Data, type Duration, Effect, Layer, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Audit } from "../../../platform/audit/Audit.ts"
import { Settings } from "../../../platform/settings/Settings.ts"
import { uuidAt } from "../../../platform/crypto/Random.ts"
import * as Tokens from "../../../platform/crypto/Tokens.ts"
import { DatabaseClock } from "../../../platform/database/Clock.ts"
import { persistence } from "../../../platform/database/Persistence.ts"
import { Outbox } from "../../../push/outbox/Outbox.ts"
import type { SharedRefusal } from "../../../wire/Errors.ts"
import { after } from "../../../wire/Instant.ts"
import { type Role, type Scope } from "../../../wire/Scopes.ts"
import { refuse } from "../Errors.ts"
import { withAnswer } from "../clients/RedirectUri.ts"
import { resourceOf } from "../metadata/Resource.ts"
import * as Store from "../authorize/RequestStore.ts"
import { addressOf, ConsentEnded, opened, type Submission, submitted, type Visit } from "../authorize/Visits.ts"

/** Unknown, expired, revoked, mistyped or no project token at all: one answer. */
export class WrongToken extends Data.TaggedError("WrongToken")<{ readonly page: ConsentPage }> {}

export interface ConsentPage {
  readonly request_id: string
  readonly csrf: string
  readonly client: {
    readonly client_id: string
    readonly name: string
    readonly kind: "operator" | "dynamic" | "document"
  }
  readonly redirect_uri: string
  readonly scopes: ReadonlyArray<Scope>
  readonly resource: string
  /** How long access lasts without use. */
  readonly idle: Duration.Duration
  /** Until a token was shown there is only the question for one. */
  readonly project:
    | { readonly token_id: string; readonly name: string; readonly role: Role; readonly until: Date }
    | undefined
}

interface Decision extends Submission {
  readonly decision: "allow" | "deny"
  /** The project token of the page that the person saw; agents that never loaded it leave it out. */
  readonly token_id?: string | undefined
}

type Lost = SharedRefusal<"bridge_persistence_error">

export class Consent extends Context.Service<
  Consent,
  {
    readonly show: (visit: Visit) => Effect.Effect<ConsentPage, ConsentEnded | Lost>
    readonly present: (
      visit: Submission & { readonly token: Redacted.Redacted<string> }
    ) => Effect.Effect<void, ConsentEnded | WrongToken | Lost>
    /** Answers where to send the browser. */
    readonly decide: (visit: Decision) => Effect.Effect<string, ConsentEnded | Lost>
  }
>()("service/oauth/Consent") {
  static readonly layer = Layer.effect(
    Consent,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const audit = yield* Audit
      const outbox = yield* Outbox
      const { access, authUrl, baseUrl, oauth } = yield* Settings
      const store = Store.make(sql)

      const find = opened(store.find)
      const lock = opened(store.lock)

      const pageOf = (request: Store.Request, csrf: string, now: Date): ConsentPage => ({
        request_id: request.request_id,
        csrf,
        client: { client_id: request.client_id, name: request.client.name, kind: request.client.kind },
        redirect_uri: request.redirect_uri,
        resource: resourceOf(baseUrl.origin),
        idle: oauth.refreshIdleTtl,
        scopes: request.project_id === null ? request.scopes : cut(request),
        project:
          request.project_id === null
            ? undefined
            : {
                token_id: request.project_token_id!,
                name: request.project_name!,
                role: request.role!,
                until: endOf(request, now)
              }
      })

      /** Never beyond the life of the project token. */
      const endOf = ({ token_expires_at }: Store.Request, now: Date) => {
        const most = after(now, oauth.refreshMaxTtl)
        return token_expires_at !== null && token_expires_at < most ? token_expires_at : most
      }

      const show = Effect.fn("Consent.show")(function* (visit: Visit) {
        const now = yield* clock.now
        const { csrf, request } = yield* find(visit, now)
        if (request.decided_at !== null) return yield* new ConsentEnded({ reason: "answered" })
        return pageOf(request, csrf, now)
      }, persistence)

      const present = Effect.fn("Consent.present")(function* (
        visit: Submission & { readonly token: Redacted.Redacted<string> }
      ) {
        const now = yield* clock.now
        const { csrf, request } = yield* find(visit, now)
        yield* submitted(visit, csrf)
        if (request.decided_at !== null) return yield* new ConsentEnded({ reason: "answered" })
        const found = Tokens.isToken("spt", Redacted.value(visit.token))
          ? yield* store.findToken(Tokens.hash(visit.token), now)
          : Option.none()
        if (Option.isNone(found)) {
          yield* store.countWrong(request.request_id)
          return yield* new WrongToken({ page: pageOf({ ...request, project_id: null }, csrf, now) })
        }
        yield* store.bindToken(request.request_id, found.value.token_id)
      }, persistence)

      const decide = Effect.fn("Consent.decide")(
        function* (visit: Decision) {
          const now = yield* clock.now
          const { csrf, request } = yield* lock(visit, now)
          yield* submitted(visit, csrf)
          const answered = (answer: Readonly<Record<string, string>>) =>
            withAnswer(request.redirect_uri, { ...answer, state: request.state ?? undefined, iss: authUrl.origin })
          const { _tag: error, message: error_description } = refuse("access_denied")
          const denied = answered({ error, error_description })

          if (request.decided_at !== null && (request.grant_id === null) !== (visit.decision === "deny")) {
            return yield* new ConsentEnded({ reason: "answered" })
          }
          if (visit.decision === "deny") {
            if (request.decided_at === null) yield* refuseClient(request, now)
            return denied
          }
          if (request.project_id === null) return yield* new ConsentEnded({ reason: "expired" })
          if ((visit.token_id ?? request.project_token_id) !== request.project_token_id)
            return addressOf(request.request_id)
          if (cut(request).length === 0) {
            yield* refuseClient(request, now)
            return denied
          }

          const grant_id = request.grant_id ?? (yield* makeGrant(request, now))
          const code = yield* Tokens.mint("sac")
          const placed = yield* store.replaceCode(
            grant_id,
            {
              code_hash: Tokens.hash(code),
              code_challenge: request.code_challenge,
              expires_at: after(now, oauth.codeTtl)
            },
            now
          )
          if (Option.isNone(placed)) return yield* new ConsentEnded({ reason: "answered" })
          return answered({ code: Redacted.value(code) })
        },
        sql.withTransaction,
        persistence
      )

      const refuseClient = Effect.fnUntraced(function* (request: Store.Request, now: Date) {
        yield* store.decide(request.request_id, null, now)
        if (request.project_id === null) return
        yield* audit.done(now, {
          action: "oauth_grant.denied",
          project_id: request.project_id,
          actor: `project_token:${request.project_token_id}`,
          subject: { client_id: request.client_id }
        })
      })

      const makeGrant = Effect.fnUntraced(function* (request: Store.Request, now: Date) {
        const kept = yield* store.keepClient(request.client_id, request.client, now)
        if (kept.length === 0) return yield* new ConsentEnded({ reason: "unknown" })
        const grant_id = yield* uuidAt(now)
        const grant = {
          grant_id,
          scopes: cut(request),
          resource: resourceOf(baseUrl.origin),
          instance_id: access.instanceId,
          expires_at: endOf(request, now)
        }
        yield* store.insertGrant(request.request_id, grant, now)
        yield* store.touchToken(request.project_token_id!, now)
        yield* store.decide(request.request_id, grant_id, now)
        yield* audit.done(now, {
          action: "oauth_grant.created",
          project_id: request.project_id,
          actor: `project_token:${request.project_token_id}`,
          subject: { grant_id, client_id: request.client_id }
        })
        const { project_id } = request
        yield* outbox.enqueue(now, {
          kind: "security.client_authorized",
          event_id: grant_id,
          project_id: project_id!,
          about: grant_id
        })
        return grant_id
      })

      return { show, present, decide }
    })
  )
}

/** What the token has of what was asked; `mobile:devices` depends on the client alone, whose scopes were cut before. */
const cut = ({ scopes, token_scopes }: Store.Request): ReadonlyArray<Scope> =>
  scopes.filter((scope) => scope === "mobile:devices" || token_scopes!.includes(scope))
