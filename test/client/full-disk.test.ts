/** A state folder whose disk is full or gone for a while (decisions.md, A Bridge whose disk is full). */
import { assert, describe, it as plain, layer } from "@effect/vitest"
import { Effect, Fiber, Layer, Logger } from "effect"
import { TestClock } from "effect/testing"
import type * as fs from "node:fs/promises"
import { DatabaseSync } from "node:sqlite"
import { afterEach, vi } from "vitest"
import { Journal } from "../../src/client/bridge/Journal.ts"
import { waitForFolder } from "../../src/client/bridge/run.ts"
import { exitCode } from "../../src/platform/process/Exit.ts"
import { makeProject } from "../support/bridges/Bridge.ts"
import { folder, newcomer, outside, process, tokensOf } from "../support/bridges/BridgeProcess.ts"
import { Service } from "../support/service/Service.ts"

/** The system's error for each new file, for `sync`, or for none. */
const disk: { code: string | undefined; at: "open" | "sync"; refused: number } = {
  code: undefined,
  at: "open",
  refused: 0
}
const refuse = (at: "open" | "sync") => {
  if (disk.code === undefined || disk.at !== at) return
  disk.refused += 1
  throw Object.assign(new Error(`${disk.code}: the disk of the test`), { code: disk.code })
}

vi.mock("node:fs/promises", async (original) => {
  const real = await original<typeof fs>()
  const open: typeof fs.open = async (path, flags, mode) => {
    if (flags === "wx") refuse("open")
    const file = await real.open(path, flags, mode)
    const sync = file.sync.bind(file)
    file.sync = async () => {
      refuse("sync")
      await sync()
    }
    return file
  }
  return { ...real, open }
})

const passing = ["ENOSPC", "EDQUOT", "EIO", "EROFS", "EMFILE", "ENFILE"]

afterEach(() => {
  disk.code = undefined
  disk.refused = 0
  vi.restoreAllMocks()
})

layer(Service.layer)("a Bridge whose disk is full or gone for a while", (it) => {
  const enrolled = Effect.gen(function* () {
    const service = yield* Service
    const bridge = yield* newcomer(service, yield* makeProject(service))
    yield* process(bridge.path, bridge.enroll)
    return { service, ...bridge }
  })

  /** Advances the clock while no request is under way, until `done`. */
  const advanceUntil = (done: () => boolean) =>
    Effect.suspend(() => (outside.busy > 0 ? Effect.void : TestClock.adjust("1 minute"))).pipe(
      Effect.andThen(TestClock.withLive(Effect.sleep("1 millis"))),
      Effect.repeat({ until: done })
    )

  for (const [at, code] of [
    ["open", "ENOSPC"],
    ["open", "EROFS"],
    ["sync", "EIO"]
  ] as const) {
    it.effect(`keeps running through ${code} at ${at}, says so once, and rotates when the disk is back`, () =>
      Effect.gen(function* () {
        const { order, path, service } = yield* enrolled
        Object.assign(disk, { code, at })
        const warnings: Array<string> = []
        const logger = Logger.make(({ logLevel, message }) => {
          if (logLevel === "Warn") warnings.push(String(message))
        })
        let rotated = false
        const running = process(path, (bridge) => bridge.run, {
          onWrite: ({ rotation }) => Effect.sync(() => void (rotated ||= rotation?.state === "confirmed"))
        })
        const fiber = yield* Effect.forkChild(Effect.provide(running, Logger.layer([logger])))
        yield* advanceUntil(() => disk.refused >= 5 || fiber.pollUnsafe() !== undefined)
        assert.isUndefined(fiber.pollUnsafe())
        disk.code = undefined
        yield* advanceUntil(() => rotated)
        yield* Fiber.interrupt(fiber)
        assert.strictEqual(warnings.filter((line) => line.includes(code)).length, 1, warnings.join("\n"))
        assert.deepEqual(yield* tokensOf(service, order.identity), ["active", "revoked"])
        yield* process(path, (bridge) => bridge.rotate)
      })
    )
  }

  it.effect("starts when its folder can be locked again", () =>
    Effect.gen(function* () {
      const { path } = yield* enrolled
      const exec = vi.spyOn(DatabaseSync.prototype, "exec").mockImplementation(() => {
        throw Object.assign(new Error("database or disk is full"), { errcode: 13 })
      })
      const starting = yield* Effect.forkChild(waitForFolder(process(path, (bridge) => bridge.rotate)))
      yield* advanceUntil(() => exec.mock.calls.length >= 3)
      assert.isUndefined(starting.pollUnsafe())
      exec.mockRestore()
      yield* advanceUntil(() => starting.pollUnsafe() !== undefined)
      assert.isFalse((yield* Fiber.join(starting)).killed)
    })
  )

  it.effect("ends other commands with 75, and the next one works", () =>
    Effect.gen(function* () {
      const { path } = yield* enrolled
      for (const code of passing) {
        disk.code = code
        const exit = yield* Effect.exit(process(path, (bridge) => bridge.rotate))
        const codes: Array<number> = []
        exitCode(exit, (code) => codes.push(code))
        assert.deepStrictEqual(codes, [75], code)
      }
      disk.code = undefined
      yield* process(path, (bridge) => bridge.rotate)
    })
  )

  it.effect("ends every command with 78 for an error that no retry mends", () =>
    Effect.gen(function* () {
      const { path } = yield* enrolled
      disk.code = "EACCES"
      const exit = yield* Effect.exit(process(path, (bridge) => bridge.rotate))
      exitCode(exit, (code) => assert.strictEqual(code, 78))
      const running = yield* Effect.exit(waitForFolder(process(path, (bridge) => bridge.rotate)))
      exitCode(running, (code) => assert.strictEqual(code, 78))
    })
  )
})

describe("the lock of a folder", () => {
  for (const [what, errcode, tag] of [
    ["a full disk", 13, "FolderUnavailable"],
    ["a disk that fails to write", 778, "FolderUnavailable"],
    ["a file that is no lock", 26, "FolderError"]
  ] as const) {
    plain.effect(`tells ${what}: ${tag}`, () =>
      Effect.gen(function* () {
        vi.spyOn(DatabaseSync.prototype, "exec").mockImplementation(() => {
          throw Object.assign(new Error("the lock of the test"), { errcode })
        })
        const refused = yield* Effect.flip(Layer.build(Layer.fresh(Journal.layer(yield* folder))))
        assert.strictEqual(refused._tag, tag)
      })
    )
  }
})
