/**
 * check-bridge over the reference Bridge, over the examples in Python and Go, and over copies of the reference Bridge with
 * one fault each.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { build } from "esbuild"
import { spawnSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import { junit, lines, reportOf } from "../../../src/client/check/Report.ts"
import { play, scenarios } from "../../../src/client/check/Scenarios.ts"
import type { Scenario } from "../../../src/client/check/Stage.ts"
import { mint } from "../../../src/platform/crypto/Tokens.ts"
import { goBridge } from "../../support/bridges/GoBridge.ts"
import { blocks, read } from "../../support/run/Markdown.ts"
import { packageRoot } from "../../support/run/Root.ts"

const folder = mkdtempSync(join(tmpdir(), "check-bridge-test-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** The adapter that docs/bridges.md shows, with another program in the place of the package's. */
const adapter = (name: string, program: string) => {
  const text = blocks(read("docs/bridges.md"), "sh").find((block) => block.startsWith("#!/bin/sh"))!
  const path = join(folder, name)
  writeFileSync(path, text.replaceAll("npx bridge-service bridge", program), { mode: 0o755 })
  return path
}

const check = (command: ReadonlyArray<string>, lifetime = 10) => ({
  command,
  environment: process.env,
  mint: (kind: "sbe" | "sbt") => Redacted.value(Effect.runSync(mint(kind))),
  lifetime
})

/** A scenario of `run` waits for most of its time. */
const waits = ({ short }: Scenario) => short === true

/** Seconds. Longer than usual: while other tests start, a program that keeps its promises may take ten of them to begin. */
const lifetimeOfKept = 15

/** Plays scenarios, and lists the promises that are not kept. */
const broken = (command: ReadonlyArray<string>, chosen: ReadonlyArray<Scenario>) => {
  const all = (some: ReadonlyArray<Scenario>) =>
    Effect.forEach(some, (scenario) => play(check(command, lifetimeOfKept), scenario), { concurrency: 3 })
  const played = Effect.all([all(chosen.filter(waits)), all(chosen.filter((one) => !waits(one)))], { concurrency: 2 })
  return Effect.map(played, (results) =>
    results.flat().flatMap(({ kept, scenario, why }) => (kept ? [] : [`${scenario}: ${why}`]))
  )
}

/**
 * Some of what can happen at a request: three programs together play all of it, and what one leaves out at the first
 * request of an exchange may happen at the second. `bridge-service check-bridge` plays everything.
 */
const happensAtRequest = /(?:killed at|and) the (challenge|proof|prepare|confirm) (?:is|loses|as|before|\d)/
const sixths = (...chosen: ReadonlyArray<number>) => {
  const turns = { challenge: 0, proof: 3, prepare: 0, confirm: 3 }
  return scenarios.filter(({ name }) => {
    const request = happensAtRequest.exec(name)?.[1]
    return request === undefined || chosen.includes(turns[request as keyof typeof turns]++ % 6)
  })
}

const isInstalled = (program: string, ...args: ReadonlyArray<string>) => spawnSync(program, args).status === 0
const python = ["/usr/bin/python3", "python3"].find((path) => isInstalled(path, "-c", "import cryptography"))

describe.concurrent("every promise is kept by", () => {
  it.live(
    "the reference Bridge",
    () =>
      Effect.gen(function* () {
        const command = adapter("reference", `${process.execPath} ${join(packageRoot, "dist/bridge.mjs")}`)
        // It is killed at every point in crashes.test.ts; here each kill starts Node several times.
        const chosen = sixths(0).filter(({ name }) => !/^rotate-key, (killed|and the (prepare|confirm))/.test(name))
        assert.deepStrictEqual(yield* broken([command], chosen), [])
      }),
    300_000
  )

  it.live(
    "the example in Python",
    (context) =>
      Effect.gen(function* () {
        if (python === undefined) return context.skip("needs python3 with the package cryptography")
        assert.deepStrictEqual(yield* broken([python, join(packageRoot, "examples/bridge.py")], sixths(1)), [])
      }),
    300_000
  )

  it.live(
    "the example in Go",
    (context) =>
      Effect.gen(function* () {
        if (!isInstalled("go", "version")) return context.skip("needs Go")
        // Starts in a moment, and so plays most.
        assert.deepStrictEqual(yield* broken([yield* goBridge(folder)], sixths(2, 3, 4, 5)), [])
      }),
    300_000
  )
})

