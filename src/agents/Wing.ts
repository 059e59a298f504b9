/** The parts of this wing that the rest of the service uses. */
import { Layer } from "effect"
import { sweeps as continuitySweeps } from "./continuity/Sweeps.ts"
import { Decisions } from "./decisions/Decisions.ts"
import { Documents } from "./documents/Documents.ts"
import { Activity } from "./handover/Activity.ts"
import { Snapshot } from "./handover/Snapshot.ts"
import { Embeddings } from "./embeddings/Embeddings.ts"
import { Memory } from "./memory/Memory.ts"
import { sweeps as memorySweeps } from "./memory/Sweeps.ts"
import { Search } from "./search/Search.ts"
import { Claims } from "./tasks/Claims.ts"
import { Notes } from "./tasks/Notes.ts"
import { Tasks } from "./tasks/Tasks.ts"
import { Transfer } from "./transfer/Transfer.ts"

export const layer = Layer.mergeAll(
  Memory.layer,
  Tasks.layer,
  Claims.layer,
  Notes.layer,
  Decisions.layer,
  Snapshot.layer,
  Activity.layer,
  Search.layer,
  Documents.layer,
  Transfer.layer
).pipe(Layer.provideMerge(Embeddings.layer))

/** What the operator's erasures destroy, in their transaction. */
export * from "./purge/purge.ts"

/** Work in the background. */
export { embedForever } from "./embeddings/Embeddings.ts"

export const sweeps = [...continuitySweeps, ...memorySweeps]

/** The services that commands of service-admin use. */
export const forCommands = { documents: Documents, memory: Memory, tasks: Tasks, transfer: Transfer }
