/**
 * Passkeys: a person who has signed in with a project token adds one, and signs in with it from then on, to the console and
 * at consent (decisions.md, Passkeys).
 *
 * 1. The script of a page asks for a challenge of 32 bytes. It belongs to the browser that asked, works for five minutes,
 *    and is used up by the first answer, whatever the answer is worth. The database has its hash.
 * 2. The authenticator makes a key (`add`) or signs with one (`signIn`, `identify`), after it has verified the person.
 * 3. A passkey stands for the project token with which it was added: its project, its role, its end.
 * 4. Authenticators that count their signatures count up. A lower count comes from a copy: the passkey is switched off, and
 *    every session that it opened ends.
 */
import { Context, Data, Duration, Effect, Layer, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Audit } from "../../platform/audit/Audit.ts"
import { salt, uuidAt } from "../../platform/crypto/Random.ts"
import { equal, sha256 } from "../../platform/crypto/Sha256.ts"
import { DatabaseClock } from "../../platform/database/Clock.ts"
import { persistence } from "../../platform/database/Persistence.ts"
import { siteOf } from "../../platform/edge/Addresses.ts"
import { CurrentOperator } from "../../platform/settings/Operator.ts"
import { Settings } from "../../platform/settings/Settings.ts"
import type { Page } from "../../platform/sql/Page.ts"
import { projectExists } from "../../platform/sql/ProjectExists.ts"
import { Caller } from "../../wire/Headers.ts"
import { after, hasPassed } from "../../wire/Instant.ts"
import { type Session, Sessions, type SignedIn } from "../sessions/Sessions.ts"
import { type PersonKeyRefusal, refuse } from "./Errors.ts"
import * as Store from "./PersonKeyStore.ts"
import { type RelyingParty, relyingPartyOf } from "./RelyingParty.ts"
import {
  algorithms,
  base64urlOf,
  bytesOf,
  challengeOf,
  checkAssertion,
  checkAttestation,
  decodeAssertion,
  decodeAttestation,
  type Reason
} from "./WebAuthn.ts"

const challengeTtl = Duration.minutes(5)

/** The passkey does not sign in. The page says what to do; the audit row, if the passkey is known, says why. */
export class WrongKey extends Data.TaggedError("WrongKey")<{
  readonly reason:
    | Reason
    | "unknown"
    | "removed"
    | "disabled"
    | "token_ended"
    | "challenge_unknown"
    | "challenge_expired"
    | "challenge_used"
    | "count_fell"
}> {}

/** What `navigator.credentials.create` and `get` take, with bytes as base64url. */
export type Options = Readonly<Record<string, unknown>>
export type PersonKey = typeof Store.PersonKey.Type
export type OwnKey = Effect.Success<ReturnType<ReturnType<typeof Store.make>["own"]>>[number]

type Unavailable = PersonKeyRefusal<"bridge_persistence_error">
type NotFound = PersonKeyRefusal<"person_key_not_found">

/** A browser that is not signed in, by its cookie (PreSession.ts), and what it got from its authenticator, as JSON. */
export interface PasskeyAnswer {
  readonly browser: Redacted.Redacted<string>
  readonly credential: Redacted.Redacted<string>
}

export class PersonKeys extends Context.Service<
  PersonKeys,
  {
    /** Undefined where no passkey can be made: at an IP address. */
    readonly relyingParty: RelyingParty | undefined
    readonly optionsToAdd: (
      session: Session
    ) => Effect.Effect<
      Options,
      Unavailable | PersonKeyRefusal<"person_key_unavailable" | "token_session_required" | "person_key_limit">
    >
    /** A retry with the same credential changes nothing. */
    readonly add: (
      session: Session,
      label: string,
      credential: string
    ) => Effect.Effect<
      void,
      | Unavailable
      | PersonKeyRefusal<
          "person_key_unavailable" | "token_session_required" | "person_key_invalid" | "person_key_limit"
        >
    >
    readonly optionsToSignIn: (
      browser: Redacted.Redacted<string>
    ) => Effect.Effect<Options, Unavailable | PersonKeyRefusal<"person_key_unavailable">>
    /** Opens a session of the console. */
    readonly signIn: (answer: PasskeyAnswer) => Effect.Effect<SignedIn, WrongKey | Unavailable>
    /** Tells whose passkey it is, without opening a session. */
    readonly identify: (
      answer: PasskeyAnswer
    ) => Effect.Effect<{ readonly token_id: string; readonly person_key_id: string }, WrongKey | Unavailable>
    /** The passkeys of the session's project token; an operator has none. */
    readonly own: (session: Session) => Effect.Effect<ReadonlyArray<OwnKey>, Unavailable>
    readonly rename: (session: Session, id: string, label: string) => Effect.Effect<void, NotFound | Unavailable>
    /** Idempotent. */
    readonly removeOwn: (session: Session, id: string) => Effect.Effect<void, NotFound | Unavailable>
    /** Of one project, or of all, in the order in which they were added. */
    readonly list: (
      project_id: string | undefined,
      page: Page
    ) => Effect.Effect<ReadonlyArray<PersonKey>, Unavailable | PersonKeyRefusal<"project_not_found">>
    /** For the operator. Idempotent. */
    readonly remove: (id: string) => Effect.Effect<void, NotFound | Unavailable>
  }
