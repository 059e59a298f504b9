/**
 * All checks of `doctor`, local ones first. They create nothing, migrate nothing and send no notification.
 *
 * One file per subject; each check fails on its own, so that one problem does not hide the others.
 */
import { Effect } from "effect"
import { existsSync } from "node:fs"
import { databaseSettings, Settings, unusualLifetimes } from "../../../src/platform/settings/Settings.ts"
import { apns } from "./apns.ts"
import { baseUrl } from "./baseUrl.ts"
import { check } from "./Check.ts"
import { database } from "./database.ts"
import { diskOf, filesOf, notStarted, secretsFile } from "./dataFolder.ts"
import { proxy } from "./proxy.ts"
import { oauthSecret, pushKeys, secrets } from "./secrets.ts"

/** `ok` is false when any check fails; a warning is not a failure. */
export const examine = Effect.suspend(() => checks).pipe(
  Effect.catch((error) => Effect.succeed([check("configuration", "fail", error.message)])),
  Effect.map((checks) => ({ ok: checks.every(({ status }) => status !== "fail"), checks }))
)

const checks = Effect.gen(function* () {
  const { dataDir, url } = yield* databaseSettings
  const isEmbedded = url === undefined
  if (isEmbedded && !existsSync(secretsFile(dataDir))) return [notStarted(dataDir)]
  return yield* Effect.provide(configured(dataDir, isEmbedded), Settings.layerUnchanged)
})

const configured = Effect.fnUntraced(function* (dataDir: string, isEmbedded: boolean) {
  const settings = yield* Settings
  const outside = yield* Effect.all([proxy(settings), baseUrl(settings), apns(settings), database], {
    concurrency: "unbounded"
  })
  return [
    check("configuration", "ok", `Complete; the service is at ${settings.baseUrl.origin}.`),
    secrets(settings),
    ...pushKeys(settings),
    ...(isEmbedded ? [] : [oauthSecret(settings)]),
    ...unusualLifetimes(settings).map((sentence) => check("lifetimes", "warn", sentence)),
    ...(isEmbedded ? [filesOf(dataDir), diskOf(dataDir)] : []),
    ...outside.flat()
  ]
})
