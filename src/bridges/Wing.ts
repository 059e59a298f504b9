/** The parts of this wing that the rest of the service uses. */
import { Layer } from "effect"
import { Ed25519 } from "../platform/crypto/Ed25519.ts"
import { Shares } from "../platform/database/Shares.ts"
import { Credentials } from "./enrollment/Credentials.ts"
import { Enrollment } from "./enrollment/Enrollment.ts"
import { sweeps as enrollmentSweeps } from "./enrollment/Sweeps.ts"
import { Bridges } from "./identity/Bridges.ts"
import { Keys } from "./keys/Keys.ts"
import { sweeps as keySweeps } from "./keys/Sweeps.ts"
import { Possession } from "./possession/Possession.ts"
import { Rotation } from "./rotation/Rotation.ts"
import { sweeps as rotationSweeps } from "./rotation/Sweeps.ts"

export const layer = Layer.mergeAll(
  Enrollment.layer,
  Credentials.layer,
  Rotation.layer,
  Bridges.layer,
  Keys.layer
).pipe(Layer.provideMerge(Possession.layer), Layer.provide([Ed25519.layerNode, Shares.layer]))

export const sweeps = [...rotationSweeps, ...enrollmentSweeps, ...keySweeps]

/** The services that commands of service-admin use. */
export const forCommands = { bridges: Bridges, credentials: Credentials }
