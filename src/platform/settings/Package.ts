/** The version of this package, and the files that it reads while it runs, from the sources or bundled into dist/. */
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"

/** Defined by the build, so that dist/ needs no file beside it. */
declare const BUILD: Build | undefined

interface Build {
  readonly version: string
  /** Abbreviated; empty if the build ran outside a clone. */
  readonly commit: string
  /** The texts of migrations/*.sql by file name. */
  readonly migrations: Readonly<Record<string, string>>
  /** The texts of the Markdown files that /docs shows, by path in the repository. */
  readonly pages: Readonly<Record<string, string>>
}

const isBundled = typeof BUILD !== "undefined"

/** The folder of the clone, or of the installed package. */
export const packageRoot = join(import.meta.dirname, isBundled ? ".." : "../../..")

const text = (name: string) => readFileSync(join(packageRoot, name), "utf8")

const fromSources = (): Omit<Build, "pages"> => {
  return {
    version: JSON.parse(text("package.json")).version,
    commit: "",
    migrations: Object.fromEntries(
      readdirSync(join(packageRoot, "migrations")).map((name) => [name, text(`migrations/${name}`)])
    )
  }
}

const { commit, ...build } = isBundled ? BUILD! : fromSources()

export const { migrations, version } = build

/** `<version>+<commit>` when built from a clone, else the version. */
export const revision: string = commit === "" ? version : `${version}+${commit}`

/** A Markdown file of the repository that /docs shows. From the sources it is read only when somebody asks for it. */
export const pageText = (file: string): string => (isBundled ? BUILD!.pages[file]! : text(file))
