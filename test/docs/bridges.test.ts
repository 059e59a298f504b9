/** docs/bridges.md: its walk by hand and the examples are run against the service, its test vectors are computed again. */
import { assert, describe, it, layer } from "@effect/vitest"
import { Context, Effect, Redacted } from "effect"
import { spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { text } from "node:stream/consumers"
import { Bridges } from "../../src/bridges/identity/Bridges.ts"
import { fingerprint, sign } from "../../src/client/Crypto.ts"
import { getPublicKeyAsync } from "@noble/ed25519"
import { issueCredential, makeProject } from "../support/bridges/Bridge.ts"
import { goBridge } from "../support/bridges/GoBridge.ts"
import { firstPage } from "../support/database/Page.ts"
import { blocks, read } from "../support/run/Markdown.ts"
import { packageRoot } from "../support/run/Root.ts"
import { Service } from "../support/service/Service.ts"

const page = read("docs/bridges.md")
const isInstalled = (program: string, ...args: ReadonlyArray<string>) => spawnSync(program, args).status === 0

const scratch = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "docs-bridges-test-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
)

const run = (cwd: string, env: Readonly<Record<string, string>>, program: string, ...args: ReadonlyArray<string>) =>
  Effect.promise(async () => {
    const child = spawn(program, args, { cwd, env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] })
    const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")])
    return { code, stdout, stderr }
  })

/** A folder with the file of a credential, and what a Bridge needs to know. */
const invited = Effect.gen(function* () {
  const service = yield* Service
  const project_id = yield* makeProject(service)
  const { credential } = yield* issueCredential(service, project_id)
  const folder = yield* scratch
  writeFileSync(join(folder, "credential"), `${credential}\n`, { mode: 0o600 })
  return { folder, project_id, url: service.url }
})

layer(Service.layer)("docs/bridges.md", (it) => {
  it.effect(
    "walks by hand",
    (context) =>
      Effect.gen(function* () {
        if (!isInstalled("curl", "--version") || !isInstalled("openssl", "version"))
          return context.skip("needs curl and openssl")
        const { folder, project_id, url } = yield* invited
        const walk = blocks(page, "sh").find((block) => block.startsWith("set -eu"))!
        const { code, stderr, stdout } = yield* run(folder, { URL: url, PROJECT: project_id }, "sh", "-c", walk)
        assert.strictEqual(code, 0, stderr)
        assert.match(stdout, /"status":"confirmed"/)
        const [before, confirmed, after] = Array.from(
          stdout.matchAll(/"public_key_fingerprint":"(.+?)"/g),
          ([, of]) => of
        )
        assert.notStrictEqual(before, after, stdout)
        assert.strictEqual(confirmed, after)
        const secrets = ["nonce", "nonce-and-key", "signature", "predecessor-signature"]
        assert.isEmpty(readdirSync(folder).filter((name) => secrets.includes(name)))
      }),
    60_000
  )

  const lives = Effect.fnUntraced(function* (program: string, ...args: ReadonlyArray<string>) {
    const { folder, project_id, url } = yield* invited
    const env = {
      CHECK_BRIDGE_URL: url,
      CHECK_BRIDGE_PROJECT: project_id,
      CHECK_BRIDGE_CREDENTIAL_FILE: join(folder, "credential"),
      CHECK_BRIDGE_STATE: join(folder, "state")
    }
    for (const verb of ["enroll", "status", "rotate", "rotate-key", "status", "rotate", "rotate-key", "status"]) {
      const { code, stderr } = yield* run(folder, env, program, ...args, verb)
      assert.strictEqual(code, 0, `${verb}: ${stderr}`)
    }
    const { services } = yield* Service
    const [bridge] = yield* Context.get(services, Bridges).list(project_id, firstPage)
    assert.isNotNull(bridge!.dpop_required_since)
    assert.isNotNull(bridge!.key_since)
  })

  it.effect(
    "has an example in Python that enrolls, rotates and replaces its key",
    (context) =>
      Effect.gen(function* () {
        const python = ["/usr/bin/python3", "python3"].find((path) => isInstalled(path, "-c", "import cryptography"))
        if (python === undefined) return context.skip("needs python3 with the package cryptography")
        yield* lives(python, join(packageRoot, "examples/bridge.py"))
      }),
    60_000
  )

  it.effect(
    "has an example in Go that does the same",
    (context) =>
      Effect.gen(function* () {
        if (!isInstalled("go", "version")) return context.skip("needs Go")
        yield* lives(yield* goBridge(yield* scratch))
      }),
    60_000
  )
})

interface Vector {
  readonly seed_b64: string
  readonly public_key_b64: string
  readonly fingerprint: string
  readonly nonce_b64: string
  readonly signature_b64: string
}

describe("the test vectors", () => {
  const vectors: ReadonlyArray<Vector> = JSON.parse(blocks(page, "json")[0]!)
  const bytes = (given: string) => new Uint8Array(Buffer.from(given, "base64url"))
  const b64 = (given: Uint8Array) => Buffer.from(given).toString("base64url")

  it.each(vectors)("of the seed $seed_b64", async (vector) => {
    const publicKey = await getPublicKeyAsync(bytes(vector.seed_b64))
    const signature = await Effect.runPromise(sign(Redacted.make(bytes(vector.seed_b64)), bytes(vector.nonce_b64)))
    assert.deepStrictEqual(vector, {
      seed_b64: vector.seed_b64,
      public_key_b64: b64(publicKey),
      fingerprint: fingerprint(publicKey),
      nonce_b64: vector.nonce_b64,
      signature_b64: b64(signature)
    })
  })
})
