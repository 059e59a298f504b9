/** The code that is mutated, by area. A folder stands for every file below it. */
import { globSync } from "node:fs"

const areas: Readonly<Record<string, ReadonlyArray<string>>> = {
  enrollment: ["src/bridges/enrollment"],
  identity: ["src/bridges/identity", "src/bridges/Requirements.ts"],
  rotation: ["src/bridges/rotation"],
  keys: ["src/bridges/keys"],
  possession: ["src/bridges/possession", "src/signin/possession", "src/platform/proofs"],
  projects: ["src/operator"],
  access: ["src/signin/access"],
  oauth: ["src/signin/oauth"],
  passkeys: ["src/signin/passkeys"],
  continuity: [
    "src/agents/continuity",
    "src/agents/tasks",
    "src/agents/memory",
    "src/agents/decisions",
    "src/agents/handover"
  ],
  search: ["src/agents/ranking", "src/agents/embeddings", "src/agents/search"],
  transfer: ["src/agents/transfer", "src/agents/documents"],
  mcp: ["src/agents/mcp"],
  mobile: ["src/people/mobile", "src/people/channels"],
  people: ["src/people/console", "src/people/operator", "src/signin/sessions"],
  site: ["src/people/site", "src/platform/html"],
  erasure: ["src/people/erasure", "src/agents/purge"],
  backups: ["src/platform/backups"],
  push: ["src/push"],
  audit: ["src/platform/audit", "src/platform/sql"],
  database: ["src/platform/database"],
  edge: ["src/platform/edge", "src/platform/network"],
  metrics: ["src/platform/metrics"],
  processes: ["src/platform/process", "src/platform/workers"],
  crypto: ["src/platform/crypto"],
  secrets: ["src/platform/secrets", "src/platform/scan"],
  settings: ["src/platform/settings"],
  wire: ["src/wire"],
  bridge: ["src/client"],
  top: ["src/App.ts", "src/Http.ts", "src/main.ts", ...globSync("src/*/Wing.ts")]
}

export const areaNames = Object.keys(areas)

export const filesOf = (area: string) =>
  areas[area]!.flatMap((path) => (path.endsWith(".ts") ? [path] : globSync(`${path}/**/*.ts`)))
    .filter((file) => area === "top" || !file.endsWith("/Wing.ts"))
    .toSorted()
