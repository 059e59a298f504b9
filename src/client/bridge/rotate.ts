/**
 * How a Bridge replaces its token (spec 3.2, 4.3 to 4.5), and how it resumes a rotation after a crash.
 *
 * 1. Write `prepared` with the Idempotency-Key of prepare. Then prepare, with the token as bearer.
 * 2. Write `stored` with both tokens and the key of confirm. Then confirm, with the successor as bearer.
 * 3. Write `confirmed`: the successor is the token.
 *
 * | crash or lost answer after | `state.json` | next request             | answer                                     |
 * |----------------------------|--------------|--------------------------|--------------------------------------------|
 * | `prepared` written         | `prepared`   | prepare, same key        | a first successor                          |
 * | prepare done or answered   | `prepared`   | prepare, same key        | the same successor                         |
 * | ... and window over        | `prepared`   | the same, then a new key | `bridge_rotation_expired`, a new successor |
 * | `stored` written           | `stored`     | confirm, same key        | confirmed                                  |
 * | confirm done or answered   | `stored`     | confirm, same key        | the same answer                            |
 * | ... window over before     | `stored`     | confirm, then prepare    | `bridge_rotation_expired`, a new successor |
 * | ... aborted elsewhere      | `stored`     | confirm, then prepare    | `bridge_rotation_aborted`, a new successor |
 * | abort done or answered     | `stored`     | abort, same key          | the same answer                            |
 * | `confirmed` written        | `confirmed`  | none                     |                                            |
 *
 * So at every point the folder holds a valid token, or everything needed to get one without an operator.
 */
import { Data, Effect, type Redacted } from "effect"
import { uuid } from "../Crypto.ts"
import type { RotationRefusal } from "../../wire/bridges/RotationApi.ts"
import type { Client } from "./Client.ts"
import { NotEnrolled } from "../Errors.ts"
import type { Journal } from "./Journal.ts"
import { type Enrolled, lifetimeOf, type Rotation } from "./State.ts"

type Prepared = Extract<Rotation, { readonly state: "prepared" }>
type Stored = Extract<Rotation, { readonly state: "stored" }>

/** The rotation under way ended without a new token; the present token stays. */
class Dropped extends Data.TaggedError("Dropped")<{ readonly because: RotationRefusal }> {}

