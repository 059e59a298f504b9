/** The Bridge under test: the author's command, in a process group of its own, so that a kill leaves nothing behind. */
import { Effect } from "effect"
import { spawn } from "node:child_process"

export const verbs = ["enroll", "rotate", "rotate-key", "run", "status"] as const
export type Verb = (typeof verbs)[number]

export interface Ended {
  /** Null after a signal. */
  readonly code: number | null
  readonly wasKilled: boolean
  readonly timedOut: boolean
  /** stdout and stderr. */
  readonly output: string
}

/** More is not kept. */
const longest = 1_000_000

export const start = (
  [program = "", ...args]: ReadonlyArray<string>,
  verb: Verb,
  env: Readonly<Record<string, string | undefined>>,
  options: { readonly limit: number; readonly fullDisk?: boolean }
) => {
  // A limit of 0 for the size of files makes every write of new content fail, as a full disk does.
  const [file, given] = options.fullDisk
    ? ["/bin/sh", ["-c", `trap '' XFSZ; ulimit -f 0; exec "$0" "$@"`, program, ...args, verb]]
    : [program, [...args, verb]]
  const child = spawn(file as string, given as ReadonlyArray<string>, {
    env,
    detached: true,
    stdio: ["ignore", "pipe", "pipe"]
  })
  let output = ""
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk: Buffer) => (output = (output + chunk.toString()).slice(-longest)))
  let [wasKilled, timedOut] = [false, false]
  const signal = (name: NodeJS.Signals) => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, name)
    } catch {
      // It has ended already.
    }
  }
  const kill = () => {
    wasKilled = true
    signal("SIGKILL")
  }
  const timer = setTimeout(() => {
    timedOut = true
    signal("SIGKILL")
  }, options.limit)
  const ended = new Promise<Ended>((resolve) => {
    const end = (code: number | null) => {
      clearTimeout(timer)
      resolve({ code, wasKilled, timedOut, output })
    }
    child.once("error", ({ message }) => {
      output += message
      end(127)
    })
    child.once("close", end)
  })
  return {
    kill,
    ended: Effect.promise(() => ended),
    hasEnded: () => child.exitCode !== null || child.signalCode !== null
  }
}
export type Started = ReturnType<typeof start>
