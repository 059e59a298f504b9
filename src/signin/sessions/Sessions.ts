/**
 * Sessions of the console (decisions.md, Sessions of the console): a browser that signed in with a project token stands
 * for that token, one that used the link of `open-console` stands for an operator.
 *
 * 1. The cookie holds 256 random bits; the database stores their hash. Each sign-in makes a new session.
 * 2. A session ends after 12 hours without use, after 7 days (an operator's after 8 hours), when its person signs out, and
 *    with its token and project: each look-up checks them.
 * 3. A form carries a value derived from the cookie, which no other site can know.
 * 4. A passkey of the token (passkeys/PersonKeys.ts) opens a session like the token, which also ends with the passkey.
 */
import { Context, Data, Duration, Effect, Layer, Option, Redacted } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { maximumOf, type OwnLimits } from "../../operator/limits/LimitNames.ts"
import { Audit } from "../../platform/audit/Audit.ts"
import { deriveFrom } from "../../platform/crypto/Derivation.ts"
import { uuidAt } from "../../platform/crypto/Random.ts"
import { equal, sha256 } from "../../platform/crypto/Sha256.ts"
import * as Tokens from "../../platform/crypto/Tokens.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import type { Page } from "../../platform/sql/Page.ts"
import type { SharedRefusal } from "../../wire/Errors.ts"
import { Caller } from "../../wire/Headers.ts"
import { after, secondsUntil } from "../../wire/Instant.ts"
import type { Role, Scope } from "../../wire/Scopes.ts"
import { refuse, type SessionRefusal } from "./Errors.ts"
import * as Store from "./SessionStore.ts"

const longest = Duration.days(7)
const operatorsLongest = Duration.hours(8)
const linkTtl = Duration.minutes(5)
/** A visit has ended when nobody used the session for this long. */
const visitGap = Duration.minutes(30)
/** Milliseconds. `last_used_at` is written at most once in this time. */
const lastUsedPrecision = 60_000

/** The project and rights of a session's token. */
export interface SessionToken {
  readonly token_id: string
  readonly label: string | null
  readonly project_id: string
  readonly project_name: string
  readonly role: Role
  readonly scopes: ReadonlySet<Scope>
  /** The project's limits that differ from the defaults, by name. */
  readonly limits: OwnLimits
}

export interface Session {
  readonly session_id: string
  /** Who opened it, as audit rows name them. */
  readonly actor: string
  /** Undefined for an operator, who sees every project. */
  readonly token: SessionToken | undefined
  /** The passkey that opened it. */
  readonly person_key_id: string | null
  /** When the visit before this one ended; null on the first. */
  readonly last_visit_at: Date | null
  /** The value that every form of this session carries. */
  readonly csrf: string
  /** The instant at which it was found open. */
  readonly now: Date
}

/** The value of the cookie, and the page to open first. */
export interface SignedIn {
  readonly secret: Redacted.Redacted<string>
  readonly project_id: string | null
  /** Seconds. */
  readonly lasts: number
}

/** One answer for every value that does not open a session: unknown, expired, revoked, used or malformed. */
export class WrongCredential extends Data.TaggedError("WrongCredential")<{}> {}

/** The token is in force, and made with `--no-console`. */
class ForAgentsOnly extends Data.TaggedError("ForAgentsOnly")<AgentToken> {}

interface AgentToken {
  readonly project_id: string
  readonly token_id: string
}

/** Somebody entered an agent's token where a person enters theirs: it may have leaked. */
export const reportAgentToken = (
  audit: Audit["Service"],
  clock: DatabaseClock["Service"],
  { project_id, token_id }: AgentToken
) =>
  Effect.flatMap(clock.now, (now) =>
    audit.rejected(now, {
      action: "project_token.entered",
      code: "agents_only",
      project_id,
      actor: `project_token:${token_id}`,
      subject: { project_token_id: token_id }
    })
  )

type Unavailable = SharedRefusal<"bridge_persistence_error">
type TokenOfSession = Omit<typeof Store.Token.Type, "opens_console">