>()("service/passkeys/PersonKeys") {
  static readonly layer = Layer.effect(
    PersonKeys,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const clock = yield* DatabaseClock
      const audit = yield* Audit
      const sessions = yield* Sessions
      const { baseUrl } = yield* Settings
      const store = Store.make(sql)
      const relyingParty = relyingPartyOf(baseUrl)

      const challengeFor = Effect.fnUntraced(function* (browser: string, asked_by: string, site: string | null) {
        const now = yield* clock.now
        const challenge = yield* salt
        const stored = { challenge_hash: sha256(challenge), browser_hash: sha256(browser), asked_by, site }
        yield* store.insertChallenge(stored, after(now, challengeTtl), now)
        yield* store.boundChallenges
        return base64urlOf(challenge)
      })

      /** Uses the challenge up. Returns why it does not count, if it does not. */
      const useChallenge = Effect.fnUntraced(function* (challenge: string, browser: string, now: Date) {
        const [challenge_hash, browser_hash] = [sha256(bytesOf(challenge)), sha256(browser)]
        if (Option.isSome(yield* store.useChallenge(challenge_hash, browser_hash, now))) return undefined
        const found = Option.getOrUndefined(yield* store.findChallenge(challenge_hash))
        if (found === undefined || !equal(found.browser_hash, browser_hash)) return "challenge_unknown" as const
        return found.used_at === null && hasPassed(found.expires_at, now) ? "challenge_expired" : "challenge_used"
      })

      const optionsToAdd = Effect.fn("PersonKeys.optionsToAdd")(function* (session: Session) {
        const { token } = session
        if (relyingParty === undefined) return yield* refuse("person_key_unavailable")
        if (token === undefined || session.person_key_id !== null) return yield* refuse("token_session_required")
        const keys = yield* own(session)
        if (keys.length >= Store.maxKeys) return yield* refuse("person_key_limit")
        const challenge = yield* challengeFor(session.session_id, session.session_id, null)
        const name = token.label === null ? token.project_name : `${token.label} · ${token.project_name}`
        return {
          challenge,
          rp: { id: relyingParty.id, name: "Bridge Service" },
          user: { id: userHandleOf(token.token_id), name, displayName: name },
          pubKeyCredParams: algorithms.map((alg) => ({ type: "public-key", alg })),
          authenticatorSelection: {
            residentKey: "required",
            requireResidentKey: true,
            userVerification: "required"
          },
          attestation: "none",
          excludeCredentials: keys.map(({ credential_id }) => ({
            type: "public-key",
            id: base64urlOf(credential_id)
          })),
          timeout: Duration.toMillis(challengeTtl)
        }
      }, persistence)

      const add = Effect.fn("PersonKeys.add")(function* (session: Session, label: string, text: string) {
        const { actor, token } = session
        if (relyingParty === undefined) return yield* refuse("person_key_unavailable")
        if (token === undefined || session.person_key_id !== null) return yield* refuse("token_session_required")
        const attestation = Option.getOrUndefined(decodeAttestation(text))
        const challenge = attestation && Option.getOrUndefined(challengeOf(attestation))
        if (attestation === undefined || challenge === undefined) return yield* refuse("person_key_invalid")
        const now = yield* clock.now
        const notAdded = Effect.fnUntraced(function* (code: WrongKey["reason"]) {
          const { project_id } = token
          const subject = { session_id: session.session_id }
          yield* audit.rejected(now, { action: "person_key.not_added", code, project_id, actor, subject })
          return yield* refuse("person_key_invalid")
        })
        const refused = yield* useChallenge(challenge, session.session_id, now)
        if (refused !== undefined) {
          const added = yield* store.find(bytesOf(attestation.id), now)
          const isOwn = Option.exists(added, (key) => key.token_id === token.token_id && key.removed_at === null)
          return isOwn ? undefined : yield* notAdded(refused)
        }
        const credential = yield* checkAttestation(attestation, challenge, relyingParty).pipe(
          Effect.catchTag("NotValid", ({ reason }) => notAdded(reason))
        )
        const person_key_id = yield* uuidAt(now)
        yield* Effect.gen(function* () {
          if (Option.isNone(yield* store.lockToken(token.token_id, now))) return yield* refuse("token_session_required")
          const key = { ...credential, person_key_id, label, project_token_id: token.token_id }
          const inserted = yield* store.insert(key, now)
          if (Option.isNone(inserted)) {
            const isKnown = Option.isSome(yield* store.find(credential.credential_id, now))
            return yield* refuse(isKnown ? "person_key_invalid" : "person_key_limit")
          }
          const { project_id } = inserted.value
          yield* audit.done(now, { action: "person_key.added", project_id, actor, subject: { person_key_id } })
        }).pipe(sql.withTransaction)
      }, persistence)

      const optionsToSignIn = Effect.fn("PersonKeys.optionsToSignIn")(function* (browser: Redacted.Redacted<string>) {
        if (relyingParty === undefined) return yield* refuse("person_key_unavailable")
        const { network } = yield* Caller
        return {
          challenge: yield* challengeFor(Redacted.value(browser), network, siteOf(network) ?? network),
          rpId: relyingParty.id,
          allowCredentials: [],
          userVerification: "required",
          timeout: Duration.toMillis(challengeTtl)
        }
      }, persistence)

      const rejected = Effect.fnUntraced(function* (
        { person_key_id, project_id, token_id }: Store.Found,
        reason: WrongKey["reason"],
        now: Date
      ) {
        yield* audit.rejected(now, {
          action: "person_key.refused",
          code: reason,
          project_id,
          actor: `project_token:${token_id}`,
          subject: { person_key_id }
        })
        return yield* new WrongKey({ reason })
      })

      /** The passkey that signed the challenge of this browser, and the count that it signed. */
      const verified = Effect.fnUntraced(function* ({ browser, credential }: PasskeyAnswer, now: Date) {
        if (relyingParty === undefined) return yield* new WrongKey({ reason: "unknown" })
        const assertion = Option.getOrUndefined(decodeAssertion(Redacted.value(credential)))
        const challenge = assertion && Option.getOrUndefined(challengeOf(assertion))
        if (assertion === undefined || challenge === undefined) return yield* new WrongKey({ reason: "invalid" })
        const refused = yield* useChallenge(challenge, Redacted.value(browser), now)
        const found = Option.getOrUndefined(yield* store.find(bytesOf(assertion.id), now))
        if (found === undefined) return yield* new WrongKey({ reason: refused ?? "unknown" })
        if (refused !== undefined) return yield* rejected(found, refused, now)
        const count = yield* checkAssertion(assertion, challenge, found.public_key, relyingParty).pipe(
          Effect.catchTag("NotValid", ({ reason }) => rejected(found, reason, now))
        )
        if (assertion.response.userHandle !== userHandleOf(found.token_id)) {
          return yield* rejected(found, "invalid", now)
        }
        // After the signature: only its holder learns what has become of a passkey.
        const ended = stateOf(found)
        if (ended !== undefined) return yield* rejected(found, ended, now)
        return { found, count }
      })

      /** Counts the use. A passkey that has ended meanwhile, or whose count fell, takes back what `then` did. */
      const accepting = <A, E>(answer: PasskeyAnswer, then: (found: Store.Found, now: Date) => Effect.Effect<A, E>) =>
        Effect.gen(function* () {
          const now = yield* clock.now
          const { count, found } = yield* verified(answer, now)
          return yield* Effect.gen(function* () {
            const done = yield* then(found, now)
            const accepted = yield* store.accept(found.person_key_id, count, now)
            return Option.isSome(accepted) ? done : yield* new NotAccepted()
          }).pipe(
            sql.withTransaction,
            Effect.catchTag("NotAccepted", () => notAccepted(found, count, answer, now))
          )
        })

      const notAccepted = Effect.fnUntraced(function* (
        { person_key_id, project_id, token_id }: Store.Found,
        count: number,
        { credential }: PasskeyAnswer,
        now: Date
      ) {
        const fell = yield* Effect.gen(function* () {
          const disabled = yield* store.disable(person_key_id, count, now)
          if (Option.isNone(disabled)) return false
          const actor = `project_token:${token_id}`
          yield* audit.done(now, { action: "person_key.disabled", project_id, actor, subject: { person_key_id } })
          return true
        }).pipe(sql.withTransaction)
        if (fell) return yield* new WrongKey({ reason: "count_fell" })
        const id = Option.getOrThrow(decodeAssertion(Redacted.value(credential))).id
        const found = Option.getOrThrow(yield* store.find(bytesOf(id), now))
        return yield* rejected(found, stateOf(found) ?? "count_fell", now)
      })

      const signIn = Effect.fn("PersonKeys.signIn")(
        (answer: PasskeyAnswer) => accepting(answer, (found, now) => sessions.open(found, found.person_key_id, now)),
        persistence
      )

      const identify = Effect.fn("PersonKeys.identify")(
        (answer: PasskeyAnswer) =>
          accepting(answer, ({ person_key_id, token_id }) => Effect.succeed({ person_key_id, token_id })),
        persistence
      )

      const own = Effect.fn("PersonKeys.own")(function* ({ token }: Session) {
        return token === undefined ? [] : yield* store.own(token.token_id, yield* clock.now)
      }, persistence)

      const rename = Effect.fn("PersonKeys.rename")(
        function* ({ actor, token }: Session, person_key_id: string, label: string) {
          const renamed = token && Option.getOrUndefined(yield* store.rename(person_key_id, token.token_id, label))
          if (renamed === undefined) return yield* refuse("person_key_not_found")
          if (!renamed.first) return
          const { project_id } = renamed
          const event = { action: "person_key.renamed", project_id, actor, subject: { person_key_id } }
          yield* audit.done(yield* clock.now, event)
        },
        sql.withTransaction,
        persistence
      )

      const end = Effect.fnUntraced(
        function* (person_key_id: string, token_id: string | undefined, actor: string) {
          const now = yield* clock.now
          const removed = Option.getOrUndefined(yield* store.remove(person_key_id, token_id, now))
          if (removed === undefined) return yield* refuse("person_key_not_found")
          const { first, project_id } = removed
          if (!first) return
          yield* audit.done(now, { action: "person_key.removed", project_id, actor, subject: { person_key_id } })
        },
        sql.withTransaction,
        persistence
      )

      const removeOwn = Effect.fn("PersonKeys.removeOwn")(function* ({ actor, token }: Session, id: string) {
        if (token === undefined) return yield* refuse("person_key_not_found")
        yield* end(id, token.token_id, actor)
      })

      const remove = Effect.fn("PersonKeys.remove")(function* (id: string) {
        yield* end(id, undefined, yield* CurrentOperator)
      })

      const list = Effect.fn("PersonKeys.list")(function* (project_id: string | undefined, page: Page) {
        if (project_id !== undefined && !(yield* projectExists(sql, project_id))) {
          return yield* refuse("project_not_found")
        }
        return yield* store.list(project_id, page, yield* clock.now)
      }, persistence)

      return {
        relyingParty,
        optionsToAdd,
        add,
        optionsToSignIn,
        signIn,
        identify,
        own,
        rename,
        removeOwn,
        list,
        remove
      }
    })
  )
}

/** The key of a passkey in limits: the hash of its id, however that is spelled. */
export const keyOfPasskey = (credential: Redacted.Redacted<string>): string =>
  Option.match(decodeAssertion(Redacted.value(credential)), {
    onNone: () => "",
    onSome: ({ id }) => base64urlOf(sha256(bytesOf(id)))
  })

class NotAccepted extends Data.TaggedError("NotAccepted")<{}> {}

/** What an authenticator keeps beside the key: whom it stands for. No name, and the same at each sign-in of a person. */
export const userHandleOf = (token_id: string): string =>
  Buffer.from(token_id.replaceAll("-", ""), "hex").toString("base64url")

/** Why a passkey counts no more. */
const stateOf = ({ disabled_at, removed_at, token_in_force }: Store.Found) => {
  if (!token_in_force) return "token_ended"
  if (removed_at !== null) return "removed"
  return disabled_at === null ? undefined : "disabled"
}
