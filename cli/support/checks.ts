/** What `doctor` looks at, the near before the far. It creates nothing, migrates nothing, and sends nothing. */
import { Effect } from "effect"
import * as fs from "node:fs"
import { dirname, join } from "node:path"
import { databaseSettings, Settings, unusualLifetimes } from "../../src/platform/settings/Settings.ts"
import { check } from "./check.ts"
import { database } from "./databaseChecks.ts"
import { address, apns, proxy } from "./networkChecks.ts"
import { pushKeys, secrets } from "./secretChecks.ts"

export const examination = Effect.suspend(() => all).pipe(
  Effect.catch((error) => Effect.succeed([check("configuration", "fail", error.message)])),
  Effect.map((checks) => ({ ok: checks.every(({ status }) => status !== "fail"), checks }))
)

const all = Effect.gen(function* () {
  const { dataDir, url } = yield* databaseSettings
  if (url === undefined && !fs.existsSync(join(dataDir, "secrets.env"))) {
    return [
      mayWrite(dataDir)
        ? check("data_folder", "warn", `${dataDir} holds no service yet: npm start, or any other command, begins one.`)
        : check("data_folder", "fail", `${dataDir} cannot be made or written: name another SERVICE_DATA_DIR.`)
    ]
  }
  return yield* Effect.provide(configured(dataDir, url === undefined), Settings.layer)
})

const configured = Effect.fnUntraced(function* (dataDir: string, embedded: boolean) {
  const settings = yield* Settings
  const waited = [proxy(settings), address(settings), apns(settings), database]
  const [inFront, outside, behind, below] = yield* Effect.all(waited, { concurrency: "unbounded" })
  return [
    check("configuration", "ok", `Complete; the service is at ${settings.baseUrl.origin}.`),
    secrets(settings),
    ...pushKeys(settings),
    ...unusualLifetimes(settings).map((sentence) => check("lifetimes", "warn", sentence)),
    ...(embedded ? [files(dataDir), disk(freeIn(dataDir))] : []),
    ...inFront!,
    ...outside!,
    ...behind!,
    ...below!
  ]
})

/** Into the folder, or into the nearest one above that is there. */
const mayWrite = (folder: string): boolean => {
  if (!fs.existsSync(folder)) return mayWrite(dirname(folder))
  try {
    fs.accessSync(folder, fs.constants.W_OK | fs.constants.X_OK)
    return fs.statSync(folder).isDirectory()
  } catch {
    return false
  }
}

const files = (dataDir: string) => {
  const file = join(dataDir, "secrets.env")
  if ((fs.statSync(file).mode & 0o077) !== 0) {
    return check("data_folder", "fail", `${file} is open to other accounts: chmod 600 ${file}`)
  }
  return (fs.statSync(dataDir).mode & 0o022) === 0
    ? check("data_folder", "ok", `${dataDir} and its secrets belong to this service alone.`)
    : check("data_folder", "fail", `Other accounts may write to ${dataDir}: chmod go-w ${dataDir}`)
}

const freeIn = (dataDir: string) => {
  const location = join(dataDir, "location")
  const { bavail, bsize } = fs.statfsSync(fs.existsSync(location) ? fs.readFileSync(location, "utf8").trim() : dataDir)
  return Math.floor((bavail * bsize) / 1_048_576)
}

/** Full, the database answers 503 to everything that changes something. */
export const disk = (free: number) => {
  if (free >= 1024) return check("disk", "ok", `${free} MiB are free.`)
  return check("disk", free < 100 ? "fail" : "warn", `${free} MiB are free; make room for the database.`)
}