export class Sessions extends Context.Service<
  Sessions,
  {
    /** If the project has too many sessions, the token's own that was used least recently ends. */
    readonly signIn: (token: Redacted.Redacted<string>) => Effect.Effect<SignedIn, WrongCredential | Unavailable>
    /**
     * Opens a session of a token that the caller has authenticated, by its passkey if `person_key_id` names one. Part of the
     * caller's transaction.
     */
    readonly open: (
      token: TokenOfSession,
      person_key_id: string | null,
      now: Date
    ) => Effect.Effect<SignedIn, SqlError.SqlError>
    /** Opens an operator's session with the code of a link. A code works once. */
    readonly enter: (code: Redacted.Redacted<string>) => Effect.Effect<SignedIn, WrongCredential | Unavailable>
    /** None: no such session, or it has ended. With `isUse` false the session does not count as used. */
    readonly find: (
      secret: Redacted.Redacted<string>,
      isUse?: boolean
    ) => Effect.Effect<Option.Option<Session>, Unavailable>
    /** Idempotent. */
    readonly signOut: (session: Session) => Effect.Effect<void, Unavailable>
    /** Ends every session of the same token, or of the same operator. Idempotent. */
    readonly signOutEverywhere: (session: Session) => Effect.Effect<void, Unavailable>
    /** For the command: a link with a code for `enter`, valid for five minutes. */
    readonly makeLink: (
      actor: string,
      project_id: string | undefined
    ) => Effect.Effect<
      { readonly url: Redacted.Redacted<string>; readonly expires_at: Date },
      SessionRefusal<"project_not_found" | "console_off" | "bridge_persistence_error">
    >
    /** Open sessions of one project or of all, in the order of their creation. */
    readonly list: (
      project_id: string | undefined,
      page: Page
    ) => Effect.Effect<ReadonlyArray<typeof Store.ConsoleSession.Type>, Unavailable>
    /** Idempotent. */
    readonly end: (
      session_id: string,
      actor: string
    ) => Effect.Effect<void, SessionRefusal<"console_session_not_found" | "bridge_persistence_error">>
  }
