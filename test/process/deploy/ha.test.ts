/** deploy/ha/check refuses a Patroni that loses acknowledged writes. The cluster itself runs in test/attacks/chaos. */
import { spawnSync } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, assert, describe, it } from "vitest"
import { packageRoot } from "../../support/run/Root.ts"
import { read } from "../../support/run/Markdown.ts"

const folder = mkdtempSync(join(tmpdir(), "bridge-service-ha-"))
afterAll(() => rmSync(folder, { recursive: true }))
const file = (name: string, text: string, mode = 0o600) => {
  writeFileSync(join(folder, name), text, { mode })
  return join(folder, name)
}
const configured = file("etcd3.yml", "scope: bridge\netcd3:\n  hosts: 10.0.0.1:2379\n")
const shipped = join(packageRoot, "deploy/ha/patroni.yml")

const check = (version: string, config: string, environment: Readonly<Record<string, string>> = {}) => {
  file("patroni", `#!/bin/sh\necho patroni ${version}\n`, 0o700)
  const env = { PATH: `${folder}:${process.env["PATH"]}`, ...environment }
  const { status, stderr } = spawnSync(join(packageRoot, "deploy/ha/check"), [config], { env, encoding: "utf8" })
  return { status, stderr }
}

describe("deploy/ha/check", () => {
  it.each([
    ["3.0.2", shipped, { PATRONI_ETCD3_HOSTS: "10.0.0.1:2379" }],
    ["3.0.2", configured, {}],
    ["3.0.0", configured, {}]
  ] as const)("refuses Patroni %s with etcd3 (%s, %o), and says why", (version, config, environment) => {
    const { status, stderr } = check(version, config, environment)
    assert.strictEqual(status, 78)
    assert.include(stderr, `Patroni ${version} is refused: with etcd3`)
    assert.include(stderr, "what that one acknowledged is lost")
  })

  it("refuses a Patroni without failsafe_mode", () => {
    const { status, stderr } = check("2.1.7", shipped)
    assert.strictEqual(status, 78)
    assert.include(stderr, "failsafe_mode")
  })

  it.each([
    ["3.0.2", shipped, { PATRONI_ETCD_HOSTS: "10.0.0.1:2379" }],
    ["3.0.3", configured, {}],
    ["3.0.10", configured, {}],
    ["4.1.0", shipped, { PATRONI_ETCD3_HOSTS: "10.0.0.1:2379" }]
  ] as const)("lets Patroni %s with %s and %o pass", (version, config, environment) => {
    assert.deepStrictEqual(check(version, config, environment), { status: 0, stderr: "" })
  })

  it("lets the files of deploy/ha pass with Debian's Patroni", () => {
    const lines = read("deploy/ha/patroni.env").matchAll(/^(\w+)=(.+)$/gm)
    const environment = Object.fromEntries([...lines].map(([, name, value]) => [name, value] as const))
    assert.property(environment, "PATRONI_ETCD_HOSTS")
    assert.strictEqual(check("3.0.2", shipped, environment).status, 0)
  })
})
