/** The program of the packages. */
import { bridgeService } from "./commands/bridgeService.ts"
import { run } from "./support/run.ts"

run(bridgeService)
