/** `bridge-service connect`, as a person uses it. */
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { execFile } from "node:child_process"
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync
} from "node:fs"
import { join } from "node:path"
import { read, replaceAll } from "../../../src/client/connect/ConfigFile.ts"
import { findToken, format } from "../../../src/platform/crypto/Tokens.ts"
import { Service } from "../../support/service/Service.ts"
import { folder } from "../../support/bridges/BridgeProcess.ts"
import { makeToken, reachable } from "../../support/agents/Agent.ts"
import { planted } from "../../support/secrets/Planted.ts"

const program = join(import.meta.dirname, "../../../cli/bridge-service.mjs")

const connect = (home: string, args: ReadonlyArray<string>, env: NodeJS.ProcessEnv = {}, limits = "true") =>
  Effect.promise(
    () =>
      new Promise<{ readonly code: number | null; readonly out: string; readonly err: string }>((done) => {
        const options = { cwd: home, env: { PATH: process.env["PATH"], HOME: home, ...env } }
        const shell = ["-c", `${limits}; exec "$0" "$@"`, process.execPath, program, "connect", ...args]
        const child = execFile("/bin/sh", shell, options, (_, out, err) => {
          assert.isUndefined(findToken(out + err))
          done({ code: child.exitCode, out, err })
        })
      })
  )

const anywhere = ["--url", "http://127.0.0.1:1"]

const pasted = Redacted.value(format("spt", Buffer.alloc(32, "token")))
const { secret: github } = planted(new Date()).find(({ kind }) => kind === "github_token")!

const findings = (out: string): ReadonlyArray<string> =>
  JSON.parse(out).findings.map(({ ok, step }: { readonly ok: boolean; readonly step: string }) => `${step} ${ok}`)

