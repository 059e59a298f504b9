/** The server's source files as text, for tests that compare pages with the code. */
import { readdirSync } from "node:fs"
import { join } from "node:path"
import { packageRoot } from "./Root.ts"
import { read } from "./Markdown.ts"

const filesOf = (folder: string) =>
  readdirSync(join(packageRoot, folder), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts"))
    .map((file) => ({ file: `${folder}/${file}`, source: read(`${folder}/${file}`) }))

/** Every file of `src/` except `src/client/`. */
export const sourceFiles = filesOf("src").filter(({ file }) => !file.startsWith("src/client/"))

const joined = (files: typeof sourceFiles) => files.map(({ source }) => source).join("\n")

export const sources = joined(sourceFiles)

/** The files of the commands. */
export const commandSources = joined(filesOf("cli"))
