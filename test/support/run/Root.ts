/** The folder of the clone under test. */
import { join } from "node:path"

export const packageRoot = join(import.meta.dirname, "../../..")
