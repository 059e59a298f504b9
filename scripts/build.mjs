// `npm run build`: bundles the server and the commands into dist/, so that starting them does not load a thousand files.
// With the folder of the package for machines that only run a Bridge, it fills that folder; npm pack calls it so.
import { copyFileSync, mkdirSync } from "node:fs"
import { dirname, join } from "node:path"
import { bridge, bundle, server } from "./bundle.mjs"

const [folder] = process.argv.slice(2)
if (folder === undefined) await bundle(server, "dist")
else {
  await bundle(bridge, join(folder, "dist"))
  for (const file of ["LICENSE", "cli/bridge-service.mjs", "cli/support/launch.mjs"]) {
    mkdirSync(dirname(join(folder, file)), { recursive: true })
    copyFileSync(file, join(folder, file))
  }
}
