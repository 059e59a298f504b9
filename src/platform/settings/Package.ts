/** The version of this package and its folder, from the sources or bundled into dist/. */
import { readFileSync } from "node:fs"
import { join } from "node:path"

/** Defined by the build, so that dist/ needs no file beside it. The commit is abbreviated; empty outside a clone. */
declare const BUILD: { readonly version: string; readonly commit: string } | undefined

export const isBundled = typeof BUILD !== "undefined"

/** The folder of the clone, or of the installed package. */
export const packageRoot = join(import.meta.dirname, isBundled ? ".." : "../../..")

const { commit, version } = isBundled
  ? BUILD!
  : { commit: "", version: JSON.parse(readFileSync(join(packageRoot, "package.json"), "utf8")).version as string }

export { version }

/** `<version>+<commit>` when built from a clone, else the version. */
export const revision: string = commit === "" ? version : `${version}+${commit}`