// Concurrent as well: otherwise it would keep the two groups apart, which wait for half of their time.
it.live(
  "a Bridge that does not replace its key is not judged by it",
  () =>
    Effect.gen(function* () {
      const program = adapter("reference-64", `${process.execPath} ${join(packageRoot, "dist/bridge.mjs")}`)
      const path = join(folder, "keeps-its-key")
      writeFileSync(path, `#!/bin/sh\n[ "$1" = rotate-key ] && exit 64\nexec ${program} "$@"\n`, { mode: 0o755 })
      const chosen = scenarios.filter(({ name }) => name === "rotate-key" || name === "rotate")
      const report = reportOf(yield* Effect.forEach(chosen, (scenario) => play(check([path]), scenario)))
      assert.deepInclude(report, { ok: true, kept: 1, broken: 0, skipped: 1 })
      assert.deepStrictEqual(lines(report).slice(-2), [
        "skipped: rotate-key ended with 64: the Bridge does not replace its key",
        "1 kept, 0 broken, 1 skipped"
      ])
      assert.include(junit(report), `<skipped message="rotate-key ended with 64`)
    }),
  { concurrent: true, timeout: 90_000 }
)

interface Fault {
  readonly does: string
  /** The file in src/client, what is there, and what is there instead. */
  readonly edits: ReadonlyArray<readonly [file: string, from: string, to: string]>
  /** A scenario that shows it, and what it says. */
  readonly scenario: string
  readonly why: RegExp
  /** Seconds that a token lives, if the scenario waits for what does not happen: for less time with a shorter life. */
  readonly lifetime?: number
  /** Whether it shows only while nothing else takes its time. */
  readonly alone?: boolean
}

