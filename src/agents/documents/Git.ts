/**
 * Reads one file of one commit from a local clone, for the operator's import. No request reaches this code.
 *
 * 1. The clone is checked: it can run nothing, fetch nothing and lead nowhere else.
 * 2. The commit, each tree and the file are read by hash, and each is hashed again. So the file is the commit's, whatever
 *    the clone says about it.
 * 3. Trees are walked segment by segment with exact names: git's path magic does not apply, and no link is followed.
 */
import { Effect } from "effect"
import { isUtf8 } from "node:buffer"
import { createHash } from "node:crypto"
import { checkRepository, locate } from "./checkRepository.ts"
import { refuse } from "./Errors.ts"
import { type Git, gitOver } from "./runGit.ts"

/** Of the file, the commit and each tree. It is known before the object is read: git holds whole objects in memory. */
const largestObject = 1_048_576

export interface GitFile {
  readonly mode: "100644" | "100755"
  readonly blob_oid: string
  readonly bytes: Uint8Array
}

export const readFile = Effect.fnUntraced(function* (directory: string, commit: string, file: string) {
  if (!isPath(file)) return yield* refuse("document_path_invalid")
  if (!/^([0-9a-f]{40}|[0-9a-f]{64})$/.test(commit)) return yield* refuse("document_commit_invalid")
  const clone = locate(directory)
  const git = yield* gitOver(clone.objects, commit)
  yield* checkRepository(clone, git)

  const committed = yield* readObject(git, "commit", commit)
  if (committed === undefined) return yield* refuse("document_commit_invalid")
  let entry: Entry = { mode: "40000", oid: bytewise(committed.subarray("tree ".length)).slice(0, commit.length) }
  for (const segment of file.split("/")) {
    const tree = entry.mode === "40000" ? yield* readObject(git, "tree", entry.oid) : undefined
    const found = tree === undefined ? undefined : findEntry(tree, segment, commit.length / 2)
    if (found === undefined) return yield* refuse("document_path_not_found")
    entry = found
  }
  const { mode, oid } = entry
  if (mode !== "100644" && mode !== "100755") return yield* refuse("document_not_a_file")
  const bytes = yield* readObject(git, "blob", oid)
  if (bytes === undefined) return yield* refuse("document_repository_unusable")
  if (!isText(bytes)) return yield* refuse("document_not_text")
  if (isLfsPointer(bytes)) return yield* refuse("document_is_lfs_pointer")
  return { mode, blob_oid: oid, bytes } satisfies GitFile
}, Effect.scoped)

type Kind = "commit" | "tree" | "blob"

/** The bytes of an object; undefined if the clone lacks it, has it as another kind, or has other bytes under its hash. */
const readObject = Effect.fnUntraced(function* (git: Git, kind: Kind, oid: string) {
  // The size is that of the object read only if the kind is right: `cat-file commit` follows a tag to its commit.
  const found = yield* git(["cat-file", "-t", oid])
  const size = yield* git(["cat-file", "-s", oid])
  if (size === undefined || found?.toString().trim() !== kind) return undefined
  if (Number(size) > largestObject) return yield* refuse("document_too_large")
  const bytes = yield* git(["cat-file", kind, oid])
  return bytes !== undefined && isObject(kind, oid, bytes) ? bytes : undefined
})

interface Entry {
  /** Octal, as git writes it: 40000 is a tree, 100644 and 100755 are files. */
  readonly mode: string
  readonly oid: string
}

/** An entry of a tree by its exact name. Each is `mode SP name NUL`, then the raw hash of `hashSize` bytes. */
const findEntry = (tree: Buffer, name: string, hashSize: number): Entry | undefined => {
  const wanted = Buffer.from(name)
  for (let start = 0; start < tree.length;) {
    const space = tree.indexOf(" ", start)
    const end = tree.indexOf(0, space)
    if (space === -1 || end === -1) return undefined
    const next = end + 1 + hashSize
    if (tree.subarray(space + 1, end).equals(wanted)) {
      return { mode: bytewise(tree.subarray(start, space)), oid: tree.subarray(end + 1, next).toString("hex") }
    }
    start = next
  }
  return undefined
}

/** One character per byte. */
const bytewise = (bytes: Buffer) => bytes.toString("latin1")

/** A relative, normalised path whose segments neither git nor a file system gives a special meaning. */
const isPath = (path: string) =>
  Buffer.byteLength(path) <= 1024 &&
  path.isWellFormed() &&
  path === path.normalize("NFC") &&
  !/^[:-]|\\|\p{Cc}/u.test(path) &&
  path.split("/").every((segment) => !["", ".", "..", ".git"].includes(segment.toLowerCase()))

const isObject = (kind: Kind, oid: string, bytes: Uint8Array) =>
  createHash(oid.length === 64 ? "sha256" : "sha1")
    .update(`${kind} ${bytes.length}\0`)
    .update(bytes)
    .digest("hex") === oid

/** Whether git's object id is the hash of these bytes. */
export const isBlob = (oid: string, bytes: Uint8Array): boolean => isObject("blob", oid, bytes)

const isText = (bytes: Uint8Array) => !bytes.includes(0) && isUtf8(bytes)

const isLfsPointer = (bytes: Uint8Array) =>
  bytes.length < 1024 && Buffer.from(bytes).toString("utf8").startsWith("version https://git-lfs.github.com/spec/v1")