export const make = (client: typeof Client.Service, journal: typeof Journal.Service) => {
  /** The state in the folder; fails without a token. */
  const enrolled = Effect.gen(function* () {
    const state = yield* journal.read
    if (state?.token != null) return state as Enrolled
    return yield* new NotEnrolled({
      message:
        state?.enrollment?.done === false
          ? "An enrollment is under way: run enroll again with the same credential file."
          : "The state folder holds no token: run enroll with a credential from the operator."
    })
  })

  const prepare = Effect.fnUntraced(function* (state: Enrolled, { prepare_key }: Prepared) {
    const { body } = yield* client
      .prepare(state.base_url, state.token.access_token, prepare_key)
      .pipe(Effect.catchTag(["bridge_rotation_expired", "bridge_rotation_aborted"], (refusal) => drop(state, refusal)))
    const { rotation_id, successor_token } = body
    const stored: Stored = {
      state: "stored",
      rotation_id,
      successor_token,
      confirm_key: `bridge-confirm-${yield* uuid}`,
      abort_key: `bridge-abort-${yield* uuid}`
    }
    yield* journal.write({ ...state, rotation: stored })
    return stored
  })

  const confirm = Effect.fnUntraced(function* (state: Enrolled, rotation: Stored) {
    const lifetime = yield* client
      .confirm(state.base_url, rotation.successor_token, rotation.rotation_id, rotation.confirm_key)
      .pipe(
        Effect.map(lifetimeOf),
        Effect.catchTag("bridge_rotation_confirmed", () => lifetimeLeft(state, rotation.successor_token)),
        Effect.catchTag([...successorGone, "bridge_rotation_aborted"], (refusal) => drop(state, refusal))
      )
    return yield* promote(state, rotation, lifetime)
  })

  /** Makes the successor the token of the folder. */
  const promote = Effect.fnUntraced(function* (state: Enrolled, rotation: Stored, lifetime_seconds: number) {
    const rotated: Enrolled = {
      ...state,
      token: { access_token: rotation.successor_token, lifetime_seconds },
      rotation: { state: "confirmed", rotation_id: rotation.rotation_id }
    }
    yield* journal.write(rotated)
    return rotated
  })

  const lifetimeLeft = (state: Enrolled, token: Redacted.Redacted<string>) =>
    Effect.map(client.self(state.base_url, token), lifetimeOf)

  const drop = Effect.fnUntraced(function* (state: Enrolled, because: RotationRefusal) {
    yield* journal.write({ ...state, rotation: null })
    return yield* new Dropped({ because })
  })

  /** The rotation under way, once its successor is stored; undefined when there is none. */
  const underWay = Effect.gen(function* () {
    const state = yield* enrolled
    if (state.rotation?.state === "prepared") return { state, rotation: yield* prepare(state, state.rotation) }
    if (state.rotation?.state === "stored") return { state, rotation: state.rotation }
  })

  const resume = Effect.gen(function* () {
    const current = yield* underWay
    return current === undefined ? yield* enrolled : yield* confirm(current.state, current.rotation)
  })

  /** Finishes a rotation under way, if there is one, and returns the state in the folder. */
  const recover = Effect.catchTag(resume, "Dropped", () => enrolled)

  const begin = Effect.gen(function* () {
    const state = yield* enrolled
    if (isUnderWay(state)) return
    yield* journal.write({ ...state, rotation: { state: "prepared", prepare_key: `bridge-rotate-${yield* uuid}` } })
  })

  /** Runs one rotation, or resumes the one under way. If its window has passed, starts a new one. */
  const rotate = Effect.andThen(begin, resume).pipe(
    Effect.retry({ while: (failure) => failure._tag === "Dropped", times: 2 }),
    Effect.catchTag("Dropped", ({ because }) => Effect.fail(because)),
    Effect.withSpan("Bridge.rotate")
  )

  /** Ends the rotation under way and keeps the token. `aborted` is false if there was none or it was confirmed already. */
  const abort = Effect.gen(function* () {
    const current = yield* underWay
    if (current === undefined) return { aborted: false, state: yield* enrolled }
    const { rotation, state } = current
    const confirmedLifetime = yield* client
      .abort(state.base_url, rotation.successor_token, rotation.rotation_id, rotation.abort_key)
      .pipe(
        Effect.as(undefined),
        Effect.catchTag("bridge_rotation_aborted", () => Effect.succeed(undefined)),
        Effect.catchTag("bridge_rotation_confirmed", () => lifetimeLeft(state, rotation.successor_token)),
        Effect.catchTag(successorGone, (refusal) => drop(state, refusal))
      )
    if (confirmedLifetime !== undefined)
      return { aborted: false, state: yield* promote(state, rotation, confirmedLifetime) }
    const kept: Enrolled = { ...state, rotation: null }
    yield* journal.write(kept)
    return { aborted: true, state: kept }
  }).pipe(
    Effect.catchTag("Dropped", () => Effect.map(enrolled, (state) => ({ aborted: false, state }))),
    Effect.withSpan("Bridge.abort")
  )

  return { enrolled, recover, rotate, abort }
}

const isUnderWay = ({ rotation }: Enrolled) => rotation?.state === "prepared" || rotation?.state === "stored"

/** The successor has ended. The next prepare shows whether the predecessor is still valid. */
const successorGone = [
  "bridge_rotation_expired",
  "bridge_rotation_not_found",
  "bridge_token_invalid",
  "bridge_token_revoked",
  "bridge_token_expired"
] as const
