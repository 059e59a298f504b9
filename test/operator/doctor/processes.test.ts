/** What `doctor` says about several processes. */
import { assert, describe, it } from "@effect/vitest"
import { processes } from "../../../cli/support/checks/processes.ts"

const told = (count: number, processors: number, running: ReadonlyArray<number> = []) =>
  processes(
    { database: { poolSize: 5 }, http: { connections: 4000 }, processes: count } as never,
    processors,
    running.map((worker) => ({
      worker,
      pid: 40 + worker,
      age: 9,
      memory_bytes: 150 * 2 ** 20
    }))
  )

describe("doctor", () => {
  it("says nothing about a single process", () => assert.deepStrictEqual(told(1, 8), []))

  it("says what each of several processes has", () => {
    assert.deepStrictEqual(told(4, 4), [
      {
        name: "processes",
        status: "ok",
        message: "4 processes share the port; each has 5 connections to the database and 4000 of clients."
      }
    ])
  })

  it("lists the workers that run, and warns if some do not", () =>
    assert.deepStrictEqual(
      told(2, 2, [2])
        .slice(1)
        .map(({ message, status }) => `${status}: ${message}`),
      [
        "ok: These workers run: 2 (process 42, 150 MiB, for 9 s).",
        "warn: 1 of 2 workers run: the log says why the others ended."
      ]
    ))

  it("warns of more processes than processors", () => {
    assert.deepStrictEqual(told(4, 2), [
      {
        name: "processes",
        status: "warn",
        message: "4 processes share 2 processors, which makes them slower: set SERVICE_PROCESSES to auto."
      }
    ])
    assert.match(told(2, 1)[0]!.message, /^2 processes share one processor, /)
  })
})
