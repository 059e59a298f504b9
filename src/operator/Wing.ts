/** The parts of this wing that the rest of the service uses. */
import { Projects } from "./projects/Projects.ts"

export const layer = Projects.layer

/** The services that commands of service-admin use. */
export const forCommands = { projects: Projects }
