/**
 * The OAuth clients (spec 4.10, 4.13). All are public, and there are three kinds: created by an operator, registered by
 * the client itself (RFC 7591, if enabled), or known by the URL of its metadata document.
 *
 * The ids of the first two are `sci_` tokens with a checksum, so a mistyped id is rejected without a query.
 */
import { Context, Effect, Layer, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Audit } from "../../../platform/audit/Audit.ts"
import * as Tokens from "../../../platform/crypto/Tokens.ts"
import { DatabaseClock } from "../../../platform/database/Clock.ts"
import { persistence, sharedPersistence } from "../../../platform/database/Persistence.ts"
import { inTurn } from "../../../platform/database/Shares.ts"
import { expanded, type Scope } from "../../../wire/Scopes.ts"
import { ClientDocuments } from "./ClientDocuments.ts"
import { displayName, readMetadata, selfServiceScopes } from "./ClientMetadata.ts"
import * as Store from "./ClientStore.ts"
import { type DocumentUnavailable, isDocumentUrl } from "./fetchDocument.ts"
import { type OAuthOperatorRefusal, type OAuthRefusal, refuse, refuseOperator } from "../Errors.ts"
import { isAcceptable } from "./RedirectUri.ts"
import type { ApplicationType, Client, ClientMetadata } from "./Shapes.ts"
import type { Page } from "../../../platform/sql/Page.ts"
import { CurrentOperator } from "../../../platform/settings/Operator.ts"

/** `is_copy`: of a document's client, whose host could not be asked; the metadata is the copy of the release. */
export type FoundClient = Client & { readonly is_copy?: boolean }

/** A client as the operator's command creates it. With an id, a client that has it already is left as it is and returned. */
export interface NewClient {
  readonly client_id?: string
  readonly name: string
  readonly redirect_uris: ReadonlyArray<string>
  readonly application_type: ApplicationType | undefined
  /** Empty: all but `mobile:devices`. */
  readonly scopes: ReadonlyArray<Scope>
}

type Unavailable = OAuthOperatorRefusal<"bridge_persistence_error">

export class Clients extends Context.Service<
  Clients,
  {
    /** None: unknown or disabled. */
    readonly find: (client_id: string) => Effect.Effect<Option.Option<FoundClient>, Unavailable | DocumentUnavailable>
    /** Fails for an unknown or disabled client. /token and /revoke thus reveal only whether a client id exists. */
    readonly requireKnown: (client_id: string) => Effect.Effect<void, Unavailable | OAuthRefusal<"invalid_client">>
    /** Registers any caller (RFC 7591), with the scopes that need no operator. */
    readonly register: (
      document: unknown
    ) => Effect.Effect<
      Client & { readonly created_at: Date },
      Unavailable | OAuthRefusal<"invalid_redirect_uri" | "invalid_client_metadata" | "unapproved_software_statement">
    >
    readonly create: (
      client: NewClient
    ) => Effect.Effect<
      Pick<Client, "client_id" | "name" | "redirect_uris" | "application_type" | "scopes">,
      Unavailable | OAuthOperatorRefusal<"redirect_uri_not_allowed">
    >
    /** By id. */
    readonly list: (page: Page) => Effect.Effect<ReadonlyArray<Store.ListedClient>, Unavailable>
    /** Also ends the client's grants and returns their ids. A document's client need not have a row yet. Idempotent. */
    readonly disable: (
      client_id: string
    ) => Effect.Effect<
      { readonly disabled_at: Date; readonly grant_ids: ReadonlyArray<string> },
      Unavailable | OAuthOperatorRefusal<"oauth_client_not_found">
    >
  }
