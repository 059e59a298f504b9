/**
 * The files of a source that `import-memory` reads: a folder, or one file. What is too large, or leads out of the folder, is
 * refused before anything of it is imported.
 */
import { Effect } from "effect"
import * as fs from "node:fs"
import { basename, dirname, join, relative, resolve, sep } from "node:path"
import type { Format } from "../../../src/agents/transfer/sources/formats.ts"
import type { SourceFile } from "../../../src/agents/transfer/sources/Place.ts"
import { fileError, FileError } from "./SecretFiles.ts"

const mib = 1024 * 1024
const most = { files: 50_000, depth: 32, note: mib, lines: 64 * mib, all: 64 * mib }

/** Where a program keeps its file in a folder. */
const usual: Readonly<Partial<Record<Format, ReadonlyArray<string>>>> = {
  beads: [".beads/issues.jsonl", "issues.jsonl", ".beads/beads.jsonl", "beads.jsonl"],
  "server-memory": ["jsonl", "json"].map((ending) => `memory.${ending}`)
}

/** `label`: the name of the folder, without those that programs hide. */
export const sourceFiles = (
  path: string,
  format: Format
): Effect.Effect<{ readonly label: string; readonly files: ReadonlyArray<SourceFile> }, FileError> =>
  Effect.try({
    try: () => read(path, format),
    catch: (error) => (error instanceof FileError ? error : fileError(path, "read", error))
  })

const read = (path: string, format: Format) => {
  const given = fs.realpathSync(resolve(path))
  const isFolder = fs.statSync(given).isDirectory()
  const names = usual[format]
  const found = isFolder && names !== undefined ? names.find((name) => fs.existsSync(join(given, name))) : undefined
  if (isFolder && names !== undefined && found === undefined) {
    throw new FileError({ message: `${path} has none of the files ${names.join(", ")}.` })
  }
  const root = isFolder ? given : dirname(given)
  const budget = { left: most.all }
  const one = found === undefined ? (isFolder ? undefined : basename(given)) : targetOf(root, found)
  const paths = one === undefined ? notesIn(root) : [one]
  const longest = names === undefined ? most.note : most.lines
  return { label: labelOf(root), files: paths.map((path) => fileIn(root, path, longest, budget)) }
}

const labelOf = (folder: string): string => {
  const name = basename(folder)
  return name.startsWith(".") ? labelOf(dirname(folder)) : name || "root"
}

/** Markdown in the folder and below it, in the order of the paths; nothing in hidden folders and `node_modules`. */
const notesIn = (root: string): ReadonlyArray<string> => {
  const notes: Array<string> = []
  const walk = (folder: string, depth: number) => {
    if (depth > most.depth) throw new FileError({ message: `${folder} lies more than ${most.depth} folders deep.` })
    const entries = fs.readdirSync(join(root, folder), { withFileTypes: true })
    for (const entry of entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
      const path = folder === "" ? entry.name : `${folder}/${entry.name}`
      if (entry.name.startsWith(".") || entry.name === "node_modules") continue
      const isNote = entry.name.toLowerCase().endsWith(".md")
      // A link within the folder is left out, because its target is read by itself.
      if (entry.isSymbolicLink()) targetOf(root, path)
      else if (entry.isDirectory()) walk(path, depth + 1)
      else if (isNote && entry.isFile()) {
        if (notes.length === most.files) throw new FileError({ message: `${root} has more than ${most.files} notes.` })
        notes.push(path)
      } else if (isNote) throw new FileError({ message: `${path} is not a file. Nothing was imported.` })
    }
  }
  walk("", 0)
  return notes
}

/** Where a path leads, through links too; it has to stay within the folder. */
const targetOf = (root: string, path: string): string => {
  let target: string
  try {
    target = fs.realpathSync(join(root, path))
  } catch {
    throw new FileError({ message: `${path} is a link that leads nowhere; remove it. Nothing was imported.` })
  }
  if (target === root || target.startsWith(`${root}${root.endsWith(sep) ? "" : sep}`)) return relative(root, target)
  throw new FileError({ message: `${path} is a link that leads out of ${root}; remove it. Nothing was imported.` })
}

const fileIn = (root: string, path: string, longest: number, budget: { left: number }): SourceFile => {
  const file = fs.openSync(join(root, path), fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK)
  try {
    const stat = fs.fstatSync(file)
    if (!stat.isFile()) throw new FileError({ message: `${path} is not a file.` })
    if (stat.size > longest) {
      throw new FileError({ message: `${path} has more than ${longest / mib} MiB. Nothing was imported.` })
    }
    budget.left -= stat.size
    if (budget.left < 0) {
      throw new FileError({ message: `${root} has more than ${most.all / mib} MiB of notes. Nothing was imported.` })
    }
    const bytes = Buffer.alloc(stat.size)
    return { path, bytes: bytes.subarray(0, fs.readSync(file, bytes)) }
  } finally {
    fs.closeSync(file)
  }
}
