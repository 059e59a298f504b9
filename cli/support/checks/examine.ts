/**
 * All checks of `doctor`, local ones first. They create nothing, migrate nothing and send no notification.
 *
 * One file per subject; each check fails on its own, so that one problem does not hide the others.
 */
import { Effect } from "effect"
import { isMade } from "../../../src/platform/settings/DataFolder.ts"
import { databaseSettings, Settings, unusualLifetimes } from "../../../src/platform/settings/Settings.ts"
import { unknownIn } from "../../../src/platform/settings/Unknown.ts"
import { apns } from "./apns.ts"
import { baseUrl } from "./baseUrl.ts"
import { type Check, check } from "./Check.ts"
import { clientDocuments } from "./clientDocuments.ts"
import { database } from "./database.ts"
import { diskOf, filesOf, notStarted } from "./dataFolder.ts"
import { processes } from "./processes.ts"
import { proxy } from "./proxy.ts"
import { server } from "./server.ts"
import { backupKey, erasureFile, oauthSecret, pushKeys, secrets } from "./secrets.ts"

/** `ok` is false when any check fails; a warning is not a failure. */
export const examine = Effect.suspend(() => checks).pipe(
  Effect.catch((error) => Effect.succeed([check("configuration", "fail", error.message)])),
  Effect.map((checks) => ({ ok: checks.every(({ status }) => status !== "fail"), checks }))
)

const checks = Effect.gen(function* () {
  const { dataDir, url } = yield* databaseSettings
  const isEmbedded = url === undefined
  if (isEmbedded && !isMade(dataDir)) return [notStarted(dataDir)]
  const folder = isEmbedded ? [filesOf(dataDir)] : []
  // Every other check needs the secrets, which nothing reads from an unsafe folder.
  if (folder.some(({ status }) => status === "fail")) return folder
  return yield* Effect.provide(configured(dataDir, folder), Settings.layerAsKept)
})

const configured = Effect.fnUntraced(function* (dataDir: string, folder: ReadonlyArray<Check>) {
  const settings = yield* Settings
  const outside = yield* Effect.all(
    [server(settings), proxy(settings), baseUrl(settings), clientDocuments(settings), apns(settings), database],
    {
      concurrency: "unbounded"
    }
  )
  return [
    check("configuration", "ok", `Complete; the service is at ${settings.baseUrl.origin}.`),
    secrets(settings),
    ...processes(settings),
    ...pushKeys(settings),
    ...(folder.length > 0 ? [] : [oauthSecret(settings)]),
    ...backupKey(settings),
    ...erasureFile(settings),
    ...unknownIn(process.env, settings.known).map((sentence) => check("settings", "warn", sentence)),
    ...unusualLifetimes(settings).map((sentence) => check("lifetimes", "warn", sentence)),
    ...(folder.length > 0 ? [...folder, diskOf(dataDir)] : []),
    ...outside.flat()
  ]
})
