/** The simulation behind docs/scaling.md agrees with queueing theory. */
import { assert, describe, it } from "@effect/vitest"
import { costOf, loadOf, simulate } from "../../../bench/scaling/capacity.ts"
import { read } from "../../support/run/Markdown.ts"

/** Requests that cost a replica one millisecond and the database almost nothing. */
const one = (per_second: number) => [{ name: "one", per_second, replica: 1000, database: 0.001 }]

describe("the simulation of replicas", () => {
  it("gives the same numbers for the same seed, and different ones for another", () => {
    const run = (seed: number) => simulate(one(500), { replicas: 1, cores: 1 }, { seed })
    assert.deepStrictEqual(run(7), run(7))
    assert.notDeepEqual(run(7), run(8))
  })

  it("reproduces the response times of an M/M/1 queue: exponential with mean 1 / (service rate - arrival rate)", () => {
    for (const per_second of [300, 500, 800]) {
      const { p50_ms, p99_ms, replica_busy } = simulate(one(per_second), { replicas: 1, cores: 1 })
      const mean = 1000 / (1000 - per_second)
      assert.closeTo(replica_busy, per_second / 1000, 1e-9)
      assert.closeTo(p50_ms / (mean * Math.log(2)), 1, 0.15)
      assert.closeTo(p99_ms / (mean * Math.log(100)), 1, 0.15)
    }
  })

  it("halves the load of a replica when there are two, and not the load of the database", () => {
    const load = [{ name: "one", per_second: 400, replica: 1000, database: 500 }]
    const [alone, two] = [1, 2].map((replicas) => simulate(load, { replicas, cores: 2 }))
    assert.closeTo(two!.replica_busy, alone!.replica_busy / 2, 1e-9)
    assert.strictEqual(two!.database_busy, alone!.database_busy)
    assert.isBelow(two!.p99_ms, alone!.p99_ms)
  })

  it("takes its costs from docs/benchmarks.md", () => {
    const page = read("docs/benchmarks.md")
    const unknown = { replica: -1, database: -1 }
    for (const row of ["tokens/self", "rotation, prepare and confirm"]) {
      const { database, replica } = costOf(page, row, unknown)
      assert.isAbove(replica, 10, row)
      assert.isAbove(database, 10, row)
    }
    assert.deepStrictEqual(costOf(page, "a row that is not there", unknown), unknown)
    assert.strictEqual(loadOf(page, 120, { lookup: 60, rotation: 1, tool: 1 })[0]!.per_second, 2)
  })
})
