/**
 * What a first start with the embedded database finds out before it writes anything. A start that failed later would leave
 * an empty service, which commands in that folder would use.
 */
import { Effect } from "effect"
import { HttpServerError } from "effect/http"
import { existsSync } from "node:fs"
import { createServer } from "node:net"
import { installedBinaries } from "../database/embedded/PostgresSetup.ts"
import { isMade, secretsFile } from "../settings/DataFolder.ts"
import { databaseSettings, proposedSettings } from "../settings/Settings.ts"

/** Fails as the start itself would, if it is the first one and cannot succeed. */
export const beforeFirstStart = Effect.gen(function* () {
  const { dataDir, url } = yield* databaseSettings
  if (url !== undefined || isMade(dataDir) || existsSync(secretsFile(dataDir))) return
  const { http, telemetry } = yield* proposedSettings
  yield* installedBinaries
  yield* listenOnce(http.host, http.port)
  if (telemetry.metricsPort !== undefined) yield* listenOnce("127.0.0.1", telemetry.metricsPort)
})

const listenOnce = (host: string, port: number) =>
  Effect.callback<void, HttpServerError.ServeError>((resume) => {
    const server = createServer()
    server.once("error", (cause) => resume(Effect.fail(new HttpServerError.ServeError({ cause }))))
    server.listen({ host, port }, () => server.close(() => resume(Effect.void)))
  })
