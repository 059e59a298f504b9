/** The folder of the clone under test, and that of what its runs compile. */
import { join } from "node:path"

export const packageRoot = join(import.meta.dirname, "../../..")

/** All runs share it: the temporary folder of a run can be in memory, and is removed at its end (globalSetup.ts). */
export const compiledIn = (name: string) => join("/tmp", name)

/** For NODE_COMPILE_CACHE: only the first run compiles the programs that tests start. */
export const compileCache = compiledIn("service-admin-test-compiled")
