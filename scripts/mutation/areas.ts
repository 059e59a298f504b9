/** The code that is mutated, by area. A folder stands for every file below it. */
import { globSync } from "node:fs"

const areas: Readonly<Record<string, ReadonlyArray<string>>> = {
  enrollment: ["src/bridges/enrollment"],
  identity: ["src/bridges/identity", "src/bridges/Requirements.ts"],
  rotation: ["src/bridges/rotation"],
  projects: ["src/operator"],
  access: ["src/signin/access", "src/platform/sql/StandingGrant.ts", "src/platform/edge/BearerCredential.ts"],
  oauth: ["src/signin/oauth"],
  continuity: ["src/agents/continuity", "src/agents/tasks", "src/agents/memory", "src/agents/handover"],
  transfer: ["src/agents/transfer", "src/agents/documents"],
  mcp: ["src/agents/mcp"],
  mobile: ["src/people/mobile", "src/people/channels"],
  people: ["src/people/console", "src/people/operator", "src/signin/sessions"],
  erasure: ["src/people/erasure", "src/agents/purge"],
  backups: ["src/platform/backups"],
  push: ["src/push"],
  audit: ["src/platform/audit", "src/platform/sql"],
  database: [
    "src/platform/database/Backup.ts",
    "src/platform/database/Clock.ts",
    "src/platform/database/Deadline.ts",
    "src/platform/database/Persistence.ts",
    "src/platform/database/Sweeper.ts",
    "src/platform/database/Transactions.ts"
  ],
  edge: ["src/platform/edge"],
  crypto: ["src/platform/crypto"],
  settings: ["src/platform/settings"],
  bridge: ["src/client"]
}

export const areaNames = Object.keys(areas)

export const filesOf = (area: string) =>
  areas[area]!.flatMap((path) => (path.endsWith(".ts") ? [path] : globSync(`${path}/**/*.ts`))).toSorted()
