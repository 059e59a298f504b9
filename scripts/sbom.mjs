// Prints the software bill of materials of this release: CycloneDX, with every package that runs in production and its
// hash, read from package-lock.json. `npm sbom --omit dev` leaves out packages that a development tool needs as well.
import { spawnSync } from "node:child_process"
import { readFileSync } from "node:fs"

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
const isForDevelopment = ({ properties }) =>
  properties.some((property) => property.name === "cdx:npm:package:development" && property.value === "true")
bill.components = bill.components.filter((component) => !isForDevelopment(component))

const kept = new Set([bill.metadata.component, ...bill.components].map((component) => component["bom-ref"]))
bill.dependencies = bill.dependencies
  .filter(({ ref }) => kept.has(ref))
  .map(({ dependsOn, ref }) => ({ ref, dependsOn: dependsOn.filter((other) => kept.has(other)) }))
process.stdout.write(JSON.stringify(bill, undefined, 2) + "\n")
