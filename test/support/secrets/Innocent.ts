/** Texts without a secret, some of them about secrets, by where they come from. */
import { readdirSync, readFileSync } from "node:fs"

const read = (path: string) => readFileSync(new URL(`../../../${path}`, import.meta.url), "utf8")
const blocks = (text: string) => text.split(/\n{2,}/).filter((block) => block.trim() !== "")

const documentation = readdirSync(new URL("../../../docs", import.meta.url))
  .filter((name) => name.endsWith(".md"))
  .flatMap((name) => blocks(read(`docs/${name}`)))

export const innocent: Readonly<Record<string, ReadonlyArray<string>>> = {
  "what people write about secrets": blocks(read("test/support/secrets/innocent.txt")),
  "this project's documentation": documentation,
  "a lock file": read("package-lock.json").match(/(?:[^\n]*\n){1,40}/g) ?? []
}
