/**
 * Finds the objects of a clone, and refuses a clone that could run a program, fetch, or lead to files elsewhere.
 *
 * Whoever may write to a repository decides what its commits contain: by a link or an alternate they could make root pin
 * a file of another, private repository. So everything that is read belongs to the account that runs the command, or to
 * root, and only its owner may write to it; then nobody else can change the repository between this check and the
 * reading either. That includes every folder above it, because whoever can write there can put another in its place.
 */
import { Effect } from "effect"
import { type Stats, existsSync, lstatSync, readdirSync, realpathSync } from "node:fs"
import { dirname, join } from "node:path"
import { withDetails } from "../../wire/Refusal.ts"
import { refuse } from "./Errors.ts"
import type { Git } from "./runGit.ts"

export interface Clone {
  readonly folder: string
  /** The folder itself if it is bare, else its `.git`. */
  readonly repository: string
  readonly objects: string
}

export const locate = (directory: string): Clone => {
  const folder = existsSync(directory) ? realpathSync(directory) : directory
  const nested = join(folder, ".git")
  const repository = exists(nested) ? nested : folder
  return { folder, repository, objects: join(repository, "objects") }
}

export const checkRepository = Effect.fnUntraced(function* (clone: Clone, git: Git) {
  const bad = yield* Effect.try({
    try: () => findBadFile(clone),
    catch: () => refuse("document_repository_unusable")
  })
  if (bad !== undefined) return yield* unsafe(bad)
  for (const file of configurations(clone)) {
    const listed = yield* git(["config", "--file", file, "--no-includes", "--null", "--list"])
    if (listed === undefined) return yield* refuse("document_repository_unusable")
    const setting = findBadSetting(listed.toString())
    if (setting !== undefined) return yield* unsafe({ file, reason: setting })
  }
})

interface Bad {
  readonly file: string
  readonly reason: string
  /** The shell command that mends it, if there is one. */
  readonly mend?: string
}

const unsafe = ({ file, reason, mend }: Bad) => {
  const refusal = refuse("document_repository_unsafe")
  const remedy = mend === undefined ? refusal.message : `Mend it with: ${mend}\nOr: ${refusal.message}`
  return withDetails(refusal, { file, reason }, `${file}: ${reason}.\n${remedy}`)
}

const configurations = ({ repository }: Clone) =>
  ["config", "config.worktree"].map((name) => join(repository, name)).filter(exists)

/** Each of these makes git read the objects of another folder or server. */
const indirections = ["commondir", "objects/info/alternates", "objects/info/http-alternates"]

/** Refs lead to no object that is read, because the commit is named by its hash; they are checked all the same. */
const references = ["HEAD", "packed-refs"]

const findBadFile = (clone: Clone): Bad | undefined => {
  const { folder, objects, repository } = clone
  for (const inside of [folder, repository]) {
    const bad = badFile(inside, "folder")
    if (bad !== undefined) return bad
  }
  for (const above of foldersAbove(folder)) {
    const bad = badFile(above, "above")
    if (bad !== undefined) return bad
  }
  const leading = indirections.map((name) => join(repository, name)).find(exists)
  if (leading !== undefined) return { file: leading, reason: "it leads to another repository" }
  const files = references.map((name) => join(repository, name)).filter(exists)
  for (const file of [...configurations(clone), ...files]) {
    const bad = badFile(file, "file")
    if (bad !== undefined) return bad
  }
  return badFile(join(repository, "refs"), "folder") ?? findBadObject(objects)
}

/** Up to the root. `folder` is absolute and without links, unless it does not exist. */
const foldersAbove = (folder: string): ReadonlyArray<string> => {
  const above = dirname(folder)
  return above === folder ? [] : [above, ...foldersAbove(above)]
}

const findBadObject = (folder: string): Bad | undefined => {
  const bad = badFile(folder, "folder")
  if (bad !== undefined) return bad
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const file = join(folder, entry.name)
    const below = entry.isDirectory() ? findBadObject(file) : badFile(file, "file")
    if (below !== undefined) return below
  }
  return undefined
}

/** True for a link to nothing as well: its target may appear later. */
const exists = (file: string) => lstatSync(file, { throwIfNoEntry: false }) !== undefined

/** A file or folder of the clone, or a folder above it. */
type Place = "file" | "folder" | "above"

const badFile = (file: string, place: Place): Bad | undefined => {
  const stat = lstatSync(file)
  if (!(place === "file" ? stat.isFile() : stat.isDirectory())) {
    return { file, reason: `it is not a ${place === "file" ? "file" : "folder"}, and may lead elsewhere` }
  }
  if (stat.uid !== 0 && stat.uid !== process.geteuid?.()) return { file, reason: "it belongs to another account" }
  if ((stat.mode & 0o022) === 0 || (place === "above" && isShared(stat))) return undefined
  const mend = `chmod ${place === "folder" ? "-R " : ""}go-w ${quote(file)}`
  return { file, reason: "its group or every account may change it", mend }
}

/** Whether it is a folder such as /tmp, in which nobody can move or delete what belongs to another (unlink(2)). */
const isShared = ({ mode, uid }: Stats) => uid === 0 && (mode & 0o1000) !== 0

/** One word of a POSIX shell. */
const quote = (word: string) => `'${word.replaceAll("'", "'\\''")}'`

const fetches = "makes git fetch what is missing"
const runs = "names a program"
const leads = "leads to another file"
/** By section and variable. A subsection, such as the name of a remote, can be anything. */
const reasons: Readonly<Record<string, string>> = {
  "core.alternaterefscommand": runs,
  "core.askpass": runs,
  "core.gitproxy": runs,
  "core.sshcommand": runs,
  "credential.helper": runs,
  "extensions.partialclone": fetches,
  "include.path": leads,
  "includeif.path": leads,
  "remote.partialclonefilter": fetches,
  "remote.promisor": fetches,
  "remote.receivepack": runs,
  "remote.uploadpack": runs,
  "remote.vcs": runs,
  "uploadpack.packobjectshook": runs
}

/** The first setting of `git config --list --null` that a safe clone lacks. Values are not shown: they hold passwords. */
const findBadSetting = (listed: string) => {
  for (const setting of listed.split("\0")) {
    const [key = "", ...lines] = setting.split("\n")
    const reason = badSetting(key, lines.join("\n"))
    if (reason !== undefined) return `its setting ${key} ${reason}`
  }
  return undefined
}

/** git writes sections and variables in lower case (git-config(1), Syntax). */
const badSetting = (key: string, value: string) => {
  const section = key.slice(0, key.indexOf("."))
  const variable = key.slice(key.lastIndexOf(".") + 1)
  const subsection = key.slice(section.length + 1, -variable.length - 1)
  if (section === "protocol") return "opens a protocol"
  if (section === "url" && namesHelper(subsection)) return runs
  if (section === "remote" && (variable === "url" || variable === "pushurl") && namesHelper(value)) return runs
  if (section === "core" && variable === "fsmonitor" && !booleans.has(value.toLowerCase())) return runs
  return reasons[`${section}.${variable}`]
}

/** Of core.fsmonitor, which otherwise is the path of a program. */
const booleans = new Set(["", "true", "false", "yes", "no", "on", "off", "1", "0"])

/** Whether git runs a helper for this address, such as `ext::COMMAND` (gitremote-helpers(7)). */
const namesHelper = (address: string) => /^[a-z0-9+.-]*::/i.test(address)
