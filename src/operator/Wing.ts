/** The parts of this wing that the rest of the service uses. */
import { Layer } from "effect"
import { Limits } from "./limits/Limits.ts"
import { Projects } from "./projects/Projects.ts"
import { OperatorTokens } from "./tokens/OperatorTokens.ts"

export { sweeps } from "./tokens/Sweeps.ts"

export const layer = Layer.mergeAll(Projects.layer, Limits.layer, OperatorTokens.layer)

/** The services that commands of service-admin use. */
export const forCommands = { limits: Limits, operatorTokens: OperatorTokens, projects: Projects }
