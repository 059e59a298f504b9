/** What `doctor` says about several processes. */
import { assert, describe, it } from "@effect/vitest"
import { processes } from "../../cli/support/checks/processes.ts"

const told = (count: number, processors: number) =>
  processes({ database: { poolSize: 5 }, http: { connections: 4000 }, processes: count } as never, processors)

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

  it("warns of more processes than processors", () => {
    assert.deepStrictEqual(told(4, 2), [
      {
        name: "processes",
        status: "warn",
        message: "4 processes share 2 processors, which makes them slower: set SERVICE_PROCESSES to auto."
      }
    ])
  })
})
