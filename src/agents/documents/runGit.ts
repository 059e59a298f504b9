/**
 * Runs git on the objects of a repository and on nothing else.
 *
 * git works in an empty repository of its own whose objects are those of the clone: it reads neither the clone's
 * configuration nor its hooks, replacements and grafts, and knows no remote. System and user configuration, prompts and
 * every protocol are off as well.
 */
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { refuse } from "./Errors.ts"

/** Replaces the PATH of this process: its environment holds secrets and is not passed to git. */
const searchPath = "/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin:/run/current-system/sw/bin"

/** By name, because `protocol.NAME.allow` wins over `protocol.allow`; the environment wins over both. */
const protocols = ["ext", "fd", "file", "ftp", "ftps", "git", "http", "https", "ssh"]
export const closedOptions = [
  "--no-replace-objects",
  "-c",
  "core.fsmonitor=false",
  "-c",
  "protocol.allow=never"
].concat(protocols.flatMap((protocol) => ["-c", `protocol.${protocol}.allow=never`]))
export const closedEnvironment = {
  PATH: searchPath,
  LC_ALL: "C",
  // A small object can be the difference to a huge one, which git would read first.
  GIT_ALLOC_LIMIT: "64m",
  GIT_ALLOW_PROTOCOL: "",
  GIT_ATTR_NOSYSTEM: "1",
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_NO_LAZY_FETCH: "1",
  GIT_TERMINAL_PROMPT: "0"
}

/** Returns undefined if git fails, and refuses if git is not installed. */
export type Git = (
  args: ReadonlyArray<string>
) => Effect.Effect<Buffer | undefined, ReturnType<typeof refuse<"git_missing">>>

/** git over the objects in `objects`, of commits with hashes like `commit`. Its own repository ends with the scope. */
export const gitOver = (objects: string, commit: string) =>
  Effect.map(emptyRepository(commit.length === 64 ? "sha256" : "sha1"), (own): Git => {
    const env = { ...closedEnvironment, GIT_DIR: own, GIT_OBJECT_DIRECTORY: objects }
    return (args) =>
      Effect.callback((resume) => {
        const child = execFile(
          "git",
          [...closedOptions, ...args],
          { encoding: "buffer", timeout: 20_000, maxBuffer: 16_777_216, cwd: own, env },
          (error, stdout) => {
            if (error === null) return resume(Effect.succeed(stdout))
            resume(error.code === "ENOENT" ? Effect.fail(refuse("git_missing")) : Effect.succeed(undefined))
          }
        )
        return Effect.sync(() => child.kill())
      })
  })

const emptyRepository = (objectFormat: "sha1" | "sha256") =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const folder = mkdtempSync(join(tmpdir(), "bridge-service-git-"))
      mkdirSync(join(folder, "refs"))
      writeFileSync(join(folder, "HEAD"), "ref: refs/heads/main\n")
      writeFileSync(
        join(folder, "config"),
        `[core]\nrepositoryformatversion = 1\n[extensions]\nobjectFormat = ${objectFormat}\n`
      )
      return folder
    }),
    (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
  )
