/** A git repository, for pinning documents. */
import { Effect } from "effect"
import { execFileSync, spawnSync } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"

export const hasGit = spawnSync("git", ["--version"]).status === 0

/** Makes the folder a repository. `options` are those of git init. */
export const repositoryIn = (directory: string, ...options: ReadonlyArray<string>) => {
  mkdirSync(directory, { recursive: true })
  const git = (...args: ReadonlyArray<string>) =>
    execFileSync("git", ["-C", directory, "-c", "user.name=t", "-c", "user.email=t@example.com", ...args], {
      encoding: "utf8"
    }).trim()
  git("init", "-q", ...options)
  const commit = (files: Readonly<Record<string, string | Uint8Array>>) => {
    for (const [path, content] of Object.entries(files)) {
      mkdirSync(dirname(join(directory, path)), { recursive: true })
      writeFileSync(join(directory, path), content)
    }
    git("add", "-A")
    git("commit", "-qm", "test", "--allow-empty")
    return git("rev-parse", "HEAD")
  }
  return { directory, git, commit }
}

/** A temporary one. */
export const repositoryWith = (...options: ReadonlyArray<string>) =>
  Effect.acquireRelease(
    Effect.sync(() => repositoryIn(mkdtempSync(join(tmpdir(), "bridge-service-test-")), ...options)),
    ({ directory }) => Effect.sync(() => rmSync(directory, { recursive: true, force: true }))
  )

export const repository = repositoryWith()
