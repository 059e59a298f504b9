/** The lists that begin with the Bridges that cannot work, then those whose token ends first. */
import { assert, layer } from "@effect/vitest"
import { Context, Effect } from "effect"
import { TestClock } from "effect/testing"
import { Bridges } from "../../src/bridges/identity/Bridges.ts"
import { sweeps } from "../../src/bridges/Wing.ts"
import { DatabaseClock } from "../../src/platform/database/Clock.ts"
import { sweepOnce } from "../../src/platform/database/Sweeper.ts"
import { Settings } from "../../src/platform/settings/Settings.ts"
import { Bridge } from "../support/bridges/Bridge.ts"
import { withNewCredential } from "../support/bridges/Steps.ts"
import { holder, rotate } from "../support/bridges/Tokens.ts"
import { firstPage } from "../support/database/Page.ts"
import { Service } from "../support/service/Service.ts"

layer(Service.layer)("Bridges by the end of their token", (it) => {
  it.effect("begin with those whose token was revoked or has ended, until they enroll again", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const bridges = Context.get(service.services, Bridges)
      const sweep = Effect.provideContext(sweepOnce(sweeps), Context.pick(DatabaseClock, Settings)(service.services))
      const ended = yield* holder()
      const { project_id } = ended.bridge
      const another = Effect.flatMap(Bridge.make(service, { project_id }), holder)
      yield* TestClock.adjust("1 hour")
      const revoked = yield* another
      const rotated = yield* another
      yield* TestClock.adjust("22 hours")
      yield* rotate(rotated, rotated.token, "rotate")
      const young = yield* another
      yield* TestClock.adjust("1 hour")
      yield* revoked.revoke(revoked.token)
      yield* sweep

      const listed = Effect.map(bridges.listByEnd(project_id, firstPage), (found) =>
        found.map(({ bridge_id, token_expires_at }) => [bridge_id, token_expires_at !== null])
      )
      const of = ({ bridge }: { readonly bridge: Bridge }) => bridge.bridge_id
      const without = [of(ended), of(revoked)].toSorted().map((id) => [id, false])
      const living = [of(rotated), of(young)].map((id) => [id, true])
      const [rest, first] = [yield* listed, yield* bridges.listEnding(project_id, 10)]
      assert.deepStrictEqual(rest.slice(0, 2), without)
      assert.sameDeepMembers(rest.slice(2), living)
      assert.deepStrictEqual(
        first.map(({ bridge_id }) => [bridge_id, false]),
        without
      )

      yield* holder(yield* withNewCredential(ended.bridge, { reenroll: of(ended) }), "again")
      assert.deepStrictEqual((yield* listed).at(0), [of(revoked), false])
      assert.deepStrictEqual((yield* listed).at(-1), [of(ended), true])
    })
  )
})
