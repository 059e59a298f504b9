/** Checks the data folder of the embedded database: its permissions and the free disk space. */
import * as fs from "node:fs"
import { dirname, join } from "node:path"
import { calledAs } from "../../../src/platform/process/CalledAs.ts"
import { whatIsUnsafe } from "../../../src/platform/settings/DataFolder.ts"
import { check } from "./Check.ts"

/** Before the first start there is nothing to check but whether the folder can be created. */
export const notStarted = (dataDir: string) =>
  isWritable(dataDir)
    ? check(
        "data_folder",
        "warn",
        `${dataDir} holds no service: run doctor where the service was started, or set one up with: ${calledAs("start")}`
      )
    : check(
        "data_folder",
        "fail",
        `${dataDir} cannot be created or written: fix its permissions or set another SERVICE_DATA_DIR.`
      )

/** For a folder that does not exist, checks the nearest existing parent. */
const isWritable = (folder: string): boolean => {
  if (!fs.existsSync(folder)) return isWritable(dirname(folder))
  try {
    fs.accessSync(folder, fs.constants.W_OK | fs.constants.X_OK)
    return fs.statSync(folder).isDirectory()
  } catch {
    return false
  }
}

export const filesOf = (dataDir: string) => {
  const unsafe = whatIsUnsafe(dataDir)
  return unsafe === undefined
    ? check("data_folder", "ok", `Only this account can write ${dataDir} and read its secrets.`)
    : check("data_folder", "fail", unsafe)
}

/** The file `location` says where the database is when it is not in the data folder. */
export const diskOf = (dataDir: string) => {
  const location = join(dataDir, "location")
  const { bavail, bsize } = fs.statfsSync(fs.existsSync(location) ? fs.readFileSync(location, "utf8").trim() : dataDir)
  return disk(Math.floor((bavail * bsize) / 1_048_576))
}

/** On a full disk the database refuses every write, which the service answers with 503. */
export const disk = (freeMiB: number) => {
  if (freeMiB >= 1024) return check("disk", "ok", `${freeMiB} MiB are free.`)
  return check("disk", freeMiB < 100 ? "fail" : "warn", `Only ${freeMiB} MiB are free: free up space for the database.`)
}