layer(Service.layer)("bridge-service connect", (it) => {
  it.effect.each([
    ["claude-code", "project"],
    ["codex", "user"]
  ] as const)(
    "%s: writes a file, repeats without a change, and removes it (%s)",
    ([client, scope]) =>
      Effect.gen(function* () {
        const home = yield* folder
        const args = [client, ...anywhere, "--scope", scope, "--json"]
        const written = yield* connect(home, args)
        assert.strictEqual(written.code, 0, written.err)
        const [{ action, file }] = JSON.parse(written.out).parts
        assert.strictEqual(action, "written")
        assert.isTrue(file.startsWith(home), file)
        assert.include(readFileSync(file, "utf8"), "http://127.0.0.1:1/mcp")
        assert.strictEqual(statSync(file).mode & 0o777, 0o600)
        assert.strictEqual(JSON.parse((yield* connect(home, args)).out).parts[0].action, "unchanged")
        assert.strictEqual(JSON.parse((yield* connect(home, [...args, "--remove"])).out).parts[0].action, "removed")
        assert.deepStrictEqual(readdirSync(home), [])
      }),
    60_000
  )

  it.effect(
    "--bridge-state is for clients that run a command for their headers, and writes no token",
    () =>
      Effect.gen(function* () {
        const home = yield* folder
        const state = ["--bridge-state", "a Bridge's"]
        assert.strictEqual((yield* connect(home, ["codex", ...anywhere, ...state])).code, 64)
        assert.strictEqual((yield* connect(home, ["claude-code", ...anywhere, ...state, "--token-env", "T"])).code, 64)
        const helper = `bridge-service bridge token --mcp-header --json --state '${home}/a Bridge'\\''s'`
        const printed = yield* connect(home, ["claude-code", ...anywhere, ...state, "--print"])
        assert.include(printed.out, JSON.stringify(helper))
        assert.strictEqual((yield* connect(home, ["claude-code", ...anywhere, ...state, "--check"])).code, 78)
        const refuses = Effect.fnUntraced(function* (message: string) {
          const { code, err } = yield* connect(home, ["claude-code", ...anywhere, ...state])
          assert.deepStrictEqual([code, existsSync(join(home, ".mcp.json"))], [78, false])
          assert.include(err, message)
        })
        yield* refuses("There is no folder")
        mkdirSync(join(home, "a Bridge's"), { mode: 0o700 })
        yield* refuses("The state folder holds no token")
      }),
    60_000
  )

  it.effect(
    "--section writes the instructions of the client beside its entry, and AGENTS.md without a client",
    () =>
      Effect.gen(function* () {
        const home = yield* folder
        writeFileSync(join(home, "CLAUDE.md"), "# Shop\n")
        const both = ["claude-code", ...anywhere, "--section"]
        assert.include((yield* connect(home, both)).out, "CLAUDE.md has the section now.")
        assert.sameMembers(readdirSync(home), [".mcp.json", "CLAUDE.md"])
        assert.match(readFileSync(join(home, "CLAUDE.md"), "utf8"), /^# Shop\n\n<!-- bridge-service:begin -->\n/)
        yield* connect(home, [...both, "--remove"])
        assert.deepStrictEqual(readdirSync(home), ["CLAUDE.md"])
        assert.strictEqual(readFileSync(join(home, "CLAUDE.md"), "utf8"), "# Shop\n")

        const missing = yield* connect(home, ["--section", "--check"])
        assert.strictEqual(missing.code, 1)
        assert.include(missing.out, "AGENTS.md lacks the section")
        yield* connect(home, ["--section"])
        assert.strictEqual((yield* connect(home, ["--section", "--check"])).code, 0)
        assert.include(readFileSync(join(home, "AGENTS.md"), "utf8"), "continuity_context")
      }),
    60_000
  )

  it.effect(
    "--hooks and the entry may stand in one file",
    () =>
      Effect.gen(function* () {
        const home = yield* folder
        const args = ["gemini", ...anywhere, "--hooks"]
        const { out } = yield* connect(home, args)
        assert.include(out, "settings.json has the hooks now.")
        assert.include(out, "bridge-service, which is not on the PATH")
        const settings = JSON.parse(readFileSync(join(home, ".gemini/settings.json"), "utf8"))
        assert.sameMembers(Object.keys(settings), ["mcpServers", "hooks"])
        assert.include((yield* connect(home, args)).out, "needs no change")
        yield* connect(home, [...args, "--remove"])
        assert.deepStrictEqual(readdirSync(home), [])
      }),
    60_000
  )

  it.effect(
    "writes nothing if one of its files is refused",
    () =>
      Effect.gen(function* () {
        const home = yield* folder
        writeFileSync(join(home, "AGENTS.md"), "# Shop\n")
        symlinkSync("AGENTS.md", join(home, "CLAUDE.md"))
        const { code, err } = yield* connect(home, ["claude-code", ...anywhere, "--section"])
        assert.strictEqual(code, 1)
        assert.include(err, "CLAUDE.md is a symbolic link")
        assert.sameMembers(readdirSync(home), ["AGENTS.md", "CLAUDE.md"])
        assert.strictEqual(readFileSync(join(home, "AGENTS.md"), "utf8"), "# Shop\n")
      }),
    60_000
  )

  it.effect(
    "writes nothing if one of its files has another hard link, which would keep the old text",
    () =>
      Effect.gen(function* () {
        const home = yield* folder
        writeFileSync(join(home, "shared.md"), "# Shop\n")
        linkSync(join(home, "shared.md"), join(home, "CLAUDE.md"))
        const { code, err } = yield* connect(home, ["claude-code", ...anywhere, "--section"])
        assert.strictEqual(code, 1)
        assert.include(err, "CLAUDE.md has another hard link")
        assert.sameMembers(readdirSync(home), ["CLAUDE.md", "shared.md"])
        assert.strictEqual(readFileSync(join(home, "shared.md"), "utf8"), "# Shop\n")
      }),
    60_000
  )

  it.effect(
    "leaves everything as it was when the disk gets full",
    () =>
      Effect.gen(function* () {
        const home = yield* folder
        writeFileSync(join(home, "AGENTS.md"), "# Shop\n")
        // The entry fits, the section does not.
        const full = "trap '' XFSZ; ulimit -f 1"
        const { code, err } = yield* connect(home, ["codex", ...anywhere, "--section"], {}, full)
        assert.strictEqual(code, 1)
        assert.include(err, "AGENTS.md cannot be written (EFBIG). Nothing was changed.")
        assert.deepStrictEqual(readdirSync(home), ["AGENTS.md"])
        assert.strictEqual(readFileSync(join(home, "AGENTS.md"), "utf8"), "# Shop\n")
      }),
    60_000
  )

  it.effect(
    "refuses a symbolic link, a read-only and a broken file, and leaves them as they are",
    () =>
      Effect.gen(function* () {
        const home = yield* folder
        const file = join(home, ".mcp.json")
        const refuses = Effect.fnUntraced(function* (message: string) {
          const { code, err } = yield* connect(home, ["claude-code", ...anywhere])
          assert.strictEqual(code, 1)
          assert.include(err, message)
          assert.include(err, "Nothing was changed.")
        })
        writeFileSync(join(home, "shared.json"), "{}")
        symlinkSync("shared.json", file)
        yield* refuses("is a symbolic link")
        assert.strictEqual(readFileSync(join(home, "shared.json"), "utf8"), "{}")

        const other = join(home, ".cursor")
        mkdirSync(other)
        writeFileSync(join(other, "mcp.json"), "{}")
        chmodSync(join(other, "mcp.json"), 0o444)
        const readOnly = yield* connect(home, ["cursor", ...anywhere])
        assert.include(readOnly.err, "is read-only")
        assert.strictEqual(readFileSync(join(other, "mcp.json"), "utf8"), "{}")
        assert.deepStrictEqual(readdirSync(other), ["mcp.json"])

        mkdirSync(join(home, ".gemini"))
        writeFileSync(join(home, ".gemini/settings.json"), '{\n  "a"\n')
        const broken = yield* connect(home, ["gemini", ...anywhere])
        assert.include(broken.err, "is not valid JSON on line 3")
        assert.strictEqual(readFileSync(join(home, ".gemini/settings.json"), "utf8"), '{\n  "a"\n')
      }),
    60_000
  )

  it.effect(
    "keeps the mode of a file, and takes the base URL and the address of /mcp for the same",
    () =>
      Effect.gen(function* () {
        const home = yield* folder
        const file = join(home, ".mcp.json")
        writeFileSync(file, "{}")
        chmodSync(file, 0o664)
        yield* connect(home, ["claude-code", "--url", "https://bridge.example.com"])
        const once = readFileSync(file, "utf8")
        yield* connect(home, ["claude-code", "--url", "https://bridge.example.com/mcp/"])
        assert.strictEqual(readFileSync(file, "utf8"), once)
        assert.strictEqual(statSync(file).mode & 0o777, 0o664)
      }),
    60_000
  )

  it.effect(
    "--check tries the token, or whether a client could sign in",
    () =>
      Effect.gen(function* () {
        const service = yield* reachable()
        const { token } = yield* makeToken(service)
        const home = yield* folder
        const args = ["claude-code", "--url", service.url]
        const missing = yield* connect(home, [...args, "--check", "--json"])
        assert.strictEqual(missing.code, 1)
        assert.deepStrictEqual(findings(missing.out), ["entry false", "reach true", "metadata true", "sign-in true"])
        yield* connect(home, [...args, "--token-env", "T"])
        const check = (env: NodeJS.ProcessEnv) => connect(home, [...args, "--token-env", "T", "--check", "--json"], env)
        const good = yield* check({ T: token })
        assert.deepStrictEqual(findings(good.out), ["entry true", "reach true", "token true", "tools true"])
        assert.strictEqual(good.code, 0)
        const bad = yield* check({ T: `${token.slice(0, -1)}!` })
        assert.deepStrictEqual(findings(bad.out), ["entry true", "reach true", "token false"])
        assert.strictEqual(bad.code, 1)
        for (const { err } of yield* Effect.forEach([{}, { T: "" }], check, { concurrency: 2 }))
          assert.include(err, "The variable T is not set")
        const otherwise = yield* connect(home, [...args, "--check"])
        assert.strictEqual(otherwise.code, 1)
        assert.include(otherwise.out, "has an entry that differs")
      }),
    60_000
  )

  it.effect(
    "--check says that nothing answers, and --print writes nothing",
    () =>
      Effect.gen(function* () {
        const home = yield* folder
        const away = yield* connect(home, ["codex", ...anywhere, "--check"])
        assert.strictEqual(away.code, 1)
        assert.include(away.out, "Nothing answers at http://127.0.0.1:1/mcp")
        const printed = yield* connect(home, ["codex", ...anywhere, "--token-env", "T", "--print"])
        assert.include(
          printed.out,
          '[mcp_servers.bridge-service]\nurl = "http://127.0.0.1:1/mcp"\nbearer_token_env_var = "T"'
        )
        assert.deepStrictEqual(readdirSync(home), [])
      }),
    60_000
  )

  it.effect.each([
    ["no client", anywhere],
    ["an unknown client", ["emacs", ...anywhere]],
    ["an address with a password", ["codex", "--url", "https://me:secret@bridge.example.com"]],
    ["an address that a shell would run", ["claude-code", "--hooks", "--url", "https://bridge.example.com;id;"]],
    ["another path", ["codex", "--url", "https://bridge.example.com/api"]],
    ["a token for the name of its variable", ["codex", ...anywhere, "--token-env", pasted]],
    ["a part of a token", ["codex", ...anywhere, "--token-env", pasted.slice(0, 40)]],
    ["a GitHub token", ["codex", ...anywhere, "--token-env", github]],
    ["an address without TLS", ["codex", "--url", "http://bridge.example.com"]],
    ["a folder that does not exist", ["codex", ...anywhere, "--dir", "missing"]],
    ["hooks for a client that has none", ["cursor", ...anywhere, "--hooks"]],
    ["two actions", ["codex", ...anywhere, "--print", "--remove"]]
  ] as const)("%s is a usage error", ([, args]) =>
    Effect.gen(function* () {
      const home = yield* folder
      const { code, err } = yield* connect(home, args)
      assert.strictEqual(code, 64)
      for (const secret of ["secret@", pasted.slice(0, 40), github]) assert.notInclude(err, secret)
      assert.deepStrictEqual(readdirSync(home), [])
    })
  )
})

describe("a client's file", () => {
  it.effect.each([
    ["is not a regular file", (path: string) => mkdirSync(path)],
    ["is not UTF-8", (path: string) => writeFileSync(path, Buffer.from([0x22, 0xff, 0x22]))],
    [
      "is larger than 32 MiB",
      (path: string) => {
        writeFileSync(path, "")
        truncateSync(path, 32 * 2 ** 20 + 1)
      }
    ]
  ] as const)("that %s is not read", ([why, make]) =>
    Effect.gen(function* () {
      const path = join(yield* folder, "settings.json")
      make(path)
      assert.include((yield* Effect.flip(read(path))).message, `${path} ${why}. Nothing was changed.`)
    })
  )

  it.effect("that another program has changed meanwhile stays as it is, and so do the others", () =>
    Effect.gen(function* () {
      const home = yield* folder
      const [one, other] = [join(home, "one.json"), join(home, "other.json")]
      for (const path of [one, other]) writeFileSync(path, "theirs")
      const changes = [
        { path: one, before: "theirs", after: "ours" },
        { path: other, before: "ours", after: null }
      ]
      const refused = yield* Effect.flip(replaceAll(changes, [home]))
      assert.include(refused.message, `${other} has just been changed by another program`)
      assert.sameMembers(readdirSync(home), ["one.json", "other.json"])
      for (const path of [one, other]) assert.strictEqual(readFileSync(path, "utf8"), "theirs")
    })
  )
})
