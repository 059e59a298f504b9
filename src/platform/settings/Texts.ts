/** The migrations, and the files of /docs. In a bundle, scripts/bundle.mjs replaces this file by one that holds them. */
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { packageRoot } from "./Package.ts"

const text = (name: string) => readFileSync(join(packageRoot, name), "utf8")

/** The texts of migrations/*.sql by file name. */
export const migrations: Readonly<Record<string, string>> = Object.fromEntries(
  readdirSync(join(packageRoot, "migrations")).map((name) => [name, text(`migrations/${name}`)])
)

/** A file of the repository that /docs shows. It is read only when somebody asks for it. */
export const pageText = (file: string): string => text(file)
