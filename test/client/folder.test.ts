/** The state folder of a Bridge: durable, private, and used by one process at a time. */
import { assert, it, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { chmodSync, existsSync, readdirSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Journal } from "../../src/client/bridge/Journal.ts"
import { makeProject } from "../support/bridges/Bridge.ts"
import { folder, newcomer, process } from "../support/bridges/BridgeProcess.ts"
import { Service } from "../support/service/Service.ts"

const opened = (path: string) => Layer.build(Layer.fresh(Journal.layer(path)))

/** A process that opens the folder and keeps it. */
const holder = (path: string) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const child = spawn(globalThis.process.execPath, [
        join(import.meta.dirname, "../support/bridges/FolderHolder.ts"),
        path
      ])
      await once(child.stdout, "data")
      return child
    }),
    (child) => kill(child)
  )

const kill = (child: ReturnType<typeof spawn>) =>
  Effect.promise(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill("SIGKILL")
    await once(child, "exit")
  })

it.effect("a second process on a state folder is refused until the first has ended, even by kill -9", () =>
  Effect.gen(function* () {
    const path = yield* folder
    const first = yield* holder(path)
    assert.strictEqual((yield* Effect.flip(opened(path)))._tag, "FolderInUse")
    yield* kill(first)
    yield* opened(path)
  })
)

it.effect("a folder is unlocked when its scope closes", () =>
  Effect.gen(function* () {
    const path = yield* folder
    yield* Effect.scoped(opened(path))
    yield* Effect.scoped(opened(path))
  })
)

it.effect("a process whose working directory is gone ends, instead of trying to make a relative folder for ever", () =>
  Effect.gen(function* () {
    const path = yield* folder
    const holds = `cd "$0" && rmdir "$0" && exec "$1" "$2" a/b`
    const holder = join(import.meta.dirname, "../support/bridges/FolderHolder.ts")
    const child = yield* Effect.acquireRelease(
      Effect.sync(() => spawn("sh", ["-c", holds, path, globalThis.process.execPath, holder])),
      kill
    )
    const [code] = yield* Effect.promise(() => once(child, "exit"))
    assert.strictEqual(code, 1)
  })
)

for (const [what, name, mode] of [
  ["a state folder", "", 0o750],
  ["a key", "key.json", 0o640]
] as const) {
  it.effect(`${what} that other accounts can open is refused`, () =>
    Effect.gen(function* () {
      const path = yield* folder
      yield* Effect.scoped(Effect.flatMap(opened(path), (services) => Effect.provideContext(keys, services)))
      chmodSync(join(path, name), mode)
      const refused = yield* Effect.scoped(
        Effect.flatMap(opened(path), (services) => Effect.provideContext(keys, services))
      ).pipe(Effect.flip)
      assert.strictEqual(refused._tag, "FolderError")
      assert.match(refused.message, /chmod/)
    })
  )
}

it.effect("reading a missing folder fails with a hint how to create it, and creates nothing", () =>
  Effect.gen(function* () {
    const path = join(yield* folder, "none")
    const refused = yield* Effect.flip(Layer.build(Journal.layerReading(path)))
    assert.strictEqual(refused.message, `There is no folder ${path}: enroll creates it.`)
    assert.isFalse(existsSync(path))
  })
)

it.effect("a state that this version did not write is refused", () =>
  Effect.gen(function* () {
    const path = yield* folder
    writeFileSync(join(path, "state.json"), `{"version":2}`, { mode: 0o600 })
    const refused = yield* Effect.flatMap(opened(path), (services) =>
      Effect.provideContext(
        Effect.flatMap(Journal, ({ read }) => read),
        services
      )
    ).pipe(Effect.flip)
    assert.strictEqual(refused._tag, "FolderError")
  })
)

const keys = Effect.flatMap(Journal, (journal) => journal.keys)

layer(Service.layer)("the state folder of an enrolled Bridge", (it) => {
  it.effect("is accessible to its account only, and so is every file in it", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { enroll, path } = yield* newcomer(service, yield* makeProject(service))
      const within = join(path, "state")
      yield* process(within, enroll)
      yield* process(within, (bridge) => bridge.rotate)
      assert.strictEqual(statSync(within).mode & 0o777, 0o700)
      assert.deepEqual(readdirSync(within).toSorted(), ["key.json", "lock", "state.json"])
      for (const name of ["key.json", "state.json"])
        assert.strictEqual(statSync(join(within, name)).mode & 0o777, 0o600)
    })
  )
})
