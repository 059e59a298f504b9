/** Asks the person at the terminal. Question and answer stay off stdout, which carries only the result. */
import { Effect } from "effect"
import { createInterface } from "node:readline"
import { asJson } from "./Print.ts"
import { HeldServices } from "../services/HeldServices.ts"

/** Whether there is somebody to ask: not in a script, with --json, or for an operator elsewhere. */
export const asks = Effect.map(
  HeldServices,
  (held) => held === undefined && process.stdin.isTTY && process.stderr.isTTY && !asJson
)

/** Only y and yes are a yes; the end of the input is a no. */
export const ask = (question: string) =>
  Effect.callback<boolean>((resume) => {
    const lines = createInterface({ input: process.stdin, terminal: false })
    lines.once("close", () => resume(Effect.succeed(false)))
    lines.once("line", (answer) => {
      resume(Effect.succeed(["y", "yes"].includes(answer.trim().toLowerCase())))
      lines.close()
    })
    process.stderr.write(question)
    return Effect.sync(() => lines.close())
  })
