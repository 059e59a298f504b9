/** "Verify a release" of docs/run.md: its commands accept the files that `npm run release` signed, and no others. */
import { execFileSync, spawnSync } from "node:child_process"
import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, assert, beforeEach, describe, it } from "vitest"
import { seal } from "../../../scripts/supply-chain/release.ts"
import { blocksUnder, read } from "../../support/run/Markdown.ts"

const folder = mkdtempSync(join(tmpdir(), "service-release-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const [verify = ""] = blocksUnder(read("docs/run.md"), "Verify a release", "sh")

const isThere = spawnSync("ssh-keygen", ["-?"]).error === undefined

const makeKey = (name: string) => {
  const file = join(folder, name)
  execFileSync("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", file])
  return file
}

/** What a person downloaded, signed with the key, and the `SIGNERS` of the repository, which names `signer`. */
const download = (name: string, key: string, signer = key) => {
  const at = join(folder, name)
  mkdirSync(at)
  for (const file of ["bridge.tgz", "sbom.json", "server.tgz"]) writeFileSync(join(at, file), `${file}\n`)
  seal(at, key)
  writeFileSync(join(at, "SIGNERS"), `releases ${readFileSync(`${signer}.pub`, "utf8")}`)
  return at
}

const verified = (cwd: string) => {
  const { status, stdout } = spawnSync("bash", ["-euc", verify], { cwd, encoding: "utf8" })
  return { isGood: status === 0, stdout }
}

describe("a release", () => {
  beforeEach((context) => {
    if (!isThere) context.skip("needs ssh-keygen")
  })

  it("is accepted as it was signed, without what was not downloaded, and refused once a byte differs", () => {
    const key = makeKey("ours")
    const at = download("signed", key)
    rmSync(join(at, "bridge.tgz"))
    const { isGood, stdout } = verified(at)
    assert.isTrue(isGood)
    assert.match(stdout, /^Good "bridge-service" signature for releases .*\nsbom\.json: OK\nserver\.tgz: OK\n$/)

    appendFileSync(join(at, "server.tgz"), "!")
    const changed = verified(at)
    assert.isFalse(changed.isGood)
    assert.include(changed.stdout, "server.tgz: FAILED")

    appendFileSync(join(at, "SHA256SUMS"), "\n")
    const resummed = verified(at)
    assert.deepStrictEqual([resummed.isGood, resummed.stdout.includes("OK")], [false, false])
  })

  it("is refused when somebody else signed it", () => {
    const { isGood, stdout } = verified(download("foreign", makeKey("another"), makeKey("expected")))
    assert.deepStrictEqual([isGood, stdout.includes("OK")], [false, false])
  })
})