>()("service/sessions/Sessions") {
  static readonly layer = Layer.effect(
    Sessions,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const audit = yield* Audit
      const { baseUrl, console } = yield* Settings
      const store = Store.make(sql)

      const recordEnd = (now: Date, actor: string, { project_id, session_id }: typeof Store.Ended.Type) =>
        audit.done(now, { action: "console_session.ended", project_id, actor, subject: { session_id } })

      /** Stores a new session and its audit row. */
      const insert = Effect.fnUntraced(function* (
        session: Pick<Store.NewSession, "project_token_id" | "project_id" | "person_key_id" | "actor" | "expires_at">,
        now: Date
      ) {
        const secret = yield* Tokens.mint("scs")
        const session_id = yield* uuidAt(now)
        const { userAgent } = yield* Caller
        const stored = { ...session, session_id, secret_hash: Tokens.hash(secret), user_agent: userAgent }
        yield* store.insert(stored, before(now), now)
        const { actor, person_key_id, project_id } = session
        const subject = { session_id, ...(person_key_id !== null && { person_key_id }) }
        yield* audit.done(now, { action: "console_session.opened", project_id, actor, subject })
        return { secret, project_id, lasts: secondsUntil(session.expires_at, now) }
      })

      /** Whoever has the most sessions gives one up, so that nobody keeps the others of the project from signing in. */
      const makeRoom = Effect.fnUntraced(function* (
        { limits, project_id, token_id }: TokenOfSession,
        actor: string,
        now: Date
      ) {
        yield* store.lockProject(project_id)
        const counted = yield* store.countOpen(project_id, now)
        if (Option.getOrThrow(counted).open < maximumOf(limits, "sessions")) return
        const ended = yield* store.endOneOfMost(project_id, token_id, now)
        yield* Effect.forEach(ended, (session) => recordEnd(now, actor, session))
      })

      const open = Effect.fnUntraced(function* (token: TokenOfSession, person_key_id: string | null, now: Date) {
        const { expires_at, project_id, token_id } = token
        const actor = `project_token:${token_id}`
        yield* makeRoom(token, actor, now)
        const latest = after(now, longest)
        return yield* insert(
          {
            project_token_id: token_id,
            project_id,
            person_key_id,
            actor,
            expires_at: expires_at !== null && expires_at < latest ? expires_at : latest
          },
          now
        )
      })

      const signIn = Effect.fn("Sessions.signIn")(
        function* (token: Redacted.Redacted<string>) {
          if (!Tokens.isToken("spt", Redacted.value(token))) return yield* new WrongCredential()
          const now = yield* clock.now
          const found = yield* store.findToken(Tokens.hash(token), now)
          if (Option.isNone(found)) return yield* new WrongCredential()
          const { opens_console, project_id, token_id } = found.value
          if (!opens_console) return yield* new ForAgentsOnly({ project_id, token_id })
          return yield* open(found.value, null, now)
        },
        sql.withTransaction,
        (signedIn) =>
          Effect.catchTag(signedIn, "ForAgentsOnly", (token) =>
            Effect.andThen(reportAgentToken(audit, clock, token), new WrongCredential())
          ),
        persistence
      )

      /** A link comes back after it was used: somebody may have a copy, or was faster than the operator. */
      const reportReturn = Effect.fnUntraced(function* (code: Redacted.Redacted<string>) {
        const link = yield* store.findUsedLink(Tokens.hash(code))
        if (Option.isNone(link)) return
        const event = { action: "console_link.returned", code: "link_used", subject: {}, ...link.value }
        yield* audit.rejected(yield* clock.now, event)
      })

      const enter = Effect.fn("Sessions.enter")(
        function* (code: Redacted.Redacted<string>) {
          if (!Tokens.isToken("sco", Redacted.value(code))) return yield* new WrongCredential()
          const now = yield* clock.now
          const link = yield* store.useLink(Tokens.hash(code), now)
          if (Option.isNone(link)) return yield* new WrongCredential()
          const { actor, project_id } = link.value
          const expires_at = after(now, operatorsLongest)
          const opened = yield* insert(
            { project_token_id: null, project_id: null, person_key_id: null, actor, expires_at },
            now
          )
          return { ...opened, project_id }
        },
        sql.withTransaction,
        (entered, code) => Effect.tapErrorTag(entered, "WrongCredential", () => reportReturn(code)),
        persistence
      )

      const find = Effect.fn("Sessions.find")(function* (secret: Redacted.Redacted<string>, isUse = true) {
        if (!Tokens.isToken("scs", Redacted.value(secret))) return Option.none()
        const now = yield* clock.now
        const found = yield* store.find(Tokens.hash(secret), now)
        if (Option.isNone(found)) return Option.none()
        const { last_used_at, last_visit_at, session_id } = found.value
        if (isUse && now.getTime() - last_used_at.getTime() >= lastUsedPrecision) {
          yield* Effect.ignore(store.touch(session_id, before(now), now))
        }
        const isNewVisit = last_used_at < before(now)
        return Option.some(
          sessionOf({ ...found.value, last_visit_at: isNewVisit ? last_used_at : last_visit_at }, secret, now)
        )
      }, persistence)

      const end = Effect.fn("Sessions.end")(
        function* (session_id: string, actor: string) {
          const now = yield* clock.now
          const ended = yield* store.end(session_id, now)
          if (Option.isNone(ended)) return yield* refuse("console_session_not_found")
          if (ended.value.first) yield* recordEnd(now, actor, ended.value)
        },
        sql.withTransaction,
        persistence
      )

      /** The row of a session that was purged meanwhile is gone, which is as good as ended. */
      const signOut = ({ actor, session_id }: Session) =>
        end(session_id, actor).pipe(Effect.catchTag("console_session_not_found", () => Effect.void))

      const signOutEverywhere = Effect.fn("Sessions.signOutEverywhere")(
        function* ({ actor, token }: Session) {
          const now = yield* clock.now
          const ended = yield* store.endAll({ actor, token_id: token?.token_id ?? null }, now)
          yield* Effect.forEach(ended, (session) => recordEnd(now, actor, session))
        },
        sql.withTransaction,
        persistence
      )

      const makeLink = Effect.fn("Sessions.makeLink")(
        function* (actor: string, project_id: string | undefined) {
          if (!console.enabled) return yield* refuse("console_off")
          const now = yield* clock.now
          const code = yield* Tokens.mint("sco")
          const link = { code_hash: Tokens.hash(code), project_id: project_id ?? null, actor }
          const made = yield* store.insertLink(link, after(now, linkTtl), now)
          if (Option.isNone(made)) return yield* refuse("project_not_found")
          yield* audit.done(now, { action: "console_link.made", project_id: link.project_id, actor, subject: {} })
          const url = Redacted.make(`${baseUrl.origin}/console/enter?code=${Redacted.value(code)}`, { label: "url" })
          return { url, expires_at: made.value.expires_at }
        },
        sql.withTransaction,
        persistence
      )

      const list = Effect.fn("Sessions.list")(function* (project_id: string | undefined, page: Page) {
        return yield* store.list(project_id, page, yield* clock.now)
      }, persistence)

      return { signIn, open, enter, find, signOut, signOutEverywhere, makeLink, list, end }
    })
  )
}

/** A session that was last used before this instant begins a new visit. */
const before = (now: Date) => new Date(now.getTime() - Duration.toMillis(visitGap))

const sessionOf = (
  {
    actor,
    label,
    last_visit_at,
    limits,
    person_key_id,
    project_id,
    project_name,
    role,
    scopes,
    session_id,
    token_id
  }: Store.Open,
  secret: Redacted.Redacted<string>,
  now: Date
): Session => ({
  now,
  session_id,
  person_key_id,
  actor,
  last_visit_at,
  csrf: Buffer.from(deriveFrom(secret, "console/v1/form", [])).toString("base64url"),
  token:
    token_id === null
      ? undefined
      : {
          token_id,
          label,
          project_id: project_id!,
          project_name: project_name!,
          role: role!,
          scopes: new Set(scopes),
          limits: limits!
        }
})

/** Whether a form comes from a page of this session. */
export const isFormOf = ({ csrf }: Session, given: string) => equal(sha256(csrf), sha256(given))
