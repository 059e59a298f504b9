/** Every command of `service-admin`, in the order of --help. Each file of this folder exports the commands for one noun. */
import { Command } from "effect/cli"
import { Json } from "../support/frames/frame.ts"
import { targetFlags } from "../support/remote/Target.ts"
import { accountReferences } from "./accountReferences.ts"
import { audit } from "./audit.ts"
import { bridges } from "./bridges.ts"
import { credentials } from "./credentials.ts"
import { database } from "./database.ts"
import { channels } from "./channels.ts"
import { devices } from "./devices.ts"
import { doctor } from "./doctor.ts"
import { documents } from "./documents.ts"
import { erasures } from "./erasures.ts"
import { init } from "./init.ts"
import { limits } from "./limits.ts"
import { memory } from "./memory.ts"
import { oauth } from "./oauth.ts"
import { operatorTokens } from "./operatorTokens.ts"
import { personKeys } from "./personKeys.ts"
import { profiles } from "./profiles.ts"
import { projects } from "./projects.ts"
import { projectTokens } from "./projectTokens.ts"
import { push } from "./push.ts"
import { sessions } from "./sessions.ts"
import { status } from "./status.ts"
import { transfer } from "./transfer.ts"

const groups = [
  { group: "Start here", commands: [init, doctor, status] },
  { group: "Database", commands: database },
  { group: "Projects", commands: [...projects, ...transfer, ...limits] },
  { group: "Bridges", commands: [...accountReferences, ...credentials, ...bridges] },
  { group: "Agents", commands: [...projectTokens, ...oauth] },
  { group: "Console", commands: [...sessions, ...personKeys] },
  { group: "Documents", commands: documents },
  { group: "Erasure", commands: erasures },
  { group: "Memory and tasks", commands: memory },
  { group: "Notifications", commands: [...channels, ...devices, ...push] },
  { group: "Audit log", commands: audit },
  { group: "Operators from elsewhere", commands: [...operatorTokens, ...profiles] }
] as const

export const commands = groups.flatMap((group): ReadonlyArray<Command.Command.Any> => group.commands)

export const serviceAdmin = Command.make("service-admin").pipe(
  Command.withDescription(
    "Operates Bridge Service directly on its database; the server need not be running. With --service or --profile it works from elsewhere. Completions: service-admin --completions bash|zsh|fish"
  ),
  Command.withSubcommands(groups),
  Command.withGlobalFlags([Json, ...targetFlags])
)
