/** Work in the background is done when it is time, and goes on after a failure and after a defect. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { Erasures, eraseForever } from "../../src/people/erasure/Erasures.ts"
import { linkForever } from "../../src/platform/audit/Linker.ts"
import { maintainForever, Partitions } from "../../src/platform/audit/Partitions.ts"
import { DatabaseClock } from "../../src/platform/database/Clock.ts"
import { Database } from "../../src/platform/database/Database.ts"
import { refuse } from "../../src/wire/Errors.ts"

type Turn = Effect.Effect<void, ReturnType<typeof refuse>>

const eraseEach = (turn: Turn) =>
  Effect.provideService(eraseForever, Erasures, { pass: turn } as unknown as Erasures["Service"])

/** `isOwner`: whether the account owns the audit log. */
const maintainEach = (turn: Turn, isOwner = true) => {
  const sql = () => Effect.succeed([{ isOwner, months_ahead: 12 }])
  return maintainForever.pipe(
    Effect.provideService(Partitions, { maintain: turn } as unknown as Partitions["Service"]),
    Effect.provideService(SqlClient.SqlClient, sql as unknown as SqlClient.SqlClient),
    Effect.provide(DatabaseClock.layerLocal)
  )
}

/** A turn is a connection, which lasts for many. */
const linkEach = (turn: Turn) =>
  linkForever.pipe(
    Effect.provideService(Database, { dedicated: () => turn } as unknown as Database["Service"]),
    Effect.provide(DatabaseClock.layerLocal)
  )

/** How many turns there were after each of these times. */
const turnsAfter = Effect.fnUntraced(function* (
  seconds: ReadonlyArray<number>,
  turn: Turn,
  each: (turn: Turn) => Effect.Effect<unknown, unknown>
) {
  let turns = 0
  const counted = Effect.suspend(() => (turns++, turn))
  yield* Effect.forkChild(each(counted), { startImmediately: true })
  return yield* Effect.forEach(seconds, (more) => Effect.map(TestClock.adjust(`${more} seconds`), () => turns))
})

const failures = {
  "a failure": Effect.fail(refuse("bridge_persistence_error", 1)),
  "a defect": Effect.die(new Error("A planted defect"))
}

const works = [
  ["what is due is erased", 600, eraseEach],
  ["the partitions of the audit log are kept", 3600, maintainEach],
  ["audit rows are linked", 5, linkEach]
] as const

describe("after a start", () => {
  for (const [what, seconds, each] of works) {
    it.effect.each(Object.entries(failures))(`${what} again after %s`, ([, failure]) =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* turnsAfter([0, seconds - 1, 1, seconds], failure, each), [1, 1, 2, 3])
      })
    )
  }

  it.effect("the partitions of the audit log are kept by their owner only", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* turnsAfter([0, 3600], Effect.void, maintainEach), [1, 2])
      assert.deepStrictEqual(yield* turnsAfter([0, 3600], Effect.void, (turn) => maintainEach(turn, false)), [0, 0])
    })
  )
})
