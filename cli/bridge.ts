/** The reference Bridge of src/client as a command. */
import { bridge, interrupted } from "./commands/bridge.ts"
import { run } from "./support/run.ts"

run(bridge, () => interrupted)
