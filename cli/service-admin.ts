/** The operator's command line. Each file in commands/ exports the commands for one noun; this file lists them in order. */
import { Command } from "effect/cli"
import { accountReferences } from "./commands/accountReferences.ts"
import { audit } from "./commands/audit.ts"
import { bridges } from "./commands/bridges.ts"
import { credentials } from "./commands/credentials.ts"
import { database } from "./commands/database.ts"
import { channels } from "./commands/channels.ts"
import { devices } from "./commands/devices.ts"
import { doctor } from "./commands/doctor.ts"
import { documents } from "./commands/documents.ts"
import { erasures } from "./commands/erasures.ts"
import { init } from "./commands/init.ts"
import { limits } from "./commands/limits.ts"
import { memory } from "./commands/memory.ts"
import { oauth } from "./commands/oauth.ts"
import { projects } from "./commands/projects.ts"
import { projectTokens } from "./commands/projectTokens.ts"
import { push } from "./commands/push.ts"
import { sessions } from "./commands/sessions.ts"
import { status } from "./commands/status.ts"
import { transfer } from "./commands/transfer.ts"
import { Json } from "./support/frame.ts"
import { run } from "./support/run.ts"

Command.make("service-admin").pipe(
  Command.withDescription(
    "Operates Bridge Service directly on its database; the server need not be running. Completions: service-admin --completions bash|zsh|fish"
  ),
  Command.withSubcommands([
    { group: "Start here", commands: [init, doctor, status] },
    { group: "Database", commands: database },
    { group: "Projects", commands: [...projects, ...transfer, ...limits] },
    { group: "Bridges", commands: [...accountReferences, ...credentials, ...bridges] },
    { group: "Agents", commands: [...projectTokens, ...oauth] },
    { group: "Console", commands: sessions },
    { group: "Documents", commands: documents },
    { group: "Erasure", commands: erasures },
    { group: "Memory and tasks", commands: memory },
    { group: "Notifications", commands: [...channels, ...devices, ...push] },
    { group: "Audit log", commands: audit }
  ]),
  Command.withGlobalFlags([Json]),
  run
)
