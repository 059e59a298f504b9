/** Pinned documents (spec 4.11, 8). */
import { assert, it as plain, layer } from "@effect/vitest"
import { Context, Effect } from "effect"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import { execFileSync } from "node:child_process"
import { randomUUID } from "node:crypto"
import { mkdirSync, symlinkSync } from "node:fs"
import { join } from "node:path"
import { SqlClient } from "effect/sql"
import { Documents } from "../../../src/agents/documents/Documents.ts"
import { boundaryBefore, endOf, lineAt, lineCount, offsetOfLine } from "../../../src/agents/documents/Fragment.ts"
import { Agent, type Called } from "../../support/agents/McpAgent.ts"
import { hasGit, repository } from "../../support/agents/Repository.ts"
import { Service } from "../../support/service/Service.ts"

plain("consecutive fragments of any text concatenate to its bytes, and none splits a character", () => {
  const piece = fc.oneof(fc.string({ unit: "binary" }), fc.constantFrom("\n", "\r\n", "\ufeff", "é", "猫", "🦄"))
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 60 }), fc.integer({ min: 1, max: 40 }), (pieces, max_bytes) => {
      const bytes = Buffer.from(pieces.join("").toWellFormed().replaceAll("\0", ""))
      const parts: Array<Uint8Array> = []
      let offset = 0
      while (offset < bytes.length) {
        const end = endOf(bytes, offset, max_bytes)
        assert.isAbove(end, offset)
        assert.isAtMost(end - offset, Math.max(max_bytes, 4))
        assert.strictEqual(boundaryBefore(bytes, end), end)
        parts.push(bytes.subarray(offset, end))
        offset = end
      }
      assert.deepStrictEqual(Buffer.concat(parts), bytes)
    }),
    { numRuns: 500 }
  )
})

plain("a fragment ends with a line that ends in the second half of its window", () => {
  const ends = (text: string) => endOf(Buffer.from(text), 0, 10)
  assert.deepStrictEqual([ends("12345\n78901234"), ends("1234\n678901234")], [6, 10])
  assert.strictEqual(ends("123456789\r\n"), 9, "not within a line break")
})

plain("an empty text has a line 1 to read from, and a newline at the end of a text begins no other line", () => {
  const lines: Readonly<Record<string, readonly [starts: ReadonlyArray<number | undefined>, count: number]>> = {
    "": [[0, undefined, undefined], 0],
    a: [[0, undefined, undefined], 1],
    "a\n": [[0, undefined, undefined], 1],
    "a\nb": [[0, 2, undefined], 2],
    "\n\n": [[0, 1, undefined], 2]
  }
  for (const [text, expected] of Object.entries(lines)) {
    const bytes = Buffer.from(text)
    const starts = [1, 2, 3].map((line) => offsetOfLine(bytes, line))
    assert.deepStrictEqual([starts, lineCount(bytes)], [...expected], JSON.stringify(text))
    for (const [at, start] of starts.entries())
      if (start !== undefined) assert.strictEqual(lineAt(bytes, start), at + 1, JSON.stringify(text))
  }
})

