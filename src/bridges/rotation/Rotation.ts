/**
 * The life of a Bridge token after enrollment: two-phase rotation and revocation (spec 3.2 to 3.4, 4.3 to 4.7).
 *
 * 1. Prepare mints a successor beside the active token, its predecessor, and opens the confirmation window (prepare.ts).
 * 2. The Bridge stores both tokens and confirms with the successor as bearer. One statement revokes the predecessor and
 *    promotes the successor to the active token (confirmOrAbort.ts).
 * 3. If the Bridge aborts instead, or the window passes, only the successor ends.
 *
 * The successor is derived from the predecessor that prepare presents, so every replica answers an exact retry with the
 * same successor. Whichever response is lost, the Bridge holds a valid token and can repeat its request.
 */
import { Context, Effect, Layer } from "effect"
import type { Aborted, Confirmed, Prepared, Revoked, Self } from "../../wire/bridges/RotationApi.ts"
import type {
  abortCodes,
  activeTokenCodes,
  confirmCodes,
  prepareCodes,
  RotationRefusal
} from "../../wire/bridges/RotationErrors.ts"
import type { Replayable } from "../../wire/Headers.ts"
import * as ConfirmOrAbort from "./confirmOrAbort.ts"
import * as DescribeToken from "./describeToken.ts"
import * as Prepare from "./prepare.ts"
import * as RevokeToken from "./revokeToken.ts"
import { type BearerToken, TokenCheck } from "./TokenCheck.ts"

export class Rotation extends Context.Service<
  Rotation,
  {
    readonly prepare: (
      bearer: BearerToken,
      key: string
    ) => Effect.Effect<Replayable<Prepared>, RotationRefusal<(typeof prepareCodes)[number]>>
    readonly confirm: (
      bearer: BearerToken,
      rotation_id: string,
      key: string
    ) => Effect.Effect<Replayable<Confirmed>, RotationRefusal<(typeof confirmCodes)[number]>>
    readonly abort: (
      bearer: BearerToken,
      rotation_id: string,
      key: string
    ) => Effect.Effect<Replayable<Aborted>, RotationRefusal<(typeof abortCodes)[number]>>
    /** Final for this token; cancels its pending successor. */
    readonly revoke: (bearer: BearerToken) => Effect.Effect<Revoked, RotationRefusal<(typeof activeTokenCodes)[number]>>
    readonly self: (bearer: BearerToken) => Effect.Effect<Self, RotationRefusal<(typeof activeTokenCodes)[number]>>
  }
>()("service/bridges/Rotation") {
  static readonly layer = Layer.effect(
    Rotation,
    Effect.gen(function* () {
      const prepare = yield* Prepare.make
      const { abort, confirm } = yield* ConfirmOrAbort.make
      const revoke = yield* RevokeToken.make
      const self = yield* DescribeToken.make
      return { prepare, confirm, abort, revoke, self }
    })
  ).pipe(Layer.provide(TokenCheck.layer))
}
