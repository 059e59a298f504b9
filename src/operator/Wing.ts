/** The parts of this wing that the rest of the service uses. */
import { Layer } from "effect"
import { Limits } from "./limits/Limits.ts"
import { Projects } from "./projects/Projects.ts"

export const layer = Layer.merge(Projects.layer, Limits.layer)

/** The services that commands of service-admin use. */
export const forCommands = { limits: Limits, projects: Projects }
