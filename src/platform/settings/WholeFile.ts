/** Files that are there whole or not at all, whatever is killed, and readable by their owner only. */
import * as fs from "node:fs"
import { dirname } from "node:path"

/** Writes a draft and links it into place: no reader sees a partial file. Does nothing if the file exists. */
export const createOnce = (file: string, text: string) =>
  draft(file, text, (written) => {
    try {
      fs.linkSync(written, file)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error
    }
  })

/** `owner`: the account that shall own the file; by default the account of this process. */
export const replace = (file: string, text: string, owner?: Owner) =>
  draft(
    file,
    text,
    (written) => {
      fs.renameSync(written, file)
      syncFolder(dirname(file))
    },
    owner
  )

type Owner = { readonly uid: number; readonly gid: number } | undefined

const draft = (file: string, text: string, place: (written: string) => void, owner?: Owner) => {
  const written = `${file}.${process.pid}`
  fs.rmSync(written, { force: true })
  // Never opens a file that is there already: in a folder of another account it could be a link to elsewhere.
  const descriptor = fs.openSync(written, "wx", 0o600)
  try {
    if (owner !== undefined) fs.fchownSync(descriptor, owner.uid, owner.gid)
    fs.writeFileSync(descriptor, text)
    fs.fsyncSync(descriptor)
    place(written)
  } finally {
    fs.closeSync(descriptor)
    fs.rmSync(written, { force: true })
  }
}

/** Without this sync, a power cut could undo a new file or a rename that was already relied on. */
export const syncFolder = (folder: string) => {
  const descriptor = fs.openSync(folder, "r")
  fs.fsyncSync(descriptor)
  fs.closeSync(descriptor)
}
