/** The command `bridge`, as a person uses it. */
import { assert, layer } from "@effect/vitest"
import { Context, Effect } from "effect"
import { execFile, spawn } from "node:child_process"
import { once } from "node:events"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { Bridges } from "../../src/bridges/identity/Bridges.ts"
import { findSecret } from "../../src/platform/secrets/Secrets.ts"
import { issueCredential, makeProject } from "../support/bridges/Bridge.ts"
import { folder, tokensOf } from "../support/bridges/BridgeProcess.ts"
import { Service } from "../support/service/Service.ts"

const program = join(import.meta.dirname, "../../cli/bridge.mjs")

const bridge = (...args: ReadonlyArray<string>) =>
  Effect.promise(
    () =>
      new Promise<{ readonly code: number | null; readonly out: string; readonly err: string }>((done) => {
        const child = execFile(process.execPath, [program, ...args], (_, out, err) => {
          // No output contains a secret.
          assert.isUndefined(findSecret(out + err))
          done({ code: child.exitCode, out, err })
        })
      })
  )

layer(Service.layer)("the command bridge", (it) => {
  const prepared = Effect.gen(function* () {
    const service = yield* Service
    const project_id = yield* makeProject(service)
    const { credential } = yield* issueCredential(service, project_id)
    const within = yield* folder
    const file = join(within, "credential")
    writeFileSync(file, `${credential}\n`, { mode: 0o600 })
    const state = ["--state", join(within, "state")]
    const flags = [
      "--base-url",
      service.url,
      "--project",
      project_id,
      "--bridge-id",
      "laptop",
      "--credential-file",
      file
    ]
    return { service, identity: { project_id, bridge_id: "laptop" }, state, flags }
  })

  it.effect(
    "enrolls, shows, rotates, aborts and revokes",
    () =>
      Effect.gen(function* () {
        const { flags, identity, service, state } = yield* prepared
        const enrolled = yield* bridge("enroll", ...flags, "--device-id", "desk", ...state, "--json")
        assert.strictEqual(enrolled.code, 0, enrolled.err)
        assert.strictEqual(JSON.parse(enrolled.out).bridge_id, "laptop")
        const again = yield* bridge("enroll", "--credential-file", flags.at(-1)!, ...state, "--json")
        assert.strictEqual(again.code, 0, again.err)
        assert.strictEqual(JSON.parse(again.out).device_id, "desk")
        const status = yield* bridge("status", ...state, "--json")
        assert.isAbove(JSON.parse(status.out).seconds_left, -1)
        const rotated = yield* bridge("rotate", ...state)
        assert.strictEqual(rotated.code, 0)
        assert.match(rotated.out, /^bridge_id +laptop\nrotation_id +[0-9a-f-]{36}\nlifetime_seconds +\d+$/m)
        assert.deepEqual(yield* tokensOf(service, identity), ["active", "revoked"])
        assert.deepEqual(JSON.parse((yield* bridge("abort", ...state, "--json")).out), {
          bridge_id: "laptop",
          aborted: false
        })
        const revoked = yield* bridge("revoke", ...state)
        assert.deepStrictEqual([revoked.code, revoked.out], [0, "The token is revoked and deleted from the folder.\n"])
        assert.deepEqual(yield* tokensOf(service, identity), ["revoked", "revoked"])
        const after = yield* bridge("status", ...state, "--json")
        assert.strictEqual(after.code, 78)
        assert.deepStrictEqual(JSON.parse(after.err).error, {
          code: "not_enrolled",
          message: "The state folder holds no token: run enroll with a credential from the operator."
        })
      }),
    60_000
  )

  it.effect(
    "exits with the code of the failure",
    () =>
      Effect.gen(function* () {
        const { flags, identity, service, state } = yield* prepared
        assert.strictEqual((yield* bridge("enroll")).code, 64)
        assert.strictEqual((yield* bridge("enroll", "--credential-file", flags.at(-1)!, ...state)).code, 64)
        assert.strictEqual(
          (yield* bridge("enroll", ...flags, "--base-url", "http://bridge.example.com", ...state)).code,
          64
        )
        assert.strictEqual((yield* bridge("enroll", "--credential-file", program, ...state)).code, 78)
        assert.match(
          (yield* bridge("enroll", ...flags, ...state)).out,
          /^Next: .* run --state \S+ {3}# keeps the token valid$/m
        )
        yield* Context.get(service.services, Bridges).revoke(identity.project_id, identity.bridge_id)
        const refused = yield* bridge("rotate", ...state, "--json")
        assert.strictEqual(refused.code, 1)
        assert.strictEqual(JSON.parse(refused.err).error.code, "bridge_revoked")
      }),
    60_000
  )

  it.effect(
    "run locks the folder for others except status, and exits with 0 on a signal",
    () =>
      Effect.gen(function* () {
        const { flags, state } = yield* prepared
        yield* bridge("enroll", ...flags, ...state)
        const running = spawn(process.execPath, [program, "run", ...state], { stdio: ["ignore", "ignore", "pipe"] })
        yield* Effect.promise(() => once(running.stderr, "data"))
        assert.strictEqual((yield* bridge("rotate", ...state)).code, 75)
        assert.strictEqual((yield* bridge("status", ...state)).code, 0)
        running.kill("SIGTERM")
        const [code] = yield* Effect.promise(() => once(running, "exit"))
        assert.strictEqual(code, 0)
      }),
    60_000
  )
})
