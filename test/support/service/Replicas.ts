/**
 * Two replicas of the service, for races. With SERVICE_PROCESSES=2 they are one service of two processes behind one port,
 * and each request goes to the next of them; commands run beside it, as an operator's do.
 */
import { Effect } from "effect"
import { spawn } from "node:child_process"
import { createInterface } from "node:readline"
import { join } from "node:path"
import { processes } from "../network/Http.ts"
import { TestDatabase } from "../database/TestDatabase.ts"
import { faultyDatabase } from "./Faults.ts"
import { freePort } from "../network/FreePort.ts"
import { environment, instance } from "./Service.ts"

type Settings = Readonly<Record<string, string>>

/** With the errors that PostgreSQL reported to them. */
export const replicas = Effect.fnUntraced(function* (settings: Settings = {}) {
  const errors: Array<string> = []
  const one = Effect.suspend(() => instance(settings, faultyDatabase(undefined, (error) => errors.push(error)).layer))
  const a = yield* one
  if (processes === undefined) {
    const b = yield* one
    return { a, b, on: [a, b] as const, errors }
  }
  const on = { ...a, url: yield* behindOnePort(processes, settings, errors) }
  return { a: on, b: on, on: [on, on] as const, errors }
})

const behindOnePort = Effect.fnUntraced(function* (count: string, settings: Settings, errors: Array<string>) {
  const port = String(yield* freePort)
  const env = {
    ...environment,
    SERVICE_LOG_LEVEL: "Info",
    ...settings,
    PATH: process.env["PATH"],
    CONFLICTS: process.env["CONFLICTS"],
    SERVICE_PORT: port,
    SERVICE_PROCESSES: count,
    TEST_DATABASE: JSON.stringify(yield* TestDatabase)
  }
  const child = yield* Effect.acquireRelease(
    Effect.sync(() => {
      const program = join(import.meta.dirname, "processes/ReplicasMain.ts")
      return spawn(process.execPath, [program], { env, stdio: ["ignore", "pipe", "inherit"] })
    }),
    (running) => Effect.sync(() => running.kill("SIGKILL"))
  )
  const lines: Array<string> = []
  yield* Effect.callback<void, string>((resume) => {
    createInterface(child.stdout).on("line", (line) => {
      lines.push(line)
      const [, error] = /^PostgreSQL: (.*)/.exec(line) ?? []
      if (error !== undefined) errors.push(error)
      if (line.includes('"Ready"')) resume(Effect.void)
    })
    child.once("exit", () => resume(Effect.fail(lines.join("\n"))))
  })
  return `http://127.0.0.1:${port}`
}, Effect.orDie)
