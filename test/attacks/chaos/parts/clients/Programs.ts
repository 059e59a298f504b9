/**
 * The clients that people use, from npm, at the versions that were tried. Each is installed into a folder of its own; what
 * cannot be installed is reported and not judged.
 */
import { execFile } from "node:child_process"
import { existsSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"

export const versions = {
  "mcp-remote": "0.15.1",
  "@modelcontextprotocol/inspector": "2.12.0",
  "@anthropic-ai/claude-code": "2.1.330",
  "@openai/codex": "0.169.0",
  "@google/gemini-cli": "0.61.0",
  "opencode-ai": "1.18.33",
  mcporter: "0.12.3"
} as const
export type Package = keyof typeof versions

/** The folder with the package's commands; undefined if it cannot be installed here. */
export const install = async (folder: string, name: Package): Promise<string | undefined> => {
  const args = ["install", "--prefix", folder, "--no-audit", "--no-fund", "--no-save", `${name}@${versions[name]}`]
  try {
    await promisify(execFile)("npm", args, { timeout: 240_000 })
  } catch {
    return undefined
  }
  const commands = join(folder, "node_modules", ".bin")
  return existsSync(commands) ? commands : undefined
}
