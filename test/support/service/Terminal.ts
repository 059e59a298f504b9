/** A command on a terminal of its own, which script(1) of util-linux makes. */
import { spawn, spawnSync } from "node:child_process"
import { existsSync } from "node:fs"

export const hasTerminals = existsSync("/dev/ptmx") && spawnSync("script", ["--version"]).status === 0

/** Types the answer once the command asks. */
export const typed = (
  answer: string,
  { args, env, program }: { program: string; args: ReadonlyArray<string>; env: Readonly<Record<string, string>> }
) => {
  const line = [program, ...args].map((word) => `'${word}'`).join(" ")
  const child = spawn("script", ["-qefc", line, "/dev/null"], {
    env: { PATH: process.env["PATH"], TERM: "dumb", ...env }
  })
  return new Promise<{ readonly code: number | null; readonly shown: string }>((resolve) => {
    let shown = ""
    child.stdout.on("data", (text: Buffer) => {
      const asked = shown.includes("[y/N]")
      shown += text.toString()
      if (!asked && shown.includes("[y/N]")) child.stdin.write(answer)
    })
    child.on("close", (code) => resolve({ code, shown }))
  })
}
