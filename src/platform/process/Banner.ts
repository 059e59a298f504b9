/** Announces that the service is ready, with the next commands to type on a terminal, and that it stops. */
import { Console, Effect, Exit, Layer } from "effect"
import { workerNumber, Workers } from "../workers/Workers.ts"
import { Settings } from "../settings/Settings.ts"
import { Database } from "../database/Database.ts"
import { calledAs } from "./CalledAs.ts"
import { version } from "../settings/Package.ts"

export const announce = Effect.gen(function* () {
  if (workerNumber !== undefined) return yield* (yield* Workers).tell("ready")
  yield* logReady(yield* Settings, (yield* Database).embedded)
})

export const logReady = Effect.fnUntraced(function* (
  { baseUrl, http }: Pick<Settings["Service"], "baseUrl" | "http">,
  embedded: string | undefined,
  processes?: number
) {
  yield* Effect.logInfo("Ready").pipe(
    Effect.annotateLogs({
      version,
      base_url: baseUrl.origin,
      listening: `${http.host}:${http.port}`,
      database: embedded ?? "DATABASE_URL",
      ...(processes !== undefined && { processes })
    })
  )
  if (process.stdout.isTTY) yield* Console.log(nextSteps(baseUrl.origin, embedded))
})

/** For a worker its parent says that the service stops. */
const unlessWorker = (finalizer: (exit: Exit.Exit<unknown, unknown>) => Effect.Effect<void>) =>
  workerNumber === undefined ? Effect.addFinalizer(finalizer) : Effect.void

export const announceStopping = unlessWorker(() =>
  Effect.logInfo("Stopping: requests that are being answered get 10 seconds")
)

/** Comes after everything else has been released; of a start that failed, Exit.ts says why. */
export const announceStopped = Layer.effectDiscard(
  unlessWorker((exit) => (Exit.hasInterrupts(exit) ? Effect.logInfo("Stopped") : Effect.void))
)

const nextSteps = (base: string, embedded: string | undefined) => `
  Bridge Service ${version}
    API        ${base}/bridge/v1        (contract: ${base}/openapi.json)
    Guide      ${base}/docs
    Health     ${base}/healthz, ${base}/readyz
    Database   ${embedded === undefined ? "PostgreSQL at DATABASE_URL" : `embedded PostgreSQL, in ${embedded}`}

  Set up a first project with a Bridge and an agent, in another terminal in this folder:
    ${calledAs("service-admin")} init

  Stop with Ctrl-C.
`
