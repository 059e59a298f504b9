// Loaded into each process of a recording: appends the id of a function to REACHED_FILE when it runs for the first time.
import { appendFileSync } from "node:fs"

const file = process.env.REACHED_FILE
const seen = new Set()
globalThis.__reached = (id) => {
  if (seen.has(id)) return
  seen.add(id)
  appendFileSync(file, `${id}\n`)
}