const faults: ReadonlyArray<Fault> = [
  {
    does: "signs the text of the nonce",
    edits: [
      [
        "enroll.ts",
        "sign(keys.privateKey, nonce_b64)",
        `sign(keys.privateKey, Buffer.from(Buffer.from(nonce_b64).toString("base64url")))`
      ]
    ],
    scenario: "enroll",
    why: /enroll ended with 1/
  },
  {
    does: "asks for another challenge with another key when the answer was lost",
    edits: [
      ["enroll.ts", "          enrollment.challenge_key\n", "          `${enrollment.challenge_key}-${yield* uuid}`\n"]
    ],
    scenario: "enroll, killed at the challenge before its answer",
    why: /bootstrap credential was used/
  },
  {
    does: "proves with another key when the answer was lost",
    edits: [["enroll.ts", "proof, enrollment.proof_key)", "proof, `${enrollment.proof_key}-${yield* uuid}`)"]],
    scenario: "enroll, killed at the proof before its answer",
    why: /challenge was used/
  },
  {
    does: "keeps the keys of a challenge that has expired",
    edits: [
      [
        "enroll.ts",
        `reactionTo(refusal) === "challenge" ? giveUp(enrolling) : Effect.void`,
        `reactionTo(refusal) === "challenge" ? Effect.void : Effect.void`
      ]
    ],
    scenario: "enroll, and the challenge expires before the proof",
    why: /challenge has expired/
  },
  {
    does: "prepares before it has stored the key of prepare",
    edits: [
      [
        "rotate.ts",
        '    yield* journal.write({ ...state, rotation: { state: "prepared", prepare_key: `bridge-rotate-${yield* uuid}` } })',
        '    yield* prepare(state, { state: "prepared", prepare_key: `bridge-rotate-${yield* uuid}` })'
      ]
    ],
    scenario: "rotate, killed at the prepare before its answer",
    why: /Another rotation is pending/
  },
  {
    does: "confirms before it has stored the successor",
    edits: [
      ["rotate.ts", "    yield* journal.write({ ...state, rotation: stored })\n    return stored", "    return stored"]
    ],
    scenario: "rotate, killed at the confirm before its answer",
    why: /token was revoked/
  },
  {
    does: "takes the successor as its token before it is confirmed",
    edits: [
      [
        "rotate.ts",
        "journal.write({ ...state, rotation: stored })",
        "journal.write({ ...state, rotation: stored, token: { ...state.token, access_token: successor_token } })"
      ]
    ],
    scenario: "rotate, and the window of the rotation under way has passed",
    why: /token was revoked/
  },
  {
    does: "gives up on a successor whose window has passed",
    edits: [
      ["rotate.ts", `  "bridge_rotation_expired",\n  "bridge_rotation_not_found",`, `  "bridge_rotation_not_found",`]
    ],
    scenario: "rotate, and the window of the rotation under way has passed",
    why: /confirmation window has passed/
  },
  {
    does: "counts the life of its token by its own clock",
    edits: [["Client.ts", `at: new Date(headers["date"] ?? arrived)`, "at: new Date(arrived || headers)"]],
    scenario: "run, on a machine whose clock is nine hours slow",
    why: /confirmed no rotation/,
    lifetime: 3
  },
  {
    does: "follows redirects",
    edits: [["Client.ts", `{ redirect: "error" }`, `{ redirect: "follow" }`]],
    scenario: "status, and the answer leads elsewhere",
    why: /followed a redirect/
  },
  {
    does: "does not wait for Retry-After",
    edits: [["Client.ts", "+ retryAfterSeconds(input) * 1000)", "+ 0 * retryAfterSeconds(input))"]],
    scenario: "run, and the service asks for time",
    why: /asked again after \d+ ms/
  },
  {
    does: "asks as fast as it can",
    edits: [
      ["Client.ts", "share * Math.min(Duration.toMillis(duration), 20_000)", "0 * share * Duration.toMillis(duration)"]
    ],
    scenario: "run, and the service refuses everything for a while",
    why: /sent \d+ requests in six seconds/,
    alone: true
  },
  {
    does: "goes on after it was revoked",
    edits: [
      [
        "run.ts",
        "  failure instanceof ServiceUnreachable ||\n",
        "  failure instanceof Refusal ||\n  failure instanceof ServiceUnreachable ||\n"
      ]
    ],
    scenario: "run, and the Bridge is revoked",
    why: /run still ran/,
    lifetime: 1
  },
  {
    does: "ends at the first answer that is missing",
    edits: [
      ["run.ts", "  failure instanceof ServiceUnreachable ||\n", ""],
      ["Client.ts", "Duration.seconds(30)", "Duration.zero"]
    ],
    scenario: "run, and the service restarts",
    why: /after the service was back/
  },
  {
    does: "prints its token",
    edits: [
      ["run.ts", "Effect, Random }", "Effect, Random, Redacted }"],
      ["run.ts", 'Effect.logInfo("Rotated")', "Effect.logInfo(`Rotated to ${Redacted.value(token.access_token)}`)"]
    ],
    scenario: "run",
    why: /the token is in the output/
  },
  {
    does: "lets other accounts read its files",
    edits: [
      ["Journal.ts", `open(temporary, "wx", 0o600)`, `open(temporary, "wx", 0o644)`],
      ["Journal.ts", "recursive: true, mode: 0o700", "recursive: true, mode: 0o755"],
      ["Journal.ts", "(found.mode & 0o077) !== 0", "found.mode === 0"],
      ["Journal.ts", "((await file.stat()).mode & 0o077) !== 0", "(await file.stat()).mode === 0"]
    ],
    scenario: "enroll",
    why: /other accounts can read/
  },
  {
    does: "proves its key by the clock of its machine",
    edits: [["Client.ts", "Ref.set(ahead, at - (yield* Clock.currentTimeMillis))", "Ref.set(ahead, 0 * at)"]],
    scenario: "rotate, on a machine whose clock is a day slow",
    why: /DPoP proof/
  },
  {
    does: "gives up when its proof is refused",
    edits: [["Client.ts", `reactionTo(failure) === "prove", times: 1`, `reactionTo(failure) === "prove", times: 0`]],
    scenario: "rotate, after a copy of a proof was used",
    why: /DPoP proof/
  },
  {
    does: "announces a new key before it has stored it",
    edits: [["rotateKey.ts", "    yield* journal.writeKeys(yield* journal.keys, rotation)\n", ""]],
    scenario: "rotate-key, killed at the confirm before its answer",
    why: /DPoP proof/
  },
  {
    does: "drops its old key before the new one is confirmed",
    edits: [
      [
        "rotateKey.ts",
        "    const old = yield* journal.keys\n",
        "    const old = yield* journal.keys\n    yield* journal.writeKeys(rotation.keys)\n"
      ]
    ],
    scenario: "rotate-key, killed at the confirm as its request arrives",
    why: /DPoP proof/
  },
  {
    does: "keeps its old key once the new one is confirmed",
    edits: [["rotateKey.ts", "Effect.as(journal.writeKeys(keys), fingerprint", "Effect.sync(() => fingerprint"]],
    scenario: "rotate-key",
    why: /DPoP proof/
  },
  {
    does: "announces its new key with another Idempotency-Key when the answer was lost",
    edits: [["rotateKey.ts", "rotation.prepare_key)", "`${rotation.prepare_key}-${Math.random()}`)"]],
    scenario: "rotate-key, killed at the prepare before its answer",
    why: /key rotation is pending/
  },
  {
    does: "signs only the nonce with its old key",
    edits: [["rotateKey.ts", "Buffer.concat([nonce_b64, publicKey])", "nonce_b64"]],
    scenario: "rotate-key",
    why: /rotate-key ended with 1/
  },
  {
    does: "gives up on a new key whose window has passed",
    edits: [["rotateKey.ts", `["bridge_key_rotation_expired", `, "["]],
    scenario: "rotate-key, and the window of the key rotation under way has passed",
    why: /key rotation has ended/
  },
  {
    does: "replaces its token before it has finished its key",
    edits: [["Bridge.ts", "Effect.andThen(keyRotation.recoverKey, rotation.rotate)", "rotation.rotate"]],
    scenario: "rotate, and a key rotation is under way",
    why: /key rotation is pending/
  },
  {
    does: "replaces its key before it has finished its token",
    edits: [["Bridge.ts", "Effect.andThen(rotation.recover, keyRotation.rotateKey)", "keyRotation.rotateKey"]],
    scenario: "rotate-key, and a token rotation is under way",
    why: /Another rotation is pending/
  },
  {
    does: "does not hear that the operator wants a new key",
    edits: [["run.ts", "rotation_required === true", "rotation_required === undefined"]],
    scenario: "run, and the operator wants a new key",
    why: /did not replace the key/,
    lifetime: 6
  }
]

