/**
 * The hostile project's clients, a process of their own so that they do not delay the honest ones: `play` starts some
 * means, `rest` stops them and returns what they were answered.
 */
import { constants, setPriority } from "node:os"
import { setTimeout } from "node:timers/promises"
import { type Given, means } from "./Hostile.ts"
import { type Line, makeLine, maximaOf } from "./Line.ts"

export interface Order {
  readonly play?: ReadonlyArray<string>
}

/** How often each outcome occurred, by means; authentications that were judged, by source address; and maxima. */
export interface Report {
  readonly outcomes: Readonly<Record<string, Readonly<Record<string, number>>>>
  readonly unauthorized: Readonly<Record<string, number>>
  readonly maxima: Readonly<Record<string, number>>
  /** The answers with a 5xx, by the clock of the machine. */
  readonly failed: ReadonlyArray<{ readonly at: number; readonly means: string; readonly outcome: string }>
}

// Both sides of this attack share the machine. The attacker would have one of its own.
setPriority(constants.priority.PRIORITY_LOW)

const given = JSON.parse(process.argv[2]!) as Given
const outcomes: Record<string, Record<string, number>> = {}
const unauthorized: Record<string, number> = {}
const maxima: Record<string, number> = {}
const failed: Array<Report["failed"][number]> = []

const pause = (millis: number, playing: AbortSignal) =>
  setTimeout(millis, undefined, { signal: playing }).catch(() => {})

const run = async (name: string, playing: AbortSignal) => {
  const tally = (outcomes[name] ??= {})
  const line: Line = makeLine(given.url, playing, ({ headers, source }, answer) => {
    for (const [limit, maximum] of maximaOf(answer)) maxima[limit] = maximum
    if (answer.status !== 401) return
    // All addresses of an IPv6 network are one client.
    const client = headers["x-forwarded-for"]?.split(":").slice(0, 4).join(":") ?? source
    unauthorized[client] = (unauthorized[client] ?? 0) + 1
  })
  const { client, clients } = means[name]!
  await Promise.all(
    Array.from({ length: clients }, async (_, index) => {
      const turn = client(given, line, index)
      for (let n = 0; !playing.aborted; n++) {
        if (given.pause > 0) await pause(given.pause * (n === 0 ? Math.random() : 1), playing)
        for (const outcome of await turn(n)) {
          if (playing.aborted) continue
          tally[outcome] = (tally[outcome] ?? 0) + 1
          if (outcome.startsWith("5")) failed.push({ at: Date.now(), means: name, outcome })
        }
      }
    })
  )
}

let stop: (() => Promise<unknown>) | undefined
process.on("message", ({ play }: Order) => {
  if (play !== undefined) {
    const playing = new AbortController()
    const running = Promise.all(play.map((name) => run(name, playing.signal)))
    stop = () => {
      playing.abort()
      return running
    }
    return
  }
  void stop?.().then(() => process.send!({ outcomes, unauthorized, maxima, failed } satisfies Report))
})
process.on("disconnect", () => process.exit())
