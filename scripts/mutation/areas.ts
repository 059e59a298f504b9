/** The code that is mutated, by area. A file belongs to the area with the longest path that leads to it. */
import { globSync } from "node:fs"

const areas: Readonly<Record<string, ReadonlyArray<string>>> = {
  enrollment: ["src/bridges/enrollment"],
  identity: ["src/bridges/identity", "src/bridges/Requirements.ts"],
  rotation: ["src/bridges/rotation"],
  keys: ["src/bridges/keys"],
  possession: ["src/bridges/possession", "src/signin/possession", "src/platform/proofs"],
  projects: ["src/operator"],
  budgets: [
    "src/operator/limits",
    "src/agents/continuity/Budget.ts",
    "src/agents/mcp/calls/CallBudget.ts",
    "src/agents/mcp/calls/Turns.ts",
    "src/platform/edge/limits",
    "src/platform/sql/Crowded.ts",
    "src/platform/sql/ProjectUsage.ts"
  ],
  access: ["src/signin/access", "src/signin/TokenField.ts"],
  oauth: ["src/signin/oauth"],
  sessions: ["src/signin/sessions", "src/platform/sql/access/OpenSession.ts"],
  passkeys: ["src/signin/passkeys"],
  continuity: ["src/agents/continuity", "src/agents/memory", "src/agents/handover"],
  tasks: ["src/agents/tasks"],
  decisions: ["src/agents/decisions", "src/agents/tasks/Waits.ts"],
  search: ["src/agents/ranking", "src/agents/embeddings", "src/agents/search"],
  transfer: ["src/agents/transfer", "src/agents/documents"],
  mcp: ["src/agents/mcp"],
  mobile: ["src/people/mobile", "src/people/AnyDeviceStore.ts", "src/people/DeviceTest.ts"],
  channels: [
    "src/people/channels",
    "src/push/Channel.ts",
    "src/push/channels/Channels.ts",
    "src/push/channels/ntfy",
    "src/push/channels/webhook",
    "src/platform/network"
  ],
  people: ["src/people/console", "src/people/operator"],
  site: ["src/people/site", "src/platform/html"],
  erasure: ["src/people/erasure", "src/agents/purge"],
  backups: ["src/platform/backups"],
  push: ["src/push"],
  audit: ["src/platform/audit", "src/platform/sql"],
  database: ["src/platform/database"],
  edge: ["src/platform/edge"],
  metrics: ["src/platform/metrics"],
  processes: ["src/platform/process", "src/platform/workers"],
  crypto: ["src/platform/crypto"],
  guard: ["src/platform/secrets", "src/platform/scan"],
  settings: ["src/platform/settings"],
  wire: ["src/wire"],
  bridge: ["src/client"],
  top: ["src/App.ts", "src/Http.ts", "src/Server.ts", "src/main.ts", ...globSync("src/*/Wing.ts")]
}

export const areaNames = Object.keys(areas)

const paths = Object.entries(areas)
  .flatMap(([area, paths]) => paths.map((path) => ({ area, path })))
  .toSorted((left, right) => right.path.length - left.path.length)

const areaOf = (file: string) => paths.find(({ path }) => file === path || file.startsWith(`${path}/`))?.area

const sources = globSync("src/**/*.ts").toSorted()

export const filesOf = (area: string) => sources.filter((file) => areaOf(file) === area)