layer(Service.layer)("documents", (it) => {
  const setUp = Effect.gen(function* () {
    const service = yield* Service
    const agent = yield* Agent.make(service)
    const repo = yield* repository
    const documents = Context.get(service.services, Documents)
    const pin = (commit: string, path: string, given: object = {}) =>
      documents.pin({
        project_id: agent.project_id,
        directory: repo.directory,
        repository: "acme/shop",
        commit,
        path,
        title: path,
        bootstrap: false,
        ...given
      })
    return { agent, documents, pin, ...repo }
  })

  const scenario = (
    name: string,
    body: Effect.Effect<void, unknown, Effect.Services<typeof setUp> | SqlClient.SqlClient>
  ) => it.effect(name, (context) => (hasGit ? Effect.asVoid(body) : Effect.sync(() => context.skip("needs git"))))

  scenario(
    "a pinned document is listed as a reference and can be read in fragments",
    Effect.gen(function* () {
      const { agent, commit, pin } = yield* setUp
      const text = `\ufeffLine é\r\n${"猫\n".repeat(3000)}end`
      const sha = commit({ "docs/guide.md": text })
      const pinned = yield* pin(sha, "docs/guide.md", { bootstrap: true })
      const [reference] = (yield* agent.call("runtime_bootstrap_get")).output.documents
      assert.deepInclude(reference, {
        document_id: pinned.document_id,
        repository: "acme/shop",
        commit: sha,
        path: "docs/guide.md",
        blob_oid: pinned.blob_oid,
        size_bytes: Buffer.byteLength(text),
        line_count: 3002
      })
      assert.notProperty(reference, "text")
      const { output: beginning } = yield* agent.call("git_document_get", { document_id: pinned.document_id })
      assert.strictEqual(beginning.end_offset, 8192)
      let read = ""
      let offset: number | null = 0
      while (offset !== null) {
        const { output }: Called = yield* agent.call("git_document_get", {
          document_id: pinned.document_id,
          offset,
          max_bytes: 1000,
          expected_blob_oid: pinned.blob_oid
        })
        read += output.text
        offset = output.next_offset
      }
      assert.strictEqual(read, text)
    })
  )

  scenario(
    "a document for the start of a session is listed before others, whenever it was pinned",
    Effect.gen(function* () {
      const { agent, commit, pin } = yield* setUp
      const sha = commit({ "a.md": "x", "b.md": "y" })
      const first = yield* pin(sha, "a.md")
      yield* TestClock.adjust("1 second")
      const second = yield* pin(sha, "b.md", { bootstrap: true })
      const { documents } = (yield* agent.call("runtime_bootstrap_get")).output
      assert.deepStrictEqual(
        documents.map(({ document_id }: { document_id: string }) => document_id),
        [second.document_id, first.document_id]
      )
    })
  )

  scenario(
    "a fragment can start at a line number",
    Effect.gen(function* () {
      const { agent, commit, pin } = yield* setUp
      const { document_id } = yield* pin(commit({ "a.md": "one\ntwo\nthree\n" }), "a.md")
      const { output } = yield* agent.call("git_document_get", { document_id, start_line: 2, max_bytes: 4 })
      assert.deepInclude(output, { text: "two\n", start_line: 2, end_line: 2, offset: 4, next_offset: 8, eof: false })
    })
  )

  scenario(
    "an invalid fragment is refused with the details needed to correct the request",
    Effect.gen(function* () {
      const { agent, commit, pin } = yield* setUp
      const { blob_oid, document_id } = yield* pin(commit({ "a.md": "é\n" }), "a.md")
      const facts = { blob_oid, total_bytes: 3 }
      const ask = (given: object) => agent.call("git_document_get", { document_id, ...given })
      const inside = yield* ask({ offset: 1 })
      assert.deepStrictEqual([inside.code, inside.details], ["document_fragment_invalid", { ...facts, boundary: 0 }])
      const past = yield* ask({ offset: 4 })
      assert.deepStrictEqual([past.code, past.details], ["document_fragment_invalid", { ...facts, boundary: 3 }])
      for (const given of [{ offset: 0, start_line: 1 }, { expected_blob_oid: "0".repeat(40) }, { start_line: 2 }]) {
        assert.strictEqual((yield* ask(given)).code, "document_fragment_invalid")
      }
      const end = yield* ask({ offset: 3 })
      assert.deepInclude(end.output, { text: "", eof: true, next_offset: null })
    })
  )

  scenario(
    "an unpinned document, an unknown one and one of another project get the same answer",
    Effect.gen(function* () {
      const { agent, commit, documents, pin } = yield* setUp
      const service = yield* Service
      const { document_id } = yield* pin(commit({ "a.md": "x" }), "a.md")
      const stranger = yield* Agent.make(service)
      const foreign = yield* stranger.call("git_document_get", { document_id })
      yield* documents.unpin(document_id)
      const gone = yield* agent.call("git_document_get", { document_id })
      const unknown = yield* agent.call("git_document_get", { document_id: randomUUID() })
      assert.strictEqual(gone.code, "document_not_pinned")
      assert.deepStrictEqual([foreign.text, gone.text], [unknown.text, unknown.text])
    })
  )

  scenario(
    "pinning the same file again returns the same document",
    Effect.gen(function* () {
      const { commit, pin } = yield* setUp
      const sha = commit({ "a.md": "x" })
      assert.deepStrictEqual(yield* pin(sha, "a.md"), yield* pin(sha, "a.md", { title: "Other" }))
    })
  )

  scenario(
    "bytes that differ from the pinned file are never served",
    Effect.gen(function* () {
      const { agent, commit, pin } = yield* setUp
      const sql = yield* SqlClient.SqlClient
      const other = "b".repeat(40)
      const changes = [
        (oid: string) => sql`update document_blob set bytes = set_byte(bytes, 0, 65) where blob_oid = ${oid}`,
        (oid: string) => sql`update document_blob set sha256 = sha256('x') where blob_oid = ${oid}`,
        (oid: string) =>
          Effect.andThen(
            sql`insert into document_blob
                select (jsonb_populate_record(b, jsonb_build_object('blob_oid', ${other}::text))).*
                  from document_blob b where blob_oid = ${oid}`,
            sql`update pinned_document set blob_oid = ${other} where blob_oid = ${oid}`
          )
      ]
      for (const change of changes) {
        const { blob_oid, document_id } = yield* pin(commit({ "a.md": `x ${randomUUID()}` }), "a.md")
        yield* change(blob_oid)
        assert.strictEqual((yield* agent.call("git_document_get", { document_id })).code, "document_unavailable")
      }
    })
  )

  const refuses = (
    name: string,
    path: string,
    code: string,
    prepare: (repo: Effect.Success<typeof repository>) => string
  ) =>
    scenario(
      `${name} is refused: ${code}`,
      Effect.gen(function* () {
        const { agent, pin, ...repo } = yield* setUp
        const refusal = yield* Effect.flip(pin(prepare(repo), path))
        assert.strictEqual(refusal._tag, code)
        assert.deepStrictEqual((yield* agent.call("runtime_bootstrap_get")).output.documents, [])
      })
    )

  refuses("a symbolic link", "link.md", "document_not_a_file", ({ commit, directory }) => {
    symlinkSync("/etc/passwd", join(directory, "link.md"))
    return commit({})
  })
  refuses("a file behind a symbolic link", "d/a.md", "document_path_not_found", ({ commit, directory }) => {
    mkdirSync(join(directory, "real"))
    symlinkSync("real", join(directory, "d"))
    return commit({ "real/a.md": "x" })
  })
  refuses("a folder", "docs", "document_not_a_file", ({ commit }) => commit({ "docs/a.md": "x" }))
  refuses("a submodule", "sub", "document_not_a_file", ({ commit, directory, git }) => {
    const sha = commit({ "a.md": "x" })
    execFileSync("git", ["-C", directory, "update-index", "--add", "--cacheinfo", `160000,${sha},sub`])
    git("-c", "core.hooksPath=/dev/null", "commit", "-qm", "sub")
    return git("rev-parse", "HEAD")
  })
  refuses("a missing file", "b.md", "document_path_not_found", ({ commit }) => commit({ "a.md": "x" }))
  refuses("a file over 1 MiB", "a.md", "document_too_large", ({ commit }) => commit({ "a.md": "x".repeat(1_048_577) }))
  refuses("a binary file", "a.bin", "document_not_text", ({ commit }) => commit({ "a.bin": Buffer.from([1, 0, 2]) }))
  refuses("a Latin-1 file", "a.txt", "document_not_text", ({ commit }) => commit({ "a.txt": Buffer.from([0xe9]) }))
  refuses("an LFS pointer", "a.md", "document_is_lfs_pointer", ({ commit }) =>
    commit({ "a.md": "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n" })
  )
  refuses("a branch name", "a.md", "document_commit_invalid", ({ commit }) => (commit({ "a.md": "x" }), "main"))
  refuses("a blob as commit", "a.md", "document_commit_invalid", ({ commit, git }) => {
    commit({ "a.md": "x" })
    return git("rev-parse", "HEAD:a.md")
  })
  for (const path of [
    "/a.md",
    "../a.md",
    "docs/../a.md",
    "docs//a.md",
    ".git/config",
    "-a",
    ":a",
    "a\\b",
    "a\nb",
    ""
  ]) {
    refuses(`the path ${JSON.stringify(path)}`, path, "document_path_invalid", ({ commit }) => commit({ "a.md": "x" }))
  }

  scenario(
    "an object that was replaced is read as it was committed",
    Effect.gen(function* () {
      const { agent, commit, git, pin } = yield* setUp
      const sha = commit({ "a.md": "the original", "b.md": "replaced" })
      git("replace", git("rev-parse", "HEAD:a.md"), git("rev-parse", "HEAD:b.md"))
      const { document_id } = yield* pin(sha, "a.md")
      assert.strictEqual((yield* agent.call("git_document_get", { document_id })).output.text, "the original")
    })
  )
})
