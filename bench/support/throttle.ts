/** Gives a process a share of a processor, where there are too few for all that is measured. */
import { Effect } from "effect"

/** Milliseconds in which a throttled process runs, and after which it runs again. */
export interface Share {
  readonly running: number
  readonly period: number
}

/** Stops and continues the process until the scope closes. `delay`: milliseconds, so that several are out of phase. */
export const throttled = (pid: number, { period, running }: Share, delay: number) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      let timer = setTimeout(function resume() {
        process.kill(pid, "SIGCONT")
        timer = setTimeout(() => {
          process.kill(pid, "SIGSTOP")
          timer = setTimeout(resume, period - running)
        }, running)
      }, delay)
      return () => clearTimeout(timer)
    }),
    (cancel) =>
      Effect.sync(() => {
        cancel()
        process.kill(pid, "SIGCONT")
      })
  )
