/** Replaces all workers of a server (SIGHUP); returns the milliseconds that it took. The server's log level has to be Info. */
import { Effect } from "effect"
import { type Server, until } from "../harness.ts"

export const rollover = Effect.fnUntraced(function* ({ output, pid }: Server) {
  const [from, before] = [performance.now(), output.length]
  process.kill(pid(), "SIGHUP")
  yield* until("the replacement of all workers", () =>
    output.slice(before).some((line) => line.includes("All workers were replaced"))
  )
  return Math.round(performance.now() - from)
})