/**
 * A reference Bridge for each fault, in one build: they share what no fault changes, so that it is bundled and compiled
 * once. A fault has modules of its own, which `suffix` tells apart, for everything in cli and src/client.
 */
const faulty = async () => {
  const made = faults.map(() => new Set<number>())
  const own = /[/\\](cli|src[/\\]client)[/\\]/
  await build({
    entryPoints: faults.map((_, index) => ({ in: `fault ${index}`, out: `faulty-${index}` })),
    outdir: folder,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    splitting: true,
    platform: "node",
    format: "esm",
    target: "node22",
    logLevel: "error",
    define: { BUILD: JSON.stringify({ version: "0.0.0", commit: "", migrations: {} }) },
    banner: { js: "import{createRequire}from'node:module';const require=createRequire(import.meta.url);" },
    plugins: [
      {
        name: "faults",
        setup: ({ onLoad, onResolve }) => {
          /** A module of the fault with this index. */
          const as = (path: string, index: string) => ({ path, suffix: `?${index}`, pluginData: index })
          onResolve({ filter: /^fault \d+$/ }, ({ path }) => as(join(packageRoot, "cli/bridge.ts"), path.slice(6)))
          onResolve({ filter: /^\./ }, ({ path, pluginData, resolveDir }) => {
            const file = join(resolveDir, path)
            return pluginData !== undefined && own.test(file) ? as(file, pluginData) : undefined
          })
          onLoad({ filter: own }, ({ path, pluginData }) => {
            if (pluginData === undefined) return undefined
            return {
              loader: "ts",
              pluginData,
              contents: faults[pluginData]!.edits.reduce(
                (text, [file, from, to], at) => {
                  if (path !== join(packageRoot, "src/client/bridge", file) || !text.includes(from)) return text
                  made[pluginData]!.add(at)
                  return text.replace(from, () => to)
                },
                readFileSync(path, "utf8")
              )
            }
          })
        }
      }
    ]
  })
  return (index: number) => {
    assert.strictEqual(made[index]!.size, faults[index]!.edits.length, "an edit fits nowhere")
    return adapter(`faulty-${index}`, `${process.execPath} ${join(folder, `faulty-${index}.mjs`)}`)
  }
}

