/** Every file that must survive a power cut: it is synced before it gets its name, and its folder afterwards. */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Redacted } from "effect"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import { basename, join } from "node:path"
import { beforeEach, vi } from "vitest"
import { withSecretFiles } from "../../cli/support/files/SecretFiles.ts"
import { writeWhole } from "../../cli/support/files/WholeFiles.ts"
import { Journal } from "../../src/client/bridge/Journal.ts"
import * as BackupFolder from "../../src/platform/backups/BackupFolder.ts"
import { makeDatabase } from "../../src/platform/database/embedded/PostgresSetup.ts"
import { generatedSecrets } from "../../src/platform/settings/Secrets.ts"

/** What the disk was told, in order. */
const { disk, nameOf } = vi.hoisted(() => ({
  disk: [] as Array<string>,
  /** Folders and drafts have random parts in their names. */
  nameOf: (path: unknown) =>
    String(path)
      .replace(/.*power-cut-[^/]*$/, "the folder")
      .replace(/.*\//, "")
      .replace(/\.new-.*|\.\d+$/, ".draft")
}))

vi.mock("node:fs", async (original) => {
  const real = await original<typeof fs>()
  const names = new Map<number, string>()
  const recording = {
    ...real,
    openSync: (...given: Parameters<typeof fs.openSync>) => {
      const descriptor = real.openSync(...given)
      names.set(descriptor, nameOf(given[0]))
      return descriptor
    },
    fsyncSync: (descriptor: number) => {
      disk.push(`sync ${names.get(descriptor)}`)
      real.fsyncSync(descriptor)
    },
    renameSync: (from: string, to: string) => {
      disk.push(`rename ${nameOf(from)} to ${nameOf(to)}`)
      real.renameSync(from, to)
    },
    linkSync: (from: string, to: string) => {
      disk.push(`link ${nameOf(from)} to ${nameOf(to)}`)
      real.linkSync(from, to)
    }
  }
  return { ...recording, default: recording }
})

vi.mock("node:fs/promises", async (original) => {
  const real = await original<typeof fs.promises>()
  const recording = {
    ...real,
    open: async (...given: Parameters<typeof fs.promises.open>) => {
      const file = await real.open(...given)
      const sync = file.sync.bind(file)
      file.sync = () => {
        disk.push(`sync ${nameOf(given[0])}`)
        return sync()
      }
      return file
    },
    rename: (from: string, to: string) => {
      disk.push(`rename ${nameOf(from)} to ${nameOf(to)}`)
      return real.rename(from, to)
    }
  }
  return { ...recording, default: recording }
})

const folder = Effect.acquireRelease(
  Effect.sync(() => fs.mkdtempSync(join(tmpdir(), "power-cut-"))),
  (path) => Effect.sync(() => fs.rmSync(path, { recursive: true, force: true }))
)

describe("after a power cut", () => {
  beforeEach(() => void (disk.length = 0))

  it.effect("a Bridge has its folder, its key and its latest state", () =>
    Effect.gen(function* () {
      const path = join(yield* folder, "state")
      const journal = Context.get(yield* Layer.build(Journal.layer(path)), Journal)
      assert.deepStrictEqual(disk.splice(0), ["sync the folder"])
      yield* journal.keys
      assert.deepStrictEqual(disk.splice(0), ["sync key.json.new", "rename key.json.new to key.json", "sync state"])
      const identity = {
        project_id: "00000000-0000-7000-8000-000000000001",
        bridge_id: "bridge-1",
        device_id: "device-1",
        display_name: "Bridge"
      }
      const nothing = { enrollment: null, token: null, rotation: null }
      yield* journal.write({ version: 1, base_url: "http://127.0.0.1:8787", identity, ...nothing })
      assert.deepStrictEqual(disk, ["sync state.json.new", "rename state.json.new to state.json", "sync state"])
    })
  )

  it.effect("an operator has the secret whose hash is stored", () =>
    Effect.gen(function* () {
      const path = join(yield* folder, "credential")
      yield* withSecretFiles(
        [{ path, secret: Redacted.make("secret") }],
        Effect.sync(() => void disk.push("activate"))
      )
      assert.deepStrictEqual(disk, ["sync credential", "sync the folder", "activate"])
    })
  )

  it.effect("an operator has the whole file of an export or backup", () =>
    Effect.gen(function* () {
      const path = join(yield* folder, "backup")
      yield* writeWhole(path, (file) => Effect.sync(() => fs.writeSync(file, "whole")))
      assert.deepStrictEqual(disk, ["sync backup.partial", "rename backup.partial to backup", "sync the folder"])
    })
  )

  it.live("the service has its whole backup, and what became of it", () =>
    Effect.gen(function* () {
      const path = yield* folder
      const name = BackupFolder.nameOf(new Date())
      yield* BackupFolder.write(path, name, (append) => append("whole"))
      assert.deepStrictEqual(disk.splice(0), [
        `sync ${name}.partial`,
        `rename ${name}.partial to ${name}`,
        "sync the folder"
      ])
      const tried = { size: 5, changed: "0", outcome: "read", reason: null, key: null } as const
      yield* BackupFolder.keep(join(path, name), { ...tried, created_at: new Date(), tried_at: new Date() })
      // A result that is lost is found again by another trial.
      assert.deepStrictEqual(disk, [
        `sync ${name}.checked.partial`,
        `rename ${name}.checked.partial to ${name}.checked`
      ])
    })
  )

  const replaced = ["sync secrets.env.draft", "rename secrets.env.draft to secrets.env", "sync the folder"]
  it.effect("the service has the whole file of its generated secrets", () =>
    Effect.gen(function* () {
      yield* generatedSecrets(yield* folder)
      assert.deepStrictEqual(disk.slice(-3), replaced)
    })
  )

  it.effect("the service has the secrets that an upgrade added", () =>
    Effect.gen(function* () {
      const path = yield* folder
      fs.writeFileSync(join(path, "secrets.env"), "SERVICE_BRIDGE_TOKEN_SECRET=of-the-older-release\n", { mode: 0o600 })
      yield* generatedSecrets(path)
      assert.deepStrictEqual(disk.slice(-3), replaced)
    })
  )

  it.effect("the embedded database has its folder", () =>
    Effect.gen(function* () {
      const path = yield* folder
      const initdb = join(path, "bin/initdb")
      fs.mkdirSync(join(path, "bin"))
      fs.writeFileSync(initdb, '#!/bin/sh\ntouch "${1#--pgdata=}/PG_VERSION"\n', { mode: 0o700 })
      yield* makeDatabase({ binaries: path, directory: join(path, "postgres"), account: undefined, durable: true })
      assert.deepStrictEqual(disk, ["rename postgres.draft to postgres", "sync the folder"])
      assert.deepStrictEqual(
        fs.readdirSync(join(path, "postgres")).map((name) => basename(name)),
        ["PG_VERSION"]
      )
    })
  )
})
