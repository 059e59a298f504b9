/** The folder and the version of this package, whether it runs from src/ or bundled from dist/. */
import { existsSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"

const above = (folder: string): string => (existsSync(join(folder, "package.json")) ? folder : above(dirname(folder)))

export const packageRoot = above(import.meta.dirname)

export const version: string = JSON.parse(readFileSync(join(packageRoot, "package.json"), "utf8")).version

/** Defined by the build; the sources do not know their commit. */
declare const BUILD_COMMIT: string | undefined
const commit = typeof BUILD_COMMIT === "string" ? BUILD_COMMIT : ""

/** `<version>+<commit>` when built from a clone, else the version. */
export const revision: string = commit === "" ? version : `${version}+${commit}`
