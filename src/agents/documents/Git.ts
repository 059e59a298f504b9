/**
 * Reads one file of one commit from a local clone, for the operator's import. No request reaches this code.
 *
 * The tree is walked segment by segment with exact names, so that git's path magic does not apply and no link is
 * followed. git runs without system and user configuration, network, hooks, object replacements and prompts.
 */
import { Effect } from "effect"
import { isUtf8 } from "node:buffer"
import { execFile } from "node:child_process"
import { createHash } from "node:crypto"
import { existsSync } from "node:fs"
import { join } from "node:path"
import { refuse } from "./Errors.ts"

const largestFile = 1_048_576

/** Replaces the PATH of this process: its environment holds secrets and is not passed to git. */
const searchPath = "/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin:/run/current-system/sw/bin"

export interface GitFile {
  readonly mode: "100644" | "100755"
  readonly blob_oid: string
  readonly bytes: Uint8Array
}

export const readFile = Effect.fnUntraced(function* (directory: string, commit: string, file: string) {
  if (!isPath(file)) return yield* refuse("document_path_invalid")
  if (!/^([0-9a-f]{40}|[0-9a-f]{64})$/.test(commit)) return yield* refuse("document_commit_invalid")
  const nested = join(directory, ".git")
  const git = run(existsSync(nested) ? nested : directory)

  if ((yield* git(["rev-parse", "--git-dir"])) === undefined) return yield* refuse("document_repository_unusable")
  // A partial clone would fetch missing objects over the network.
  if ((yield* git(["config", "--get-regexp", "^remote\\..*\\.promisor$"])) !== undefined) {
    return yield* refuse("document_repository_unusable")
  }
  if (textOf(yield* git(["cat-file", "-t", commit])) !== "commit") return yield* refuse("document_commit_invalid")

  let entry: Entry = { mode: "040000", type: "tree", oid: commit }
  for (const segment of file.split("/")) {
    const listed = entry.type === "tree" ? yield* git(["ls-tree", "-z", entry.oid]) : undefined
    const found = listed === undefined ? undefined : entriesOf(listed).get(bytewise(Buffer.from(segment)))
    if (found === undefined) return yield* refuse("document_path_not_found")
    entry = found
  }
  const { mode, oid } = entry
  if (mode !== "100644" && mode !== "100755") return yield* refuse("document_not_a_file")
  const size = Number(textOf(yield* git(["cat-file", "-s", oid])))
  if (!(size >= 0)) return yield* refuse("document_repository_unusable")
  if (size > largestFile) return yield* refuse("document_too_large")
  const bytes = yield* git(["cat-file", "blob", oid])
  if (bytes === undefined || !isBlob(oid, bytes)) return yield* refuse("document_repository_unusable")
  if (!isText(bytes)) return yield* refuse("document_not_text")
  if (isLfsPointer(bytes)) return yield* refuse("document_is_lfs_pointer")
  return { mode, blob_oid: oid, bytes } satisfies GitFile
})

interface Entry {
  readonly mode: string
  readonly type: string
  readonly oid: string
}

/** Runs git. Returns undefined if git fails, and refuses if git is not installed. */
const run = (gitDirectory: string) => (args: ReadonlyArray<string>) =>
  Effect.callback<Buffer | undefined, ReturnType<typeof refuse<"git_missing">>>((resume) => {
    const child = execFile(
      "git",
      [
        "--no-replace-objects",
        "--git-dir",
        gitDirectory,
        "-c",
        "core.fsmonitor=false",
        "-c",
        "protocol.allow=never"
      ].concat(args),
      {
        encoding: "buffer",
        timeout: 20_000,
        maxBuffer: 16 * largestFile,
        env: {
          PATH: searchPath,
          LC_ALL: "C",
          GIT_CONFIG_NOSYSTEM: "1",
          GIT_CONFIG_GLOBAL: "/dev/null",
          GIT_ATTR_NOSYSTEM: "1",
          GIT_TERMINAL_PROMPT: "0",
          GIT_NO_LAZY_FETCH: "1"
        }
      },
      (error, stdout) => {
        if (error === null) return resume(Effect.succeed(stdout))
        resume(error.code === "ENOENT" ? Effect.fail(refuse("git_missing")) : Effect.succeed(undefined))
      }
    )
    return Effect.sync(() => child.kill())
  })

const textOf = (output: Buffer | undefined) => output?.toString("latin1").trim()

/** One character per byte, so that names which are not UTF-8 can be compared. */
const bytewise = (name: Buffer) => name.toString("latin1")

const entriesOf = (listed: Buffer): ReadonlyMap<string, Entry> =>
  new Map(
    bytewise(listed)
      .split("\0")
      .filter((line) => line !== "")
      .map((line) => {
        const [mode = "", type = "", oid = ""] = line.slice(0, line.indexOf("\t")).split(" ")
        return [line.slice(line.indexOf("\t") + 1), { mode, type, oid }]
      })
  )

/** A relative, normalised path whose segments neither git nor a file system gives a special meaning. */
const isPath = (path: string) =>
  Buffer.byteLength(path) <= 1024 &&
  path.isWellFormed() &&
  path === path.normalize("NFC") &&
  !/^[:-]|\\|\p{Cc}/u.test(path) &&
  path.split("/").every((segment) => !["", ".", "..", ".git"].includes(segment.toLowerCase()))

/** Whether git's object id is the hash of these bytes. */
export const isBlob = (oid: string, bytes: Uint8Array): boolean =>
  createHash(oid.length === 64 ? "sha256" : "sha1")
    .update(`blob ${bytes.length}\0`)
    .update(bytes)
    .digest("hex") === oid

const isText = (bytes: Uint8Array) => !bytes.includes(0) && isUtf8(bytes)

const isLfsPointer = (bytes: Uint8Array) =>
  bytes.length < 1024 && Buffer.from(bytes).toString("utf8").startsWith("version https://git-lfs.github.com/spec/v1")
