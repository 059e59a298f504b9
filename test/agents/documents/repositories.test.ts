/** Which repositories a document can be pinned from (spec 4.11, decisions.md, Repositories that are refused). */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import {
  appendFileSync,
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { dirname, join } from "node:path"
import { afterEach, vi } from "vitest"
import { deflateSync } from "node:zlib"
import { readFile } from "../../../src/agents/documents/Git.ts"
import { closedEnvironment, closedOptions } from "../../../src/agents/documents/runGit.ts"
import { hasGit, repository, repositoryWith } from "../../support/agents/Repository.ts"

type Repository = Effect.Success<typeof repository>

const scenario = (name: string, body: Effect.Effect<void, unknown, Effect.Services<typeof repository>>) =>
  it.effect(name, (context) => (hasGit ? Effect.scoped(body) : Effect.sync(() => context.skip("needs git"))))

const objectPath = (oid: string) => join(".git/objects", oid.slice(0, 2), oid.slice(2))
const blobOfX = objectPath("c1b0730e0133447badcfd47fd144e254807b06e1")

/** Commits a.md with the text x, prepares the repository, and expects a refusal that names `file` and `reason`. */
const refuses = (name: string, file: string, reason: string, prepare: (repo: Repository) => void) =>
  scenario(
    `${name}, and the message says so`,
    Effect.gen(function* () {
      const repo = yield* repository
      const sha = repo.commit({ "a.md": "x" })
      prepare(repo)
      const { _tag, message } = yield* Effect.flip(readFile(repo.directory, sha, "a.md"))
      assert.strictEqual(_tag, "document_repository_unsafe")
      assert.include(message, `${join(repo.directory, file)}: ${reason}`)
      assert.include(message, "git clone")
      assert.notInclude(message, "hunter2")
    })
  )

const text = ({ bytes }: { readonly bytes: Uint8Array }) => Buffer.from(bytes).toString()

describe("a document is not pinned from a repository with a setting that runs a program, fetches or leads elsewhere", () => {
  for (const [key, value, reason] of [
    ["extensions.partialClone", "evil", "makes git fetch what is missing"],
    ["remote.Evil.promisor", "true", "makes git fetch what is missing"],
    ["remote.evil.partialclonefilter", "blob:none", "makes git fetch what is missing"],
    ["include.path", "/home/hunter2", "leads to another file"],
    ["includeIf.gitdir:/x.path", "/home/hunter2", "leads to another file"],
    ["protocol.allow", "always", "opens a protocol"],
    ["protocol.ext.allow", "always", "opens a protocol"],
    ["core.fsmonitor", "./hunter2", "names a program"],
    ["core.sshCommand", "hunter2", "names a program"],
    ["core.gitProxy", "hunter2", "names a program"],
    ["core.askPass", "hunter2", "names a program"],
    ["core.alternateRefsCommand", "hunter2", "names a program"],
    ["credential.helper", "!hunter2", "names a program"],
    ["credential.https://example.com.helper", "!hunter2", "names a program"],
    ["remote.evil.url", "ext::sh -c hunter2", "names a program"],
    ["remote.evil.pushurl", "ext::sh -c hunter2", "names a program"],
    ["remote.evil.vcs", "hunter2", "names a program"],
    ["remote.evil.uploadpack", "hunter2", "names a program"],
    ["remote.evil.receivepack", "hunter2", "names a program"],
    ["uploadpack.packObjectsHook", "hunter2", "names a program"],
    ["url.ext::sh.insteadOf", "https://hunter2", "names a program"]
  ] as const) {
    const [section, variable] = [key.slice(0, key.indexOf(".")), key.slice(key.lastIndexOf("."))]
    const written = section.toLowerCase() + key.slice(section.length, -variable.length) + variable.toLowerCase()
    refuses(`${key}=${value}`, ".git/config", `its setting ${written} ${reason}`, ({ git }) =>
      git("config", key, value)
    )
  }
  refuses(
    "a setting of the working tree alone",
    ".git/config.worktree",
    "its setting core.sshcommand names a program",
    ({ git }) => {
      git("config", "extensions.worktreeConfig", "true")
      git("config", "--worktree", "core.sshCommand", "hunter2")
    }
  )
})

describe("a document is not pinned from a repository whose files are elsewhere", () => {
  for (const name of ["alternates", "http-alternates"]) {
    refuses(`objects/info/${name}`, `.git/objects/info/${name}`, "it leads to another repository", ({ directory }) =>
      appendFileSync(join(directory, ".git/objects/info", name), "/home/hunter2/objects\n")
    )
  }
  refuses("a commondir", ".git/commondir", "it leads to another repository", ({ directory }) =>
    writeFileSync(join(directory, ".git/commondir"), "/home/hunter2")
  )
  refuses("a .git file", ".git", "it is not a folder, and may lead elsewhere", ({ directory }) => {
    renameSync(join(directory, ".git"), join(directory, "moved"))
    writeFileSync(join(directory, ".git"), `gitdir: ${join(directory, "moved")}\n`)
  })
  for (const name of [".git", ".git/objects", ".git/objects/pack"]) {
    refuses(`a link at ${name}`, name, "it is not a f", ({ directory }) => {
      renameSync(join(directory, name), join(directory, "moved"))
      symlinkSync(join(directory, "moved"), join(directory, name))
    })
  }
  refuses("a link in the place of an object", blobOfX, "it is not a file, and may lead elsewhere", ({ directory }) => {
    const object = join(directory, blobOfX)
    renameSync(object, join(directory, "moved"))
    symlinkSync(join(directory, "moved"), object)
  })
  refuses("a link at the configuration", ".git/config", "it is not a file, and may lead elsewhere", ({ directory }) => {
    renameSync(join(directory, ".git/config"), join(directory, "moved"))
    symlinkSync(join(directory, "moved"), join(directory, ".git/config"))
  })
})

describe("a document is not pinned from a repository that somebody else can change", () => {
  afterEach(() => {
    vi.restoreAllMocks()
  })
  /** Root gives the file away; another account becomes somebody else. */
  const giveAway = (file: string) => {
    const uid = process.geteuid!()
    if (uid === 0) return chownSync(file, 65534, 65534)
    vi.spyOn(process, "geteuid").mockReturnValue(uid + 1)
  }
  for (const name of ["", ".git", ".git/config", ".git/objects", ".git/objects/pack", blobOfX]) {
    const owned = process.geteuid!() === 0 ? name : ""
    refuses(`another account owns ./${name}`, owned, "it belongs to another account", ({ directory }) =>
      giveAway(join(directory, name))
    )
  }
  for (const name of [
    "",
    ".git",
    ".git/HEAD",
    ".git/config",
    ".git/packed-refs",
    ".git/refs",
    ".git/objects",
    ".git/objects/info",
    ".git/objects/pack",
    blobOfX
  ]) {
    for (const [who, mode] of [
      ["its group", 0o775],
      ["every account", 0o757]
    ] as const) {
      refuses(
        `${who} can write to ./${name}`,
        name,
        "its group or every account may change it",
        ({ directory, git }) => {
          git("pack-refs", "--all")
          chmodSync(join(directory, name), mode)
        }
      )
    }
  }

  /** A clone at `parent/clone`, where the parent has this mode, and what `readFile` answers. */
  const below = (mode: number, prepare: (parent: string) => void = () => {}) =>
    Effect.gen(function* () {
      const repo = yield* repository
      const sha = repo.commit({ "a.md": "text" })
      const parent = join((yield* repository).directory, "it's open")
      mkdirSync(parent)
      renameSync(repo.directory, join(parent, "clone"))
      chmodSync(parent, mode)
      prepare(parent)
      return { parent, read: readFile(join(parent, "clone"), sha, "a.md") }
    })
  for (const mode of [0o777, 0o775]) {
    scenario(
      `a folder above it has mode ${mode.toString(8)}, and the message mends it`,
      Effect.gen(function* () {
        const { parent, read } = yield* below(mode)
        const { _tag, message } = yield* Effect.flip(read)
        assert.strictEqual(_tag, "document_repository_unsafe")
        const command = /^Mend it with: (.*)$/m.exec(message)?.[1]
        assert.strictEqual(command, `chmod go-w '${parent.replace("'", "'\\''")}'`)
        execFileSync("sh", ["-c", command!])
        assert.strictEqual(text(yield* read), "text")
      })
    )
  }
  scenario(
    "everything was made for its group (umask 002), and the message mends it",
    Effect.gen(function* () {
      const { commit, directory } = yield* repository
      const sha = commit({ "a.md": "text" })
      execFileSync("chmod", ["-R", "g+w", directory])
      const { message } = yield* Effect.flip(readFile(directory, sha, "a.md"))
      execFileSync("sh", ["-c", /^Mend it with: (.*)$/m.exec(message)![1]!])
      assert.strictEqual(text(yield* readFile(directory, sha, "a.md")), "text")
    })
  )
  it.effect.skipIf(!hasGit || process.geteuid!() !== 0)("another account owns a folder above it", () =>
    Effect.gen(function* () {
      for (const mode of [0o755, 0o1777]) {
        const { parent, read } = yield* below(mode, giveAway)
        const { _tag, message } = yield* Effect.flip(read)
        assert.strictEqual(_tag, "document_repository_unsafe")
        assert.include(message, `${parent}: it belongs to another account`)
      }
    }).pipe(Effect.scoped)
  )
  it.effect.skipIf(!hasGit || process.geteuid!() !== 0)("except that a folder above it may be root's and sticky", () =>
    Effect.gen(function* () {
      assert.strictEqual(text(yield* (yield* below(0o1777)).read), "text")
    }).pipe(Effect.scoped)
  )
})

describe("git", () => {
  const hostile = Effect.gen(function* () {
    const repo = yield* repository
    const ran = join(repo.directory, "ran")
    repo.git("config", "remote.evil.url", `ext::touch ${ran}`)
    repo.git("config", "extensions.partialClone", "evil")
    repo.git("config", "protocol.ext.allow", "always")
    return { ...repo, ran }
  })

  scenario(
    "runs nothing when the commit is missing from a repository that would fetch it by a program",
    Effect.gen(function* () {
      const { commit, directory, ran } = yield* hostile
      commit({ "a.md": "x" })
      const refusal = yield* Effect.flip(readFile(directory, "1".repeat(40), "a.md"))
      assert.strictEqual(refusal._tag, "document_repository_unsafe")
      assert.isFalse(existsSync(ran))
    })
  )

  for (const [name, options, env] of [
    ["options", closedOptions, { PATH: closedEnvironment.PATH }],
    ["environment", [], closedEnvironment]
  ] as const) {
    scenario(
      `opens no protocol under its ${name} alone, whatever the repository allows`,
      Effect.gen(function* () {
        const { directory, ran } = yield* hostile
        const fetch = (more: ReadonlyArray<string>, settings: NodeJS.ProcessEnv) => {
          try {
            execFileSync("git", [...more, "-C", directory, "fetch", "evil"], { env: settings, stdio: "pipe" })
          } catch (error) {
            return String((error as { readonly stderr: Buffer }).stderr)
          }
          return ""
        }
        assert.include(fetch(options, env), "transport 'ext' not allowed")
        assert.isFalse(existsSync(ran))
        fetch([], { PATH: closedEnvironment.PATH })
        assert.isTrue(existsSync(ran), "without them the program runs")
      })
    )
  }

  scenario(
    "reads no tree whose bytes are not those of its hash",
    Effect.gen(function* () {
      const { commit, directory, git } = yield* repository
      const sha = commit({ "a.md": "x" })
      commit({ "b.md": "y" })
      const [real, forged] = [git("rev-parse", `${sha}^{tree}`), git("rev-parse", "HEAD^{tree}")].map((oid) =>
        join(directory, objectPath(oid))
      )
      rmSync(real!)
      writeFileSync(real!, readFileSync(forged!))
      assert.strictEqual((yield* Effect.flip(readFile(directory, sha, "b.md")))._tag, "document_path_not_found")
    })
  )

  scenario(
    "reads no commit whose bytes are not those of its hash",
    Effect.gen(function* () {
      const { commit, directory, git } = yield* repository
      commit({ "a.md": "x" })
      const bytes = Buffer.from(`tree ${git("rev-parse", "HEAD^{tree}")}\n`)
      const object = Buffer.concat([Buffer.from(`commit ${bytes.length}\0`), bytes])
      const sha = createHash("sha1").update("another").digest("hex")
      mkdirSync(dirname(join(directory, objectPath(sha))), { recursive: true })
      writeFileSync(join(directory, objectPath(sha)), deflateSync(object))
      assert.strictEqual((yield* Effect.flip(readFile(directory, sha, "a.md")))._tag, "document_commit_invalid")
    })
  )
})

describe("git reads no object whose size could exhaust the memory", () => {
  const largeCommit = ({ commit, directory, git }: Repository, size: number) => {
    commit({ "a.md": "x" })
    const file = join(directory, "commit")
    writeFileSync(file, `${git("cat-file", "commit", "HEAD")}\n${"x".repeat(size)}`)
    return git("-c", "core.looseCompression=1", "hash-object", "-w", "-t", "commit", file)
  }

  scenario(
    "a large commit",
    Effect.gen(function* () {
      const repo = yield* repository
      const sha = largeCommit(repo, 1_048_576)
      assert.strictEqual((yield* Effect.flip(readFile(repo.directory, sha, "a.md")))._tag, "document_too_large")
    })
  )

  scenario(
    "an object behind a small one, of which git would have to read it",
    Effect.gen(function* () {
      const repo = yield* repository
      const sha = largeCommit(repo, 68_000_000)
      const read = () => execFileSync("git", ["-C", repo.directory, "cat-file", "commit", sha], options)
      const options = { env: closedEnvironment, stdio: "pipe", maxBuffer: 100_000_000 } as const
      assert.throws(read, /attempting to allocate 68\d+ over limit/)
    })
  )

  scenario(
    "a large tree",
    Effect.gen(function* () {
      const { commit, directory, git } = yield* repository
      commit({ "a.md": "x" })
      const blob = git("rev-parse", "HEAD:a.md")
      const entries = Array.from({ length: 5000 }, (_, n) => `100644 blob ${blob}\t${n}${"n".repeat(250)}`)
      const tree = execFileSync("git", ["-C", directory, "mktree"], { input: entries.join("\n"), encoding: "utf8" })
      const sha = git("commit-tree", "-m", "large", tree.trim())
      assert.strictEqual((yield* Effect.flip(readFile(directory, sha, "a.md")))._tag, "document_too_large")
    })
  )
})

describe("a document is pinned from", () => {
  scenario(
    "a repository with SHA-256",
    Effect.gen(function* () {
      const { commit, directory } = yield* repositoryWith("--object-format=sha256")
      const sha = commit({ "docs/long name.md": "text", "docs/b.md": "other" })
      assert.strictEqual(text(yield* readFile(directory, sha, "docs/long name.md")), "text")
    })
  )

  scenario(
    "a repository without a working tree",
    Effect.gen(function* () {
      const { commit, directory } = yield* repository
      const sha = commit({ "a.md": "text" })
      assert.strictEqual(text(yield* readFile(join(directory, ".git"), sha, "a.md")), "text")
    })
  )

  scenario(
    "a repository whose objects are packed, and whose remote is an ordinary one",
    Effect.gen(function* () {
      const { commit, directory, git } = yield* repository
      const sha = commit({ "docs/a.md": "text" })
      git("gc", "-q")
      git("remote", "add", "origin", "https://[::1]/shop.git")
      git("config", "core.fsmonitor", "true")
      assert.strictEqual(text(yield* readFile(directory, sha, "docs/a.md")), "text")
    })
  )

  scenario(
    "a repository that a link of the operator's leads to",
    Effect.gen(function* () {
      const { commit, directory } = yield* repository
      const other = yield* repository
      const sha = commit({ "a.md": "text" })
      symlinkSync(directory, join(other.directory, "link"))
      assert.strictEqual(text(yield* readFile(join(other.directory, "link"), sha, "a.md")), "text")
    })
  )
})
