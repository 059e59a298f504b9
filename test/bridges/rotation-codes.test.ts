/**
 * Every code of the token endpoints (spec 7.2), provoked through HTTP. A row with two faults shows which code wins: the
 * shape of the request, the authenticity of the caller, the identity, the token, then the rotation
 * (decisions.md, When each code applies, and which wins).
 */
import { assert, layer } from "@effect/vitest"
import { Duration, Effect, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { randomUUID } from "node:crypto"
import * as Tokens from "../../src/platform/crypto/Tokens.ts"
import { declared, reached, rowsFor, testEach } from "../support/bridges/Codes.ts"
import { askProven } from "../support/bridges/signatures/DpopProofs.ts"
import { keyRotating } from "../support/bridges/KeyRotations.ts"
import { faultyDatabase } from "../support/service/Faults.ts"
import type { Answer } from "../support/network/Http.ts"
import { unchanged } from "../support/database/Rows.ts"
import { instance, Service } from "../support/service/Service.ts"
import { withNewCredential, disableProject, revokeIdentity } from "../support/bridges/Steps.ts"
import { holder, rotate, rotating, successorOf, type Tokens as Endpoints, tokens } from "../support/bridges/Tokens.ts"

const rotationTtl = Duration.seconds(300)
const tokenTtl = Duration.hours(24)

type Rotating = Effect.Success<ReturnType<typeof rotating>>
type Request = (on: Endpoints, bearer: string) => Effect.Effect<Answer>

/** A well-formed token that was never minted. */
const unknown = Effect.map(Tokens.mint("sbt"), Redacted.value)

/** An instance whose limit of failed authentications is used up. */
const exhausted = Effect.gen(function* () {
  const on = tokens(yield* instance({ SERVICE_RATE_LIMITS: "on" }))
  yield* Effect.all(
    Array.from({ length: 200 }, () => on.self("x")),
    { concurrency: 50 }
  )
  return on
})

/** An instance whose next statement fails because its connection is lost. */
const disconnected = Effect.gen(function* () {
  const { fail, layer } = faultyDatabase()
  const on = tokens(yield* instance({}, layer))
  yield* fail("disconnected before", 1)
  return on
})

/** A successor prepared 100 s before the predecessor expires, so that the predecessor ends within the window. */
const nearExpiry = Effect.gen(function* () {
  const held = yield* holder()
  yield* TestClock.adjust(Duration.subtract(tokenTtl, Duration.seconds(100)))
  return { ...held, ...successorOf(yield* held.prepare(held.token)) }
})

/** A Bridge that has proved its key, and is held to it. */
const proving = Effect.gen(function* () {
  const on = { ...(yield* holder()), url: (yield* Service).url }
  assert.strictEqual((yield* askProven(on, "self", on.token, on.bridge.keys)).status, 200)
  return on
})

const revokedByOperator = Effect.tap(rotating(), ({ bridge }) => revokeIdentity(bridge))
const projectDisabled = Effect.tap(rotating(), ({ bridge }) => disableProject(bridge))

/** The refusals of an endpoint that needs an active token; `request` calls that endpoint. */
const activeTokenRows = (row: ReturnType<typeof rowsFor>, request: Request) => [
  row(
    "no credential",
    401,
    "bridge_token_invalid",
    Effect.flatMap(Service, (on) => request(tokens(on), ""))
  ),
  row(
    "a token with a wrong checksum",
    401,
    "bridge_token_invalid",
    Effect.flatMap(holder(), (on) => request(on, on.token.slice(0, -1) + (on.token.endsWith("0") ? "1" : "0")))
  ),
  row(
    "a bootstrap credential",
    401,
    "bridge_token_invalid",
    Effect.flatMap(holder(), (on) => request(on, on.bridge.credential))
  ),
  row(
    "a token that was never minted",
    401,
    "bridge_token_invalid",
    Effect.flatMap(Effect.zip(holder(), unknown), ([on, token]) => request(on, token))
  ),
  row(
    "no proof of the key, by a Bridge that has sent one",
    401,
    "bridge_proof_of_possession_invalid",
    Effect.flatMap(proving, (on) => unchanged(request(on, on.token)))
  ),
  row(
    "no proof of the key, and a token that was revoked",
    401,
    "bridge_proof_of_possession_invalid",
    Effect.flatMap(proving, (on) =>
      Effect.andThen(askProven(on, "revoke", on.token, on.bridge.keys), unchanged(request(on, on.token)))
    )
  ),
  row(
    "a token at the instant of its expiry",
    401,
    "bridge_token_expired",
    Effect.gen(function* () {
      const on = yield* holder()
      yield* TestClock.adjust(tokenTtl)
      return yield* unchanged(request(on, on.token))
    })
  ),
  row(
    "a token that was revoked",
    401,
    "bridge_token_revoked",
    Effect.flatMap(holder(), (on) => Effect.andThen(on.revoke(on.token), unchanged(request(on, on.token))))
  ),
  row(
    "a token that was rotated away",
    401,
    "bridge_token_revoked",
    Effect.flatMap(holder(), (on) => Effect.andThen(rotate(on, on.token, "r"), unchanged(request(on, on.token))))
  ),
  row(
    "a token that was revoked and has expired since",
    401,
    "bridge_token_revoked",
    Effect.gen(function* () {
      const on = yield* holder()
      yield* on.revoke(on.token)
      yield* TestClock.adjust(tokenTtl)
      return yield* request(on, on.token)
    })
  ),
  row(
    "the token from before a re-enrollment",
    401,
    "bridge_token_revoked",
    Effect.gen(function* () {
      const on = yield* holder()
      yield* holder(yield* withNewCredential(on.bridge, { reenroll: on.bridge.bridge_id }), "after")
      return yield* unchanged(request(on, on.token))
    })
  ),
  row(
    "a token that had expired before a re-enrollment",
    401,
    "bridge_token_expired",
    Effect.gen(function* () {
      const on = yield* holder()
      yield* TestClock.adjust(tokenTtl)
      yield* holder(yield* withNewCredential(on.bridge, { reenroll: on.bridge.bridge_id }), "after")
      return yield* unchanged(request(on, on.token))
    })
  ),
  row(
    "a pending successor",
    403,
    "bridge_token_pending",
    Effect.flatMap(rotating(), (on) => unchanged(request(on, on.successor)))
  ),
  row(
    "a successor at the end of its window, before a sweep",
    401,
    "bridge_token_revoked",
    Effect.gen(function* () {
      const on = yield* rotating()
      yield* TestClock.adjust(rotationTtl)
      return yield* unchanged(request(on, on.successor))
    })
  ),
  row(
    "an aborted successor",
    401,
    "bridge_token_revoked",
    Effect.flatMap(rotating(), (on) =>
      Effect.andThen(on.abort(on.successor, on.rotation_id), unchanged(request(on, on.successor)))
    )
  ),
  row(
    "a successor that was cancelled with its predecessor",
    401,
    "bridge_token_revoked",
    Effect.flatMap(rotating(), (on) => Effect.andThen(on.revoke(on.token), unchanged(request(on, on.successor))))
  ),
  row(
    "the token of a revoked identity",
    403,
    "bridge_revoked",
    Effect.flatMap(revokedByOperator, (on) => unchanged(request(on, on.token)))
  ),
  row(
    "the pending successor of a revoked identity",
    403,
    "bridge_revoked",
    Effect.flatMap(revokedByOperator, (on) => request(on, on.successor))
  ),
  row(
    "an expired token of a revoked identity",
    403,
    "bridge_revoked",
    Effect.gen(function* () {
      const on = yield* revokedByOperator
      yield* TestClock.adjust(tokenTtl)
      return yield* request(on, on.token)
    })
  ),
  row(
    "the token of a disabled project",
    403,
    "bridge_revoked",
    Effect.flatMap(projectDisabled, (on) => unchanged(request(on, on.token)))
  ),
  row(
    "rate limit exceeded and a malformed credential",
    429,
    "rate_limited",
    Effect.flatMap(exhausted, (on) => request(on, "x"))
  ),
  row(
    "a lost database connection",
    503,
    "bridge_persistence_error",
    Effect.flatMap(Effect.zip(holder(), disconnected), ([{ token }, on]) => unchanged(request(on, token)))
  )
]

const prepare = rowsFor("prepare")

const prepareRows = [
  ...activeTokenRows(prepare, (on, bearer) => on.prepare(bearer)),
  prepare(
    "no credential and no Idempotency-Key",
    401,
    "bridge_token_invalid",
    Effect.flatMap(Service, (on) => tokens(on).at("rotate/prepare", {}))
  ),
  prepare(
    "no Idempotency-Key",
    400,
    "idempotency_key_required",
    Effect.flatMap(holder(), (on) => on.at("rotate/prepare", { bearer: on.token }))
  ),
  prepare(
    "a blank Idempotency-Key",
    400,
    "idempotency_key_required",
    Effect.flatMap(holder(), (on) => on.prepare(on.token, "  "))
  ),
  prepare(
    "no Idempotency-Key and a malformed token",
    400,
    "idempotency_key_required",
    Effect.flatMap(Service, (on) => tokens(on).at("rotate/prepare", { bearer: "x" }))
  ),
  prepare(
    "an Idempotency-Key of 256 characters",
    400,
    "invalid_request",
    Effect.flatMap(holder(), (on) => on.prepare(on.token, "k".repeat(256)))
  ),
  prepare(
    "another Idempotency-Key while a successor is pending",
    409,
    "bridge_rotation_in_progress",
    Effect.flatMap(rotating(), (on) => unchanged(on.prepare(on.token, "another")))
  ),
  prepare(
    "another Idempotency-Key one millisecond before the window ends",
    409,
    "bridge_rotation_in_progress",
    Effect.gen(function* () {
      const on = yield* rotating()
      yield* TestClock.adjust(Duration.subtract(rotationTtl, Duration.millis(1)))
      return yield* on.prepare(on.token, "another")
    })
  ),
  prepare(
    "a key rotation that is pending",
    409,
    "bridge_key_rotation_in_progress",
    Effect.flatMap(keyRotating, (on) => askProven(on, "prepare", on.token, on.old))
  ),
  prepare(
    "the Idempotency-Key of a rotation whose window has passed, before a sweep",
    410,
    "bridge_rotation_expired",
    Effect.gen(function* () {
      const on = yield* rotating()
      yield* TestClock.adjust(rotationTtl)
      return yield* unchanged(on.prepare(on.token))
    })
  ),
  prepare(
    "the Idempotency-Key of an expired rotation while another is pending",
    410,
    "bridge_rotation_expired",
    Effect.gen(function* () {
      const on = yield* rotating()
      yield* TestClock.adjust(rotationTtl)
      successorOf(yield* on.prepare(on.token, "second"))
      return yield* unchanged(on.prepare(on.token))
    })
  ),
  prepare(
    "the Idempotency-Key of an aborted rotation",
    409,
    "bridge_rotation_aborted",
    Effect.flatMap(rotating(), (on) =>
      Effect.andThen(on.abort(on.successor, on.rotation_id), unchanged(on.prepare(on.token)))
    )
  ),
  prepare(
    "the Idempotency-Key of an aborted rotation while another is pending",
    409,
    "bridge_rotation_aborted",
    Effect.gen(function* () {
      const on = yield* rotating()
      yield* on.abort(on.successor, on.rotation_id)
      successorOf(yield* on.prepare(on.token, "second"))
      return yield* unchanged(on.prepare(on.token))
    })
  ),
  prepare(
    "the Idempotency-Key of an aborted rotation, after its window",
    409,
    "bridge_rotation_aborted",
    Effect.gen(function* () {
      const on = yield* rotating()
      yield* on.abort(on.successor, on.rotation_id)
      yield* TestClock.adjust(rotationTtl)
      return yield* on.prepare(on.token)
    })
  ),
  prepare(
    "the Idempotency-Key that rotated an earlier token of this Bridge",
    422,
    "idempotency_conflict",
    Effect.gen(function* () {
      const on = yield* holder()
      const next = yield* rotate(on, on.token, "r")
      return yield* unchanged(on.prepare(next, "r"))
    })
  ),
  prepare(
    "the Idempotency-Key that rotated an earlier token, while another rotation is pending",
    422,
    "idempotency_conflict",
    Effect.gen(function* () {
      const on = yield* holder()
      const next = yield* rotate(on, on.token, "r")
      successorOf(yield* on.prepare(next, "second"))
      return yield* unchanged(on.prepare(next, "r"))
    })
  ),
  prepare(
    "the Idempotency-Key of a rotation that a re-enrollment cancelled",
    422,
    "idempotency_conflict",
    Effect.gen(function* () {
      const on = yield* rotating()
      const { token } = yield* holder(yield* withNewCredential(on.bridge, { reenroll: on.bridge.bridge_id }), "after")
      return yield* unchanged(on.prepare(token))
    })
  )
]

/** The refusals that confirm and abort share; `other` is the one that `end` is not. */
const endRows = (row: ReturnType<typeof rowsFor>, end: "confirm" | "abort", other: "confirm" | "abort") => {
  const path = `rotate/${end}`
  const validRequest = (on: Rotating) => ({ bearer: on.successor, key: "e", body: { rotation_id: on.rotation_id } })
  const endRotation = (on: Rotating) => on[end](on.successor, on.rotation_id)
  const changed = (state: string, code: string, status: number, change: object) =>
    row(
      state,
      status,
      code,
      Effect.flatMap(rotating(), (on) => unchanged(on.at(path, { ...validRequest(on), ...change })))
    )
  return [
    changed("no credential", "bridge_token_invalid", 401, { bearer: undefined }),
    changed("no credential, no Idempotency-Key and no body", "bridge_token_invalid", 401, {
      bearer: undefined,
      key: undefined,
      body: undefined
    }),
    changed("no Idempotency-Key", "idempotency_key_required", 400, { key: undefined }),
    changed("no Idempotency-Key and a body that is not JSON", "idempotency_key_required", 400, {
      key: undefined,
      body: "{"
    }),
    changed("an Idempotency-Key with a space", "invalid_request", 400, { key: "a b" }),
    changed("a body that is not JSON", "invalid_request", 400, {
      body: "{",
      headers: { "content-type": "application/json" }
    }),
    changed("a rotation_id that is not a UUID", "invalid_request", 400, { body: { rotation_id: "1" } }),
    changed("no rotation_id", "invalid_request", 400, { body: {} }),
    changed("an unknown field", "invalid_request", 400, {
      body: { rotation_id: randomUUID(), force: true }
    }),
    changed("a body of another media type", "unsupported_media_type", 415, {
      body: "x".repeat(20_000),
      headers: { "content-type": "text/plain" }
    }),
    changed("a body over 16 KiB", "payload_too_large", 413, {
      body: { rotation_id: "x".repeat(16 * 1024) }
    }),
    changed("a malformed token and an invalid body", "invalid_request", 400, { bearer: "x", body: {} }),
    changed("a malformed token", "bridge_token_invalid", 401, { bearer: "x" }),
    row(
      "a token that was never minted",
      401,
      "bridge_token_invalid",
      Effect.flatMap(Effect.zip(rotating(), unknown), ([on, token]) => unchanged(on[end](token, on.rotation_id)))
    ),
    row(
      "no proof of the key, by a Bridge that has sent one",
      401,
      "bridge_proof_of_possession_invalid",
      Effect.flatMap(proving, (on) => unchanged(on[end](on.token, randomUUID())))
    ),
    row(
      "no proof of the key, and a revoked identity",
      401,
      "bridge_proof_of_possession_invalid",
      Effect.flatMap(proving, (on) =>
        Effect.andThen(revokeIdentity(on.bridge), unchanged(on[end](on.token, randomUUID())))
      )
    ),
    row(
      "the predecessor as bearer",
      409,
      "bridge_rotation_invalid_state",
      Effect.flatMap(rotating(), (on) => unchanged(on[end](on.token, on.rotation_id)))
    ),
    row(
      "an earlier rotation of the same Bridge",
      409,
      "bridge_rotation_invalid_state",
      Effect.gen(function* () {
        const on = yield* rotating()
        yield* on.abort(on.successor, on.rotation_id)
        const { successor } = successorOf(yield* on.prepare(on.token, "second"))
        return yield* unchanged(on[end](successor, on.rotation_id))
      })
    ),
    row(
      "a rotation that does not exist",
      404,
      "bridge_rotation_not_found",
      Effect.flatMap(rotating(), (on) => unchanged(on[end](on.successor, randomUUID())))
    ),
    row(
      "the rotation of another Bridge",
      404,
      "bridge_rotation_not_found",
      Effect.flatMap(Effect.zip(rotating(), rotating()), ([on, { rotation_id }]) =>
        unchanged(on[end](on.successor, rotation_id))
      )
    ),
    row(
      "a revoked token and a rotation that does not exist",
      401,
      "bridge_token_revoked",
      Effect.flatMap(holder(), (on) => Effect.andThen(on.revoke(on.token), on[end](on.token, randomUUID())))
    ),
    row(
      "the revoked predecessor",
      401,
      "bridge_token_revoked",
      Effect.flatMap(rotating(), (on) => Effect.andThen(on.revoke(on.token), on[end](on.token, on.rotation_id)))
    ),
    row(
      "an expired token and a rotation that does not exist",
      401,
      "bridge_token_expired",
      Effect.gen(function* () {
        const on = yield* holder()
        yield* TestClock.adjust(tokenTtl)
        return yield* on[end](on.token, randomUUID())
      })
    ),
    row(
      "a successor past its window and a rotation that does not exist",
      401,
      "bridge_token_revoked",
      Effect.gen(function* () {
        const on = yield* rotating()
        yield* TestClock.adjust(rotationTtl)
        return yield* on[end](on.successor, randomUUID())
      })
    ),
    row(
      "at the instant the window ends, before a sweep",
      410,
      "bridge_rotation_expired",
      Effect.gen(function* () {
        const on = yield* rotating()
        yield* TestClock.adjust(rotationTtl)
        return yield* unchanged(endRotation(on))
      })
    ),
    row(
      "past its window, after the next prepare",
      410,
      "bridge_rotation_expired",
      Effect.gen(function* () {
        const on = yield* rotating()
        yield* TestClock.adjust(rotationTtl)
        successorOf(yield* on.prepare(on.token, "second"))
        return yield* unchanged(endRotation(on))
      })
    ),
    row(
      "past its window, and the predecessor revoked later",
      410,
      "bridge_rotation_expired",
      Effect.gen(function* () {
        const on = yield* rotating()
        yield* TestClock.adjust(rotationTtl)
        yield* on.revoke(on.token)
        return yield* endRotation(on)
      })
    ),
    row(
      "past its window, and the predecessor expired later",
      410,
      "bridge_rotation_expired",
      Effect.gen(function* () {
        const on = yield* rotating()
        yield* TestClock.adjust(tokenTtl)
        return yield* endRotation(on)
      })
    ),
    row(
      "past its window, and re-enrolled later",
      410,
      "bridge_rotation_expired",
      Effect.gen(function* () {
        const on = yield* rotating()
        yield* TestClock.adjust(rotationTtl)
        yield* holder(yield* withNewCredential(on.bridge, { reenroll: on.bridge.bridge_id }), "after")
        return yield* endRotation(on)
      })
    ),
    row(
      "a rotation that was ended the other way",
      409,
      other === "confirm" ? "bridge_rotation_confirmed" : "bridge_rotation_aborted",
      Effect.flatMap(rotating(), (on) =>
        Effect.andThen(
          on[other](on.successor, on.rotation_id, "e"),
          unchanged(on[end](on.successor, on.rotation_id, "e"))
        )
      )
    ),
    row(
      "a rotation that was ended this way with another Idempotency-Key",
      409,
      end === "confirm" ? "bridge_rotation_confirmed" : "bridge_rotation_aborted",
      Effect.flatMap(rotating(), (on) =>
        Effect.andThen(endRotation(on), unchanged(on[end](on.successor, on.rotation_id, "another")))
      )
    ),
    row(
      "a confirmed rotation whose successor was revoked since",
      401,
      "bridge_token_revoked",
      Effect.gen(function* () {
        const on = yield* rotating()
        yield* on.confirm(on.successor, on.rotation_id)
        yield* on.revoke(on.successor)
        return yield* unchanged(endRotation(on))
      })
    ),
    row(
      "a confirmed rotation whose successor has expired since",
      401,
      "bridge_token_expired",
      Effect.gen(function* () {
        const on = yield* rotating()
        yield* on.confirm(on.successor, on.rotation_id)
        yield* TestClock.adjust(tokenTtl)
        return yield* endRotation(on)
      })
    ),
    row(
      "a revoked predecessor",
      409,
      "bridge_rotation_predecessor_revoked",
      Effect.flatMap(rotating(), (on) => Effect.andThen(on.revoke(on.token), unchanged(endRotation(on))))
    ),
    row(
      "a revoked predecessor, and a window that has passed since",
      409,
      "bridge_rotation_predecessor_revoked",
      Effect.gen(function* () {
        const on = yield* rotating()
        yield* on.revoke(on.token)
        yield* TestClock.adjust(rotationTtl)
        return yield* endRotation(on)
      })
    ),
    row(
      "a Bridge that was re-enrolled",
      409,
      "bridge_rotation_predecessor_revoked",
      Effect.gen(function* () {
        const on = yield* rotating()
        yield* holder(yield* withNewCredential(on.bridge, { reenroll: on.bridge.bridge_id }), "after")
        return yield* unchanged(endRotation(on))
      })
    ),
    row(
      "a revoked identity",
      403,
      "bridge_revoked",
      Effect.flatMap(revokedByOperator, (on) => unchanged(endRotation(on)))
    ),
    row(
      "a revoked identity and a rotation that does not exist",
      403,
      "bridge_revoked",
      Effect.flatMap(revokedByOperator, (on) => on[end](on.successor, randomUUID()))
    ),
    row(
      "a disabled project",
      403,
      "bridge_revoked",
      Effect.flatMap(projectDisabled, (on) => unchanged(endRotation(on)))
    ),
    row(
      "the Idempotency-Key that ended an earlier rotation this way",
      422,
      "idempotency_conflict",
      Effect.gen(function* () {
        const first = yield* rotating()
        yield* first[end](first.successor, first.rotation_id, "once")
        const token = end === "confirm" ? first.successor : first.token
        const { rotation_id, successor } = successorOf(yield* first.prepare(token, "second"))
        return yield* unchanged(first[end](successor, rotation_id, "once"))
      })
    ),
    row(
      "rate limit exceeded and a malformed credential",
      429,
      "rate_limited",
      Effect.flatMap(exhausted, (on) => on[end]("x", randomUUID()))
    ),
    row(
      "a lost database connection",
      503,
      "bridge_persistence_error",
      Effect.flatMap(Effect.zip(rotating(), disconnected), ([{ rotation_id, successor }, on]) =>
        unchanged(on[end](successor, rotation_id))
      )
    )
  ]
}

const confirm = rowsFor("confirm")

const confirmRows = [
  ...endRows(confirm, "confirm", "abort"),
  confirm(
    "a predecessor that expired within the window",
    409,
    "bridge_rotation_predecessor_expired",
    Effect.gen(function* () {
      const on = yield* nearExpiry
      yield* TestClock.adjust(Duration.seconds(100))
      return yield* unchanged(on.confirm(on.successor, on.rotation_id))
    })
  ),
  confirm(
    "a predecessor that expired within the window, which has passed since",
    409,
    "bridge_rotation_predecessor_expired",
    Effect.gen(function* () {
      const on = yield* nearExpiry
      yield* TestClock.adjust(rotationTtl)
      return yield* on.confirm(on.successor, on.rotation_id)
    })
  ),
  confirm(
    "a predecessor that expired within the window, and a later re-enrollment",
    409,
    "bridge_rotation_predecessor_expired",
    Effect.gen(function* () {
      const on = yield* nearExpiry
      yield* TestClock.adjust(Duration.seconds(100))
      yield* holder(yield* withNewCredential(on.bridge, { reenroll: on.bridge.bridge_id }), "after")
      return yield* on.confirm(on.successor, on.rotation_id)
    })
  )
]

const abort = rowsFor("abort")

const abortRows = [
  ...endRows(abort, "abort", "confirm"),
  abort(
    "past its window, with a predecessor that expired within it",
    410,
    "bridge_rotation_expired",
    Effect.gen(function* () {
      const on = yield* nearExpiry
      yield* TestClock.adjust(rotationTtl)
      return yield* on.abort(on.successor, on.rotation_id)
    })
  )
]

const retired = rowsFor("rotate")
const retiredCode = "bridge_rotation_protocol_upgrade_required"

const retiredRows = [
  retired(
    "an empty request",
    410,
    retiredCode,
    Effect.flatMap(Service, (on) => tokens(on).at("rotate", {}))
  ),
  retired(
    "a good token",
    410,
    retiredCode,
    Effect.flatMap(holder(), (on) => unchanged(on.at("rotate", { bearer: on.token, key: "k" })))
  ),
  retired(
    "a revoked identity",
    410,
    retiredCode,
    Effect.flatMap(revokedByOperator, (on) => on.at("rotate", { bearer: on.token, key: "k" }))
  ),
  retired(
    "a body of another media type, over 16 KiB",
    410,
    retiredCode,
    Effect.flatMap(Service, (on) =>
      tokens(on).at("rotate", { body: "x".repeat(20_000), headers: { "content-type": "text/plain" } })
    )
  ),
  retired(
    "a lost database connection",
    410,
    retiredCode,
    Effect.flatMap(disconnected, (on) => on.at("rotate", {}))
  ),
  retired(
    "rate limit exceeded",
    410,
    retiredCode,
    Effect.flatMap(exhausted, (on) => on.at("rotate", {}))
  )
]

/** The codes that spec 7.2 names. */
const specified = `
  bridge_enrollment_credential_required bridge_enrollment_credential_invalid bridge_enrollment_credential_expired
  bridge_enrollment_credential_used bridge_enrollment_credential_revoked project_mismatch
  enrollment_challenge_not_found enrollment_challenge_mismatch enrollment_challenge_expired
  enrollment_challenge_consumed enrollment_proof_invalid enrollment_key_mismatch bridge_not_pending
  bridge_identity_conflict bridge_persistence_error bridge_revoked bridge_token_invalid bridge_token_expired
  bridge_token_revoked bridge_token_pending bridge_rotation_protocol_upgrade_required bridge_rotation_in_progress
  bridge_rotation_not_found bridge_rotation_expired bridge_rotation_aborted bridge_rotation_confirmed
  bridge_rotation_invalid_state bridge_rotation_predecessor_revoked bridge_rotation_predecessor_expired
  idempotency_key_required idempotency_conflict`
  .trim()
  .split(/\s+/)

layer(Service.layer)("the codes of rotation", (it) => {
  const rows = [
    ...prepareRows,
    ...confirmRows,
    ...abortRows,
    ...activeTokenRows(rowsFor("revoke"), (on, bearer) => on.revoke(bearer)),
    ...activeTokenRows(rowsFor("self"), (on, bearer) => on.self(bearer)),
    ...retiredRows
  ]
  testEach(it, rows)

  it.effect("the retired endpoint names the one that replaces it", () =>
    Effect.gen(function* () {
      const { headers } = yield* tokens(yield* Service).at("rotate", {})
      assert.strictEqual(headers.get("link"), '</bridge/v1/tokens/rotate/prepare>; rel="successor-version"')
    })
  )

  it("each endpoint answers exactly the codes that it declares", () => {
    const all = [...declared("rotation"), ...declared("retired")]
    assert.deepStrictEqual(reached(rows as never), all.toSorted())
  })

  // enrollment-codes.test.ts checks that the enrollment endpoints answer what they declare.
  it("together the endpoints declare the 31 codes of the specification", () => {
    const codes = new Set(["enrollment", "rotation", "retired"].flatMap(declared).map((row) => row.split(" ")[2]!))
    assert.lengthOf(specified, 31)
    assert.deepStrictEqual(
      specified.filter((code) => !codes.has(code)),
      []
    )
  })
})
