/** The service as a child process, on a test database. */
import { Effect } from "effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { main } from "./Main.ts"
import { freePort } from "../../network/FreePort.ts"
import { relay } from "../../network/Relay.ts"
import { environment } from "../Service.ts"
import { compileCache } from "../../run/Root.ts"
import { servingAccount, TestDatabase } from "../../database/TestDatabase.ts"

/** Listens on a free port; killed when the scope closes. `release`: the folder of the release to start. */
export const serviceProcess = Effect.fnUntraced(function* (
  more: Readonly<Record<string, string>> = {},
  release?: string
) {
  const { database, host, port } = yield* TestDatabase
  // A PostgreSQL URL cannot name a unix socket, so the process connects through a TCP relay.
  const line = yield* relay({ path: `${host}/.s.PGSQL.${port}` })
  const url = `http://127.0.0.1:${yield* freePort}`
  const env = {
    ...environment,
    SERVICE_PORT: new URL(url).port,
    SERVICE_BASE_URL: url,
    PATH: process.env["PATH"],
    NODE_COMPILE_CACHE: compileCache,
    SERVICE_LOG_LEVEL: "Info",
    DATABASE_URL: `postgres://${servingAccount}@127.0.0.1:${line.port}/${database}`,
    ...more
  }
  const child = yield* Effect.acquireRelease(
    Effect.sync(() => {
      const program = release === undefined ? main : join(release, "src/main.ts")
      return spawn(process.execPath, [program], { env, stdio: ["ignore", "pipe", "pipe"] })
    }),
    (running) => Effect.sync(() => running.kill("SIGKILL"))
  )
  const lines: Array<string> = []
  const exited = once(child, "exit").then(([code, signal]): number | string => code ?? signal)
  yield* Effect.callback<void, string>((resume) => {
    for (const stream of [child.stdout, child.stderr]) {
      createInterface(stream).on("line", (text) => {
        lines.push(text)
        if (text.includes('"Ready"')) resume(Effect.void)
      })
    }
    void exited.then(() => resume(Effect.fail(lines.join("\n"))))
  })
  return {
    url,
    lines,
    line,
    pid: child.pid!,
    signal: (name: NodeJS.Signals) => child.kill(name),
    /** Closes the pipes that the process logs to. */
    closeOutput: Effect.sync(() => [child.stdout, child.stderr].forEach((stream) => stream.destroy())),
    exit: Effect.promise(() => exited)
  }
})
