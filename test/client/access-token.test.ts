/** The access token of a Bridge for the agents of its machine (docs/protocol.md, Access of Bridges). */
import { assert, layer } from "@effect/vitest"
import { Clock, Context, Effect, Layer, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { execFile } from "node:child_process"
import { readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Bridges } from "../../src/bridges/identity/Bridges.ts"
import { Bridge } from "../../src/client/bridge/Bridge.ts"
import { Client } from "../../src/client/bridge/Client.ts"
import { Journal } from "../../src/client/bridge/Journal.ts"
import { reachable } from "../support/agents/Agent.ts"
import { knock } from "../support/agents/OAuthProofs.ts"
import { makeProject } from "../support/bridges/Bridge.ts"
import { newcomer } from "../support/bridges/BridgeProcess.ts"
import { Service } from "../support/service/Service.ts"
import { TestDatabase } from "../support/database/TestDatabase.ts"

const Reachable = Layer.effect(Service, reachable()).pipe(Layer.provideMerge(TestDatabase.sql))

const owning = <A, E>(path: string, work: (bridge: Bridge["Service"]) => Effect.Effect<A, E>) =>
  Effect.provide(Effect.flatMap(Bridge, work), Bridge.layerFolder(path))

/** As the command does, while another process holds the folder. */
const reading = <A, E>(path: string, work: (bridge: Bridge["Service"]) => Effect.Effect<A, E>) =>
  Effect.provide(
    Effect.flatMap(Bridge, work),
    Bridge.layer.pipe(Layer.provide(Client.layerFetch), Layer.provide(Journal.layerReading(path)))
  )

/** An enrolled Bridge with a granted role. */
const granted = Effect.gen(function* () {
  const service = yield* Service
  const { enroll, order, path } = yield* newcomer(service, yield* makeProject(service))
  yield* owning(path, enroll)
  const { bridge_id, project_id } = order.identity
  const bridges = Context.get(service.services, Bridges)
  yield* bridges.grantAccess(project_id, bridge_id, "contributor")
  const token = Effect.map(
    reading(path, ({ accessToken }) => accessToken),
    Redacted.value
  )
  const opens = (given: string) =>
    Effect.map(knock(service, "/mcp", given, { scheme: "Bearer" }), ({ status }) => status === 200)
  return { service, bridges, bridge_id, project_id, path, token, opens }
})

layer(Reachable)("a Bridge with a granted role", (it) => {
  it.effect("gets a token that opens /mcp, keeps it until a minute before its end, and then gets the next", () =>
    Effect.gen(function* () {
      const { opens, path, token } = yield* granted
      const first = yield* token
      assert.isTrue(yield* opens(first))
      const file = join(path, "access.json")
      assert.strictEqual(statSync(file).mode & 0o777, 0o600)
      yield* TestClock.adjust("539 seconds")
      assert.strictEqual(yield* token, first)
      assert.isTrue(yield* opens(first))
      yield* TestClock.adjust("1 second")
      const second = yield* token
      assert.notStrictEqual(second, first)
      assert.isTrue(yield* opens(second))
      writeFileSync(file, readFileSync(file, "utf8").slice(0, 40))
      const third = yield* token
      assert.notStrictEqual(third, second)
      assert.isTrue(yield* opens(third))
    })
  )

  it.effect("gets another token if its clock was turned back, because nobody knows when the kept one ends", () =>
    Effect.gen(function* () {
      const { token } = yield* granted
      yield* TestClock.adjust("1 hour")
      const before = yield* token
      const now = yield* Effect.clockWith((clock) => clock.currentTimeMillis)
      yield* TestClock.setTime(now - 60_000)
      assert.notStrictEqual(yield* token, before)
    })
  )

  it.effect("gets another token as soon as its key is replaced", () =>
    Effect.gen(function* () {
      const { opens, path, token } = yield* granted
      const before = yield* token
      yield* owning(path, ({ rotateKey }) => rotateKey)
      assert.isFalse(yield* opens(before))
      assert.isTrue(yield* opens(yield* token))
    })
  )

  it.effect.each([
    ["ahead", 3_600_000],
    ["behind", -3_600_000]
  ] as const)("finds the time of the service by itself, with a clock an hour %s", ([, off]) =>
    Effect.gen(function* () {
      const { opens, token } = yield* granted
      const clock = yield* Clock.Clock
      const wrong: Clock.Clock = {
        ...clock,
        sleep: (duration) => clock.sleep(duration),
        currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe() + off,
        currentTimeMillis: Effect.map(clock.currentTimeMillis, (millis) => millis + off)
      }
      assert.isTrue(yield* opens(yield* Effect.provideService(token, Clock.Clock, wrong)))
    })
  )

  it.effect("is told that it has none any more, or that it was revoked", () =>
    Effect.gen(function* () {
      const { bridge_id, bridges, opens, path, project_id, token } = yield* granted
      const before = yield* token
      yield* bridges.withdrawAccess(project_id, bridge_id)
      assert.isFalse(yield* opens(before))
      writeFileSync(join(path, "access.json"), "")
      const refused = yield* Effect.flip(token)
      assert.strictEqual(refused._tag, "OAuthRefused")
      assert.include(refused.message, "grant-bridge-access")
      yield* bridges.revoke(project_id, bridge_id)
      const revoked = yield* Effect.flip(token)
      assert.include(revoked.message, "No Bridge that is in force")
    })
  )

  it.effect("prints the header, and with --json an object as clients want it", () =>
    Effect.gen(function* () {
      const { opens, path } = yield* granted
      const run = (...args: ReadonlyArray<string>) =>
        Effect.promise(
          () =>
            new Promise<{ readonly code: number | null; readonly out: string; readonly err: string }>((done) => {
              const program = join(import.meta.dirname, "../../cli/bridge.mjs")
              const child = execFile(process.execPath, [program, "token", "--state", path, ...args], (_, out, err) =>
                done({ code: child.exitCode, out, err })
              )
            })
        )
      assert.strictEqual((yield* run()).code, 64)
      const line = yield* run("--mcp-header")
      assert.match(line.out, /^Authorization: Bearer sba_\w+\n$/, line.err)
      const { Authorization } = JSON.parse((yield* run("--mcp-header", "--json")).out)
      assert.strictEqual(`Authorization: ${Authorization}\n`, line.out)
      // The command's clock is the machine's; the service's stands still, so the token lives on.
      assert.isTrue(yield* opens(Authorization.slice("Bearer ".length)))
    })
  )
})
