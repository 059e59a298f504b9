/**
 * `bridge-service hook EVENT [--url URL] [--token-env NAME]`, which clients run in their sessions. Unlike other commands
 * it is read without the library for flags, to start sooner, and always ends with 0: a client shows other exit codes to
 * the person, or stops.
 */
import { parseArgs } from "node:util"
import { events } from "../src/client/hook/Event.ts"
import { answer } from "../src/client/hook/hook.ts"

/** Milliseconds since this process began; with its end, less than the 200 that a hook may cost. */
const deadline = 135
/** A machine so busy that the start took as long still asks the service. */
const patience = () => Math.max(30, deadline - performance.now())

const usage = `bridge-service hook ${events.join("|")} [--url URL] [--token-env NAME]

Run by a client at that moment of a session, with its JSON on stdin: prints what the agent should know then, within
200 ms or nothing. bridge-service connect CLIENT --hooks sets it up. Always ends with exit code 0.
`

const given = () => {
  try {
    const { positionals, values } = parseArgs({
      allowPositionals: true,
      options: { url: { type: "string" }, "token-env": { type: "string" }, help: { type: "boolean", short: "h" } }
    })
    const event = events.find((event) => event === positionals[0])
    if (event !== undefined && values.help !== true) return { event, url: values.url, tokenEnv: values["token-env"] }
    process.stdout.write(usage)
  } catch {
    process.stderr.write(usage)
  }
  return undefined
}

/** What the client wrote; nothing from a terminal, or from a client that leaves stdin open. */
const input = async () => {
  if (process.stdin.isTTY) return ""
  let text = ""
  const late = setTimeout(() => process.stdin.destroy(), 100)
  try {
    for await (const chunk of process.stdin.setEncoding("utf8")) {
      text += chunk
      if (text.length > 1024 * 1024) break
    }
  } catch {
    // What came so far is enough to know, or not.
  }
  clearTimeout(late)
  return text
}

const flags = given()
if (flags !== undefined) {
  const text = await answer({ ...flags, input: await input(), env: process.env, patience: patience() }).catch(() => "")
  if (text !== "") process.stdout.write(`${text}\n`)
}
