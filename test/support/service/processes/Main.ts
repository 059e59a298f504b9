/** What a server process runs: the bundle that `npm test` makes first, from which it starts in half the time. */
import { join } from "node:path"
// @ts-expect-error: plain JavaScript, which also runs on old releases of Node.
import { isBuilt } from "../../../../cli/support/launch.mjs"
import { packageRoot } from "../../run/Root.ts"

const bundle = join(packageRoot, "dist/main.mjs")
export const main = isBuilt(bundle) ? bundle : join(packageRoot, "src/main.ts")
