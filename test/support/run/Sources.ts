/** The server's source files as text, for tests that compare pages with the code. */
import { readdirSync } from "node:fs"
import { join } from "node:path"
import { packageRoot } from "../../../src/platform/settings/Package.ts"
import { read } from "./Markdown.ts"

/** Every file of `src/` except `src/client/`. */
export const sourceFiles = readdirSync(join(packageRoot, "src"), { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".ts") && !file.startsWith("client"))
  .map((file) => ({ file: `src/${file}`, source: read(`src/${file}`) }))

export const sources = sourceFiles.map(({ source }) => source).join("\n")
