/** A work tree of another commit, removed when the scope closes. */
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { readFileSync, symlinkSync } from "node:fs"
import { join } from "node:path"
import { checkout, temporaryFolder } from "../../test/support/database/PostgresUser.ts"

const git = (...args: ReadonlyArray<string>) =>
  execFileSync("git", args, { cwd: checkout, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }).trim()

/** With the dependencies of this work tree if its lock file is the same. */
export const checkoutOf = Effect.fnUntraced(function* (commit: string) {
  const sha = git("rev-parse", "--verify", "--end-of-options", `${commit}^{commit}`)
  const tree = join(yield* temporaryFolder, "tree")
  yield* Effect.acquireRelease(
    Effect.sync(() => git("worktree", "add", "--detach", tree, sha)),
    () => Effect.sync(() => git("worktree", "remove", "--force", tree))
  )
  const lock = (folder: string) => readFileSync(join(folder, "package-lock.json"), "utf8")
  if (lock(tree) === lock(checkout)) symlinkSync(join(checkout, "node_modules"), join(tree, "node_modules"))
  else {
    // npm hands its own settings to what it runs; they would name this folder.
    const env = { PATH: process.env["PATH"], HOME: process.env["HOME"] }
    execFileSync("npm", ["ci"], { cwd: tree, env, stdio: ["ignore", "ignore", "inherit"] })
  }
  return tree
})