>()("service/oauth/Clients") {
  static readonly layer = Layer.effect(
    Clients,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const audit = yield* Audit
      const documents = yield* ClientDocuments
      const store = Store.make(sql)

      const find = Effect.fn("Clients.find")(function* (client_id: string) {
        const isDocument = client_id.startsWith("https://")
        if (!isDocument && !Tokens.isToken("sci", client_id)) return Option.none()
        // The document's host may take seconds to answer: nobody waits for the connection meanwhile.
        const stored = yield* inTurn(store.find(client_id))
        if (Option.isSome(stored) && stored.value.disabled_at !== null) return Option.none()
        if (!isDocument) return stored
        const metadata = yield* documents.find({ client_id, isKnown: Option.isSome(stored) })
        return Option.map(metadata, (declared) => ({
          ...declared,
          client_id,
          kind: "document" as const,
          scopes: selfServiceScopes
        }))
      }, sharedPersistence)

      const requireKnown = Effect.fn("Clients.requireKnown")(function* (client_id: string) {
        const found = yield* store.find(client_id)
        if (Option.isNone(found) || found.value.disabled_at !== null) return yield* refuse("invalid_client")
      }, persistence)

      const insert = Effect.fnUntraced(function* (
        kind: "operator" | "dynamic",
        metadata: ClientMetadata,
        scopes: ReadonlyArray<Scope>,
        id?: string
      ) {
        const created_at = yield* clock.now
        const client_id = id ?? Redacted.value(yield* Tokens.mint("sci"))
        const client = { ...metadata, client_id, kind, scopes, created_at }
        if (Option.isNone(yield* store.insert(client))) return Option.getOrThrow(yield* store.find(client_id))
        yield* audit.done(created_at, {
          action: kind === "dynamic" ? "oauth_client.registered" : "oauth_client.created",
          project_id: null,
          actor: kind === "dynamic" ? `oauth_client:${client_id}` : yield* CurrentOperator,
          subject: { client_id }
        })
        return client
      })

      const register = Effect.fn("Clients.register")(
        function* (document: unknown) {
          const metadata = yield* Effect.fromResult(readMetadata(document))
          return yield* insert("dynamic", { ...metadata, name: metadata.name || "Unnamed client" }, selfServiceScopes)
        },
        sql.withTransaction,
        persistence
      )

      const create = Effect.fn("Clients.create")(
        function* (order: NewClient) {
          if (!order.redirect_uris.every((uri) => isAcceptable(uri, order.application_type))) {
            return yield* refuseOperator("redirect_uri_not_allowed")
          }
          const metadata = {
            name: displayName(order.name) || "Unnamed client",
            redirect_uris: order.redirect_uris,
            application_type: order.application_type ?? null,
            grant_types: ["authorization_code", "refresh_token"] as const
          }
          const allowed = order.scopes.length === 0 ? selfServiceScopes : expanded(order.scopes)
          const created = yield* insert("operator", metadata, allowed, order.client_id)
          const { application_type, client_id, name, redirect_uris, scopes } = created
          return { client_id, name, redirect_uris, application_type, scopes }
        },
        sql.withTransaction,
        persistence
      )

      const list = Effect.fn("Clients.list")(function* (page: Page) {
        return yield* store.list(page, yield* clock.now)
      }, persistence)

      const disable = Effect.fn("Clients.disable")(
        function* (client_id: string) {
          const now = yield* clock.now
          const disabled = yield* isDocumentUrl(client_id)
            ? store.disableDocument(client_id, displayName(new URL(client_id).hostname), now)
            : store.disable(client_id, now)
          if (Option.isNone(disabled)) return yield* refuseOperator("oauth_client_not_found")
          const { disabled_at, first } = disabled.value
          const grants = yield* store.endGrants(client_id, now)
          if (first) {
            yield* audit.done(now, {
              action: "oauth_client.disabled",
              project_id: null,
              actor: yield* CurrentOperator,
              subject: { client_id }
            })
          }
          return { disabled_at, grant_ids: grants.map(({ grant_id }) => grant_id) }
        },
        sql.withTransaction,
        persistence
      )

      return { find, requireKnown, register, create, list, disable }
    })
  )
}
