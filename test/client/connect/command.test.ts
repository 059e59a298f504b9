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
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync
} from "node:fs"
import { join } from "node:path"
import { read, replaceAll } from "../../../src/client/connect/ConfigFile.ts"
import { format } from "../../../src/platform/crypto/Tokens.ts"
import { findSecret } from "../../../src/platform/secrets/Secrets.ts"
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
          assert.isUndefined(findSecret(out + err))
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
        mkdirSync(join(home, "CLAUDE.md"))
        const { code, err } = yield* connect(home, ["claude-code", ...anywhere, "--section"])
        assert.strictEqual(code, 1)
        assert.include(err, "CLAUDE.md is not a regular file")
        assert.deepStrictEqual(readdirSync(home), ["CLAUDE.md"])
      }),
    60_000
  )

  it.effect(
    "refuses an entry that could run a program, with its file and key, until it is removed",
    () =>
      Effect.gen(function* () {
        const home = yield* folder
        const file = join(home, ".mcp.json")
        const theirs = '{ "mcpServers": { "bridge-service": { "headersHelper": "id", "timeout": 9 } } }\n'
        writeFileSync(file, theirs)
        for (const flags of [[], ["--check"]]) {
          const { code, err } = yield* connect(home, ["claude-code", ...anywhere, ...flags])
          assert.strictEqual(code, 1)
          assert.include(err, `${file} has keys in its entry bridge-service that could run a program`)
          assert.include(err, '"headersHelper". Nothing was changed. Remove these keys, or the whole entry')
          assert.strictEqual(readFileSync(file, "utf8"), theirs)
        }
        yield* connect(home, ["claude-code", "--remove"])
        assert.strictEqual((yield* connect(home, ["claude-code", ...anywhere])).code, 0)
        assert.notInclude(readFileSync(file, "utf8"), "headersHelper")
      }),
    60_000
  )

  it.effect(
    "refuses a symbolic link that leads out of the project, and changes nothing behind it",
    () =>
      Effect.gen(function* () {
        const home = yield* folder
        const project = join(home, "project")
        mkdirSync(join(project, ".cursor"), { recursive: true })
        for (const name of [".codex", ".gemini", ".claude"]) {
          mkdirSync(join(home, name))
          symlinkSync(join("..", name), join(project, name))
        }
        // Its name begins like the folder's.
        writeFileSync(join(home, "project.json"), "{}")
        symlinkSync("../../project.json", join(project, ".cursor/mcp.json"))
        writeFileSync(join(home, "mine.md"), "# Mine\n")
        symlinkSync("../mine.md", join(project, "CLAUDE.md"))
        const before = readdirSync(home, { recursive: true })
        const refuses = Effect.fnUntraced(function* (file: string, target: string, args: ReadonlyArray<string>) {
          const { code, err } = yield* connect(home, [...args, ...anywhere, "--dir", "project"])
          assert.strictEqual(code, 1)
          assert.include(err, `${join(project, file)} leads to ${join(home, target)}, outside of ${project}.`)
        })
        yield* refuses(".codex/config.toml", ".codex/config.toml", ["codex"])
        yield* refuses(".gemini/settings.json", ".gemini/settings.json", ["gemini"])
        yield* refuses(".claude/settings.json", ".claude/settings.json", ["claude-code", "--hooks"])
        yield* refuses(".cursor/mcp.json", "project.json", ["cursor"])
        yield* refuses(".cursor/mcp.json", "project.json", ["cursor", "--remove"])
        yield* refuses("CLAUDE.md", "mine.md", ["claude-code", "--section", "--scope", "user"])
        assert.deepStrictEqual(readdirSync(home, { recursive: true }), before)
        assert.strictEqual(readFileSync(join(home, "project.json"), "utf8"), "{}")
        assert.strictEqual(readFileSync(join(home, "mine.md"), "utf8"), "# Mine\n")
      }),
    60_000
  )

  it.effect(
    "follows a symbolic link inside the project, keeps it and the mode of the file behind it",
    () =>
      Effect.gen(function* () {
        const home = yield* folder
        const file = join(home, "config/shared.json")
        mkdirSync(join(home, "config"))
        writeFileSync(file, "{}")
        chmodSync(file, 0o640)
        symlinkSync("config/shared.json", join(home, ".mcp.json"))
        writeFileSync(join(home, "AGENTS.md"), "# Shop\n")
        symlinkSync("AGENTS.md", join(home, "CLAUDE.md"))
        const args = ["claude-code", ...anywhere, "--section"]
        const { code, err, out } = yield* connect(home, args)
        assert.strictEqual(code, 0, err)
        assert.include(out, ".mcp.json has the entry now.")
        assert.include(readFileSync(file, "utf8"), "http://127.0.0.1:1/mcp")
        assert.strictEqual(statSync(file).mode & 0o777, 0o640)
        assert.include(readFileSync(join(home, "AGENTS.md"), "utf8"), "continuity_context")
        yield* connect(home, [...args, "--remove"])
        assert.strictEqual(readFileSync(file, "utf8"), "{}")
        assert.strictEqual(readFileSync(join(home, "AGENTS.md"), "utf8"), "# Shop\n")
        assert.strictEqual(readlinkSync(join(home, ".mcp.json")), "config/shared.json")
        assert.strictEqual(readlinkSync(join(home, "CLAUDE.md")), "AGENTS.md")
      }),
    60_000
  )

  it.effect(
    "follows the links of a dotfile manager in the home, unless they lead nowhere",
    () =>
      Effect.gen(function* () {
        const home = yield* folder
        const dotfiles = yield* folder
        mkdirSync(join(dotfiles, "codex"))
        symlinkSync(join(dotfiles, "codex"), join(home, ".codex"))
        const file = join(dotfiles, "claude.json")
        writeFileSync(file, "{}")
        chmodSync(file, 0o644)
        symlinkSync(file, join(home, ".claude.json"))
        const user = (client: string) => connect(home, [client, ...anywhere, "--scope", "user"])
        assert.strictEqual((yield* user("codex")).code, 0)
        assert.include(readFileSync(join(dotfiles, "codex/config.toml"), "utf8"), "http://127.0.0.1:1/mcp")
        assert.strictEqual((yield* user("claude-code")).code, 0)
        assert.include(readFileSync(file, "utf8"), "http://127.0.0.1:1/mcp")
        assert.strictEqual(statSync(file).mode & 0o777, 0o644)
        assert.strictEqual(readlinkSync(join(home, ".claude.json")), file)
        rmSync(file)
        const { code, err } = yield* user("claude-code")
        assert.strictEqual(code, 1)
        assert.include(err, ".claude.json cannot be followed through its symbolic links (ENOENT). Nothing was changed.")
        assert.isFalse(existsSync(file))
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
    "refuses a read-only and a broken file, and leaves them as they are",
    () =>
      Effect.gen(function* () {
        const home = yield* folder
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
