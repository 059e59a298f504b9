/** `npm run demo` runs to its end, and its transcript contains no secret. */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { join } from "node:path"
import { findSecret } from "../../src/platform/secrets/Secrets.ts"

it.effect(
  "the demo runs every scene and prints no secret",
  () =>
    Effect.gen(function* () {
      const { code, stdout } = yield* Effect.promise(
        () =>
          new Promise<{ readonly code: number; readonly stdout: string }>((resolve) => {
            const demo = join(import.meta.dirname, "../../scripts/demo.ts")
            const child = execFile(process.execPath, [demo], (_, stdout, stderr) =>
              resolve({ code: child.exitCode ?? 1, stdout: stdout + stderr })
            )
          })
      )
      assert.strictEqual(code, 0, stdout)
      assert.match(stdout, /^26 scenes passed: every response was as the protocol requires\.$/m)
      assert.isUndefined(findSecret(stdout))
      assert.notMatch(stdout, /(nonce|signature)_b64":"[^…]/)
      const [, notification] = /^ {2}APNs .*\n {4}(.*)$/m.exec(stdout) ?? []
      assert.include(notification, `"loc-key":"N_TASK_NEEDS_DECISION_BODY"`)
      assert.notMatch(notification!, /ferry|Demo/)
      // A push token is 64 hexadecimal digits; a Bridge's fingerprint has the prefix sha256.
      assert.notMatch(stdout, /(?<!sha256:)\b[0-9a-f]{64}\b/)
    }),
  180_000
)
