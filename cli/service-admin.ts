/** The operator's command line. */
import { serviceAdmin } from "./commands/all.ts"
import { run } from "./support/run.ts"

run(serviceAdmin)
