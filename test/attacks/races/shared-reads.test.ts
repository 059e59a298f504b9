/**
 * A lookup that begins after a revocation was answered never finds the token alive, whatever statement it shares
 * (decisions.md, Lookups that share a statement).
 */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Fiber, Redacted, type Scope } from "effect"
import { Rotation } from "../../../src/bridges/rotation/Rotation.ts"
import { credentialOf } from "../../../src/platform/edge/BearerCredential.ts"
import { Access } from "../../../src/signin/access/Access.ts"
import { ProjectTokens } from "../../../src/signin/access/ProjectTokens.ts"
import { Grants } from "../../../src/signin/oauth/grants/Grants.ts"
import { makeToken, signIn } from "../../support/agents/Agent.ts"
import { invariants } from "../../support/attacks/Invariants.ts"
import { overtaken, readsAtGate } from "../../support/attacks/Late.ts"
import { race, sometime } from "../../support/attacks/Race.ts"
import { holder } from "../../support/bridges/Tokens.ts"
import { firstPage } from "../../support/database/Page.ts"
import { faultyDatabase } from "../../support/service/Faults.ts"
import { share } from "../../support/service/Conflicts.ts"
import { instance, Service } from "../../support/service/Service.ts"

type Instance = Pick<Service["Service"], "services">

const isAccepted = <A, E, R>(authentication: Effect.Effect<A, E, R>) => Effect.isSuccess(authentication)

const authorized =
  (token: string) =>
  ({ services }: Instance) =>
    isAccepted(Context.get(services, Access).authorize(credentialOf(`Bearer ${token}`)))

interface Held {
  readonly accepted: (on: Instance) => Effect.Effect<boolean>
  readonly revoke: Effect.Effect<void, unknown>
}

/** A token, and whether an instance accepts it; `revoke` ends it through another instance. */
const kinds: Readonly<Record<string, Effect.Effect<Held, unknown, Service | Scope.Scope>>> = {
  "a Bridge token": Effect.map(holder(), ({ revoke, token }) => ({
    accepted: ({ services }: Instance) => isAccepted(Context.get(services, Rotation).self(Redacted.make(token))),
    revoke: Effect.asVoid(revoke(token))
  })),
  "a project token": Effect.gen(function* () {
    const service = yield* Service
    const { token, token_id } = yield* makeToken(service)
    return {
      accepted: authorized(token),
      revoke: Effect.asVoid(Context.get(service.services, ProjectTokens).revoke(token_id))
    }
  }),
  "an access token": Effect.gen(function* () {
    const service = yield* Service
    const { project_id, token } = yield* makeToken(service)
    const { access_token } = yield* signIn(service, { token })
    const grants = Context.get(service.services, Grants)
    const [only] = yield* grants.list(project_id, firstPage)
    return { accepted: authorized(access_token), revoke: Effect.asVoid(grants.revoke(only!.grant_id)) }
  })
}

const isLookup = (statement: string) => /token_hash = (\$\d|asked\.token_hash)/.test(statement)
const isShared = (statement: string) => statement.includes("as asked (token_hash")

/** An instance, and how many of its lookups' statements were shared. `gated`: those that wait at the gate. */
const counting = Effect.fnUntraced(function* (
  settings: Readonly<Record<string, string>>,
  gated: (statement: string) => boolean = () => false
) {
  let shared = 0
  const { layer } = faultyDatabase((statement) => {
    if (isShared(statement)) shared++
    return isLookup(statement) && gated(statement) ? readsAtGate(statement) : statement
  })
  return { ...(yield* instance(settings, layer)), shared: () => shared }
})

layer(Service.layer)("a lookup", (it) => {
  for (const [kind, make] of Object.entries(kinds)) {
    for (const lookups of ["on", "off"]) {
      it.effect(`of ${kind} sees a revocation that was answered, with SERVICE_SHARED_LOOKUPS=${lookups}`, () =>
        Effect.gen(function* () {
          const on = yield* counting({ SERVICE_SHARED_LOOKUPS: lookups })
          const round = Effect.gen(function* () {
            const { accepted, revoke } = yield* make
            const answered = { revocation: false }
            const reader = Effect.gen(function* () {
              while (!answered.revocation) yield* accepted(on)
              assert.isFalse(yield* accepted(on))
            })
            const revocation = Effect.tap(sometime(revoke), () => Effect.sync(() => (answered.revocation = true)))
            yield* Effect.all([revocation, ...Array.from({ length: 20 }, () => reader)], { concurrency: "unbounded" })
          })
          yield* race(round, invariants)
          assert.strictEqual(on.shared() > 0, lookups === "on")
        })
      )
    }

    const late: Readonly<Record<string, (statement: string) => boolean>> = {
      "a statement of one": (statement) => !isShared(statement),
      "a shared statement": isShared
    }
    for (const [which, gated] of Object.entries(late)) {
      it.effect(`of ${kind} sees a revocation that overtook ${which} under way`, () =>
        Effect.gen(function* () {
          const { accepted, revoke } = yield* make
          let isGated = true
          const on = yield* counting({}, (statement: string) => isGated && gated(statement))
          const lookups = Effect.all([accepted(on), accepted(on), accepted(on)], { concurrency: "unbounded" })
          const after: Array<Fiber.Fiber<boolean>> = []
          const before = yield* overtaken(
            lookups,
            Effect.gen(function* () {
              isGated = false
              yield* revoke
              for (let i = 0; i < 3; i++) after.push(yield* Effect.forkDetach(accepted(on)))
            })
          )
          // The statement that was overtaken answers as of its start, but only lookups that began before.
          assert.include(before, true)
          assert.deepStrictEqual(yield* Effect.forEach(after, Fiber.join), [false, false, false])
          // A lookup that met a conflict is repeated when nobody else's is under way.
          if (share === 0) assert.isAbove(on.shared(), 0)
        })
      )
    }
  }
})
