/** A small disk (a tmpfs), which needs root, and filling it to its last byte. */
import { Effect } from "effect"
import { spawnSync } from "node:child_process"
import { closeSync, openSync, writeSync } from "node:fs"

const runs = (program: string, ...args: ReadonlyArray<string>) =>
  spawnSync(program, args, { stdio: "ignore" }).status === 0

/** Mounts it at `folder` until the scope closes; false without root. */
export const smallDisk = (folder: string, options: string) =>
  Effect.acquireRelease(
    Effect.sync(() => runs("mount", "-t", "tmpfs", "-o", options, "tmpfs", folder)),
    (mounted) => Effect.sync(() => void (mounted && runs("umount", "-l", folder)))
  )

const wrote = (file: number, bytes: number) => {
  try {
    return writeSync(file, Buffer.alloc(bytes)) === bytes
  } catch {
    return false
  }
}

/** Writes `path` until nothing more fits. */
export const fillDisk = (path: string) =>
  Effect.sync(() => {
    const file = openSync(path, "a")
    for (let bytes = 1 << 20; bytes >= 1; bytes >>= 1) while (wrote(file, bytes));
    closeSync(file)
  })
