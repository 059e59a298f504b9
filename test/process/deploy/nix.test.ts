/** flake.nix and deploy/nix, evaluated by Nix with a stub in place of nixpkgs, which a test cannot fetch. */
import { spawnSync } from "node:child_process"
import { join } from "node:path"
import { assert, describe, it } from "vitest"
import { version } from "../../../src/platform/settings/Package.ts"
import { read } from "../../support/run/Markdown.ts"
import { packageRoot } from "../../support/run/Root.ts"

const nix = spawnSync(
  "nix-instantiate",
  ["--eval", "--strict", "--json", join(packageRoot, "test/support/service/nixpkgs.nix")],
  // Without a daemon, Nix wants a store that it may write to; evaluation puts nothing there.
  { encoding: "utf8", env: { ...process.env, NIX_REMOTE: "dummy://", TZ: "UTC" }, maxBuffer: 64 * 1024 * 1024 }
)
const isMissing = nix.error !== undefined

describe.skipIf(isMissing)(`the flake${isMissing ? ": Nix is not installed (Debian's nix-bin)" : ""}`, () => {
  const evaluated = () => {
    assert.strictEqual(nix.status, 0, nix.stderr)
    return JSON.parse(nix.stdout)
  }

  it("evaluates for every system that the package runs on", () => {
    const { checks, package: built, systems } = evaluated()
    assert.sameMembers(systems, ["x86_64-linux", "aarch64-linux", "x86_64-darwin", "aarch64-darwin"])
    assert.deepStrictEqual(checks, ["package"])
    assert.deepStrictEqual(
      [built.pname, built.version, built.mainProgram, built.BUILD_COMMIT],
      ["bridge-service", version, "bridge-service", "0123456789abcdef"]
    )
    assert.property(JSON.parse(read("package.json")).scripts, built.npmBuildScript)
  })

  it("gives every package that the lock file verifies an address, and no other one", () => {
    const { lock } = evaluated().package
    const { packages } = JSON.parse(read("package-lock.json"))
    for (const [path, entry] of Object.entries<Record<string, string>>(packages)) {
      const name = path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length)
      const file = name.slice(name.lastIndexOf("/") + 1)
      const address = `https://registry.npmjs.org/${name}/-/${file}-${entry["version"]}.tgz`
      assert.strictEqual(lock[path].resolved, entry["integrity"] === undefined ? undefined : address)
    }
  })

  it("runs the service as the main job, and its commands", () => {
    const { apps } = evaluated()
    assert.strictEqual(apps.default, 'exec /nix/bridge-service/bin/bridge-service start "$@"')
    assert.strictEqual(apps.admin, 'exec /nix/bridge-service/bin/service-admin "$@"')
    assert.strictEqual(apps.bridge, 'exec /nix/bridge-service/bin/bridge-service bridge "$@"')
  })

  it("limits the service on NixOS as the unit does elsewhere", () => {
    const { service } = evaluated()
    assert.deepStrictEqual(service.environment, {
      SERVICE_BASE_URL: "https://bridge.example.com",
      SERVICE_DATA_DIR: "/var/lib/bridge-service/data"
    })
    const { EnvironmentFile, ExecStart, ...limits } = service.serviceConfig
    assert.deepStrictEqual(
      [EnvironmentFile, ExecStart],
      [["/etc/bridge-service.env"], "/nix/bridge-service/bin/bridge-service start"]
    )
    const [, section] = /^\[Service\]\n([^]*?)^\[/m.exec(read("deploy/bridge-service.service"))!
    const unit = [...section!.matchAll(/^(\w+)=(.*)$/gm)]
      .map(([, key, value]) => [key!, value!] as const)
      .filter(([key]) => !["Environment", "EnvironmentFile", "ExecStart", "WorkingDirectory"].includes(key))
    const asUnit = (value: unknown): string =>
      value === true ? "yes" : Array.isArray(value) ? value.join(" ") : String(value)
    assert.deepStrictEqual(
      Object.fromEntries(Object.entries(limits).map(([key, value]) => [key, asUnit(value)])),
      Object.fromEntries(unit)
    )
  })
})
