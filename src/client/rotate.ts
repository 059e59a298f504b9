/**
 * How a Bridge replaces its token (spec 3.2, 4.3 to 4.5), and takes up again whatever was under way.
 *
 * 1. `prepared` is written, with the key of the prepare.        prepare, with the token as bearer
 * 2. `stored` is written: both tokens, and the key of confirm.  confirm, with the successor as bearer
 * 3. `confirmed` is written: the successor is the token.
 *
 * | lost after               | `state.json` | what is done next        | which answers                              |
 * |--------------------------|--------------|--------------------------|--------------------------------------------|
 * | nothing asked            | `prepared`   | prepare, same key        | a first successor                          |
 * | prepare done or answered | `prepared`   | prepare, same key        | the same successor                         |
 * | ... and its window over  | `prepared`   | the same, then a new key | `bridge_rotation_expired`, a new successor |
 * | successor kept           | `stored`     | confirm, same key        | confirmed                                  |
 * | confirm done or answered | `stored`     | confirm, same key        | the same answer                            |
 * | ... window over before   | `stored`     | confirm, then prepare    | `bridge_rotation_expired`, a new successor |
 * | ... aborted elsewhere    | `stored`     | confirm, then prepare    | `bridge_rotation_aborted`, a new successor |
 * | abort done or answered   | `stored`     | abort, same key          | the same answer                            |
 * | `confirmed` written      | `confirmed`  | nothing                  |                                            |
 *
 * So at every point the folder holds a token that is good, or the means to ask for it again without an operator.
 */
import { Data, Effect, type Redacted } from "effect"
import { uuid } from "./Crypto.ts"
import type { RotationRefusal } from "../wire/bridges/RotationErrors.ts"
import type { Client } from "./Client.ts"
import { NotEnrolled } from "./Errors.ts"
import type { Journal } from "./Journal.ts"
import { type Holding, lifetimeOf, type Rotation } from "./State.ts"

type Prepared = Extract<Rotation, { readonly state: "prepared" }>
type Stored = Extract<Rotation, { readonly state: "stored" }>

/** The rotation under way came to nothing; the token is what it was. */
class Dropped extends Data.TaggedError("Dropped")<{ readonly because: RotationRefusal }> {}

export const make = (client: typeof Client.Service, journal: typeof Journal.Service) => {
  /** What the folder holds. */
  const holding = Effect.gen(function* () {
    const state = yield* journal.read
    if (state?.token != null) return state as Holding
    return yield* new NotEnrolled({
      message:
        state?.enrollment?.done === false
          ? "An enrollment is under way: repeat `bridge enroll` with the same credential file."
          : "The state folder holds no token: `bridge enroll` with a credential from the operator."
    })
  })

  const prepare = Effect.fnUntraced(function* (state: Holding, { prepare_key }: Prepared) {
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

  const confirm = Effect.fnUntraced(function* (state: Holding, rotation: Stored) {
    const lifetime = yield* client
      .confirm(state.base_url, rotation.successor_token, rotation.rotation_id, rotation.confirm_key)
      .pipe(
        Effect.map(lifetimeOf),
        Effect.catchTag("bridge_rotation_confirmed", () => lifetimeLeft(state, rotation.successor_token)),
        Effect.catchTag([...gone, "bridge_rotation_aborted"], (refusal) => drop(state, refusal))
      )
    return yield* confirmed(state, rotation, lifetime)
  })

  const confirmed = Effect.fnUntraced(function* (state: Holding, rotation: Stored, lifetime_seconds: number) {
    const rotated: Holding = {
      ...state,
      token: { access_token: rotation.successor_token, lifetime_seconds },
      rotation: { state: "confirmed", rotation_id: rotation.rotation_id }
    }
    yield* journal.write(rotated)
    return rotated
  })

  const lifetimeLeft = (state: Holding, token: Redacted.Redacted<string>) =>
    Effect.map(client.self(state.base_url, token), lifetimeOf)

  const drop = Effect.fnUntraced(function* (state: Holding, because: RotationRefusal) {
    yield* journal.write({ ...state, rotation: null })
    return yield* new Dropped({ because })
  })

  /** The successor of the rotation under way, kept; undefined when there is none. */
  const stored = Effect.gen(function* () {
    const state = yield* holding
    if (state.rotation?.state === "prepared") return { state, rotation: yield* prepare(state, state.rotation) }
    if (state.rotation?.state === "stored") return { state, rotation: state.rotation }
  })

  const resume = Effect.gen(function* () {
    const under = yield* stored
    return under === undefined ? yield* holding : yield* confirm(under.state, under.rotation)
  })

  /** Finishes what was under way, if anything was; answers what the folder then holds. */
  const recover = Effect.catchTag(resume, "Dropped", () => holding)

  const begin = Effect.gen(function* () {
    const state = yield* holding
    if (isUnderWay(state)) return
    yield* journal.write({ ...state, rotation: { state: "prepared", prepare_key: `bridge-rotate-${yield* uuid}` } })
  })

  /** One rotation from wherever it stands; a window that passed meanwhile is followed by a new one. */
  const rotate = Effect.andThen(begin, resume).pipe(
    Effect.retry({ while: (failure) => failure._tag === "Dropped", times: 2 }),
    Effect.catchTag("Dropped", ({ because }) => Effect.fail(because)),
    Effect.withSpan("Bridge.rotate")
  )

  /** Ends the rotation under way and keeps the token. `aborted` is false where there was none, or it was too late. */
  const abort = Effect.gen(function* () {
    const under = yield* stored
    if (under === undefined) return { aborted: false, state: yield* holding }
    const { rotation, state } = under
    const late = yield* client
      .abort(state.base_url, rotation.successor_token, rotation.rotation_id, rotation.abort_key)
      .pipe(
        Effect.as(undefined),
        Effect.catchTag("bridge_rotation_aborted", () => Effect.succeed(undefined)),
        Effect.catchTag("bridge_rotation_confirmed", () => lifetimeLeft(state, rotation.successor_token)),
        Effect.catchTag(gone, (refusal) => drop(state, refusal))
      )
    if (late !== undefined) return { aborted: false, state: yield* confirmed(state, rotation, late) }
    const kept: Holding = { ...state, rotation: null }
    yield* journal.write(kept)
    return { aborted: true, state: kept }
  }).pipe(
    Effect.catchTag("Dropped", () => Effect.map(holding, (state) => ({ aborted: false, state }))),
    Effect.withSpan("Bridge.abort")
  )

  return { holding, recover, rotate, abort }
}

const isUnderWay = ({ rotation }: Holding) => rotation?.state === "prepared" || rotation?.state === "stored"

/** The successor has come to nothing. What the predecessor is worth, the next prepare tells. */
const gone = [
  "bridge_rotation_expired",
  "bridge_rotation_not_found",
  "bridge_token_invalid",
  "bridge_token_revoked",
  "bridge_token_expired"
] as const
