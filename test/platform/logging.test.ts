/** What a fault and an unread log leave of log lines (docs/reference.md, Log lines). */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Logger, References } from "effect"
import { Writable } from "node:stream"
import { logFault } from "../../src/platform/database/FaultLog.ts"
import { linesTo } from "../../src/platform/process/Logging.ts"

const seconds = (count: number) => Effect.promise(() => new Promise((resume) => setTimeout(resume, count * 1000)))

describe("a fault", () => {
  it.effect("has one line a second for each kind, with how often it happened", () =>
    Effect.gen(function* () {
      const lines: Array<readonly [unknown, object]> = []
      const logger = Logger.make(({ fiber, message }) => {
        lines.push([[message].flat()[0], fiber.getRef(References.CurrentLogAnnotations)])
      })
      const fail = (reason: string) => logFault("It failed", { reason })
      yield* Effect.gen(function* () {
        for (let n = 0; n < 500; n++) yield* Effect.annotateLogs(fail("a"), "request_id", String(n))
        yield* fail("b")
        yield* seconds(1.3)
        yield* fail("a")
        yield* seconds(2.5)
        yield* fail("a")
      }).pipe(Effect.provide(Logger.layer([logger])))
      assert.deepStrictEqual(lines, [
        ["It failed", { reason: "a", count: 1, request_id: "0" }],
        ["It failed", { reason: "b", count: 1 }],
        ["It failed", { reason: "a", count: 499 }],
        ["It failed", { reason: "a", count: 1 }],
        ["It failed", { reason: "a", count: 1 }]
      ])
    })
  )
})

describe("a log that nobody reads", () => {
  it.effect("keeps a mebibyte of lines, drops the others, and says how many once somebody reads", () =>
    Effect.gen(function* () {
      const received: Array<string> = []
      let read: () => void = () => {}
      const stream = new Writable({
        decodeStrings: false,
        write: (line: string, _, done) => {
          read = () => {
            received.push(line)
            done()
          }
        }
      })
      const readAll = Effect.gen(function* () {
        while (stream.writableLength > 0) {
          read()
          yield* Effect.promise(() => new Promise((resume) => setImmediate(resume)))
        }
      })
      yield* Effect.forEach(Array.from({ length: 300 }), () => Effect.logInfo("x".repeat(10_000))).pipe(
        Effect.andThen(
          Effect.gen(function* () {
            assert.isBelow(stream.writableLength, 1_048_576 + 11_000)
            const kept = Math.ceil(stream.writableLength / 10_100)
            yield* readAll
            const before = received.length
            assert.approximately(before, kept, 3)
            yield* Effect.logInfo("read again")
            yield* readAll
            const [lost, again] = received.slice(before).map((line) => JSON.parse(line))
            assert.strictEqual(lost.message, `${300 - before} log lines were lost, because nobody read them`)
            assert.strictEqual(lost.level, "WARN")
            assert.strictEqual(again.message, "read again")
          })
        ),
        Effect.provide(Logger.layer([linesTo(stream)]))
      )
    })
  )
})