describe.concurrent("a Bridge with a fault is named: one that", () => {
  let commandOf: Awaited<ReturnType<typeof faulty>>
  beforeAll(async () => void (commandOf = await faulty()))

  const played = faults.map((fault, index) => {
    const scenario = scenarios.find(({ name }) => name === fault.scenario)!
    return { ...fault, index, scenario }
  })
  // Those that wait begin first, and wait beside the others.
  const turnOf = ({ alone, scenario }: (typeof played)[number]) => (alone === true ? 2 : waits(scenario) ? 0 : 1)
  for (const { alone, does, index, lifetime, scenario, why } of played.toSorted((a, b) => turnOf(a) - turnOf(b)))
    it.live(
      does,
      () =>
        Effect.gen(function* () {
          const result = yield* play(check([commandOf(index)], lifetime), scenario)
          assert.match(result.why ?? "kept", why)
        }),
      { timeout: 90_000, concurrent: alone !== true }
    )
})

describe("a report", () => {
  const seen = (kept: boolean | null, scenario: string, why: string | null) => ({
    scenario,
    promise: "A & B",
    kept,
    why,
    seconds: 1.5
  })
  const report = reportOf([
    seen(true, "enroll", null),
    seen(false, 'rotate, and "confirm" is lost', "1 < 2\u0000\n"),
    seen(null, "rotate-key", "ended with 64")
  ])

  it("counts, and names the promise that is not kept and what was seen instead", () => {
    assert.deepInclude(report, { ok: false, kept: 1, broken: 1, skipped: 1 })
    assert.deepStrictEqual(lines(report), [
      "kept    enroll",
      'BROKEN  rotate, and "confirm" is lost',
      "        Promise: A & B",
      "        Seen: 1 < 2\u0000\n",
      "skipped rotate-key",
      "skipped: ended with 64",
      "1 kept, 1 broken, 1 skipped"
    ])
    assert.deepStrictEqual(lines(reportOf([])), ["0 kept, 0 broken"])
  })

  it("is XML whatever it quotes", () => {
    assert.deepStrictEqual(junit(report).split("\n"), [
      '<?xml version="1.0" encoding="UTF-8"?>',
      '<testsuite name="check-bridge" tests="3" failures="1" skipped="1" time="4.500">',
      '<testcase classname="check-bridge" name="enroll" time="1.500"/>',
      '<testcase classname="check-bridge" name="rotate, and &#34;confirm&#34; is lost" time="1.500"><failure message="1 &#60; 2\uFFFD&#10;">A &#38; B</failure></testcase>',
      '<testcase classname="check-bridge" name="rotate-key" time="1.500"><skipped message="ended with 64"/></testcase>',
      "</testsuite>",
      ""
    ])
  })
})
