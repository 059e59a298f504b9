/** What a scenario has at hand: the service that is played, a clock, the command of the Bridge, and what was seen. */
import { Data, Effect } from "effect"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type Ended, start, type Started, type Verb } from "./Command.ts"
import { type Fault, serve } from "./Server.ts"
import { makeService, type Operation, type Settings } from "./Service.ts"

/** The promise is not kept; `why` is what was seen. */
export class Broken extends Data.TaggedError("Broken")<{ readonly why: string }> {}

/** How a command ends that does not know its argument (EX_USAGE of sysexits.h). */
const unknownVerb = 64

export interface Check {
  readonly command: ReadonlyArray<string>
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly mint: Settings["mint"]
  /** Seconds that a token lives in the scenarios of `run`. */
  readonly lifetime: number
}

export interface Scenario {
  readonly name: string
  readonly promise: string
  readonly play: (stage: Stage) => Effect.Effect<void, Broken>
  /** Seconds that the service's clock is ahead of this machine's. */
  readonly ahead?: number
  /** Tokens live as long as `Check.lifetime` says, not a day. */
  readonly short?: true
}

/** Milliseconds that a command other than `run` may take. */
const patience = 60_000
export const minute = 60_000

export const makeStage = Effect.fnUntraced(function* (
  { command, environment, lifetime, mint }: Check,
  scenario: Scenario
) {
  const folder = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "check-bridge-"))),
    (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
  )
  const clock = { ahead: (scenario.ahead ?? 0) * 1000 }
  const now = () => Math.round(performance.timeOrigin + performance.now() + clock.ahead)
  const token = scenario.short === undefined ? 86_400 : lifetime
  const service = makeService({ mint, now, lifetimes: { token, challenge: 600, confirmation: 300 } })
  const { control, exchanges, plans, url } = yield* serve(service, now)
  const credentialFile = join(folder, "credential")
  writeFileSync(credentialFile, `${service.credential}\n`, { mode: 0o600 })
  const state = join(folder, "state")
  const env = {
    ...environment,
    CHECK_BRIDGE_URL: url,
    CHECK_BRIDGE_PROJECT: service.project_id,
    CHECK_BRIDGE_CREDENTIAL_FILE: credentialFile,
    CHECK_BRIDGE_STATE: state
  }
  const outputs: Array<string> = []
  const running = new Map<Started, Verb>()
  yield* Effect.addFinalizer(() => Effect.sync(() => [...running.keys()].forEach(({ kill }) => kill())))
  let declined = false

  const launch = (verb: Verb, options: { readonly limit?: number; readonly fullDisk?: boolean } = {}) =>
    Effect.sync(() => {
      const started = start(command, verb, env, { limit: patience, ...options })
      running.set(started, verb)
      control.kill = started.kill
      return started
    })
  const ending = (started: Started) =>
    Effect.tap(started.ended, ({ code, output }) => {
      declined ||= running.get(started) === "rotate-key" && code === unknownVerb
      running.delete(started)
      outputs.push(output)
      return Effect.void
    })
  const run = (verb: Verb, options?: { readonly fullDisk?: boolean }) => Effect.flatMap(launch(verb, options), ending)

  const broken = (why: string) => new Broken({ why })
  const said = ({ output }: Ended) => output.trim().split("\n").at(-1)?.slice(0, 200) || "nothing"
  const outcome = (verb: Verb, ended: Ended) =>
    ended.timedOut
      ? `${verb} did not end within ${patience / 1000} s`
      : `${verb} ended with ${ended.code ?? "a signal"} and said: ${said(ended)}`

  /** The command ends with 0. */
  const done = (verb: Verb) =>
    Effect.filterOrFail(
      run(verb),
      ({ code }) => code === 0,
      (ended) => broken(outcome(verb, ended))
    )
  /** The command ends with another code than 0, before its time is over. */
  const refused = (verb: Verb) =>
    Effect.filterOrFail(
      run(verb),
      ({ code, timedOut }) => code !== 0 && !timedOut,
      (ended) => broken(ended.timedOut ? outcome(verb, ended) : `${verb} ended with 0`)
    )
  /** The command was killed, or lost an answer: repeated like a supervisor does, it ends with 0. */
  const repeated = (verb: Verb) =>
    run(verb).pipe(
      Effect.repeat({ until: ({ code }) => code === 0, times: 3 }),
      Effect.filterOrFail(
        ({ code }) => code === 0,
        (ended) => broken(`repeated four times, ${outcome(verb, ended)}`)
      )
    )
  const works = Effect.gen(function* () {
    const from = exchanges.length
    yield* done("status")
    const active = service.activeToken()
    const isSeen = exchanges
      .slice(from)
      .some(({ bearer, operation, status }) => operation === "self" && status === 200 && bearer === active)
    if (!isSeen) return yield* broken("status ended with 0 without showing the service the token that works")
  })
  const count = (operation: Operation, status?: number) =>
    exchanges.filter((seen) => seen.operation === operation && (status === undefined || seen.status === status)).length

  return {
    broken,
    clock,
    control,
    count,
    /** The Bridge does not replace its key. */
    hasDeclined: () => declined,
    done,
    exchanges,
    folder,
    launch,
    ending,
    lifetime,
    outputs,
    plan: (operation: Operation, fault: Fault, times = 1) => void plans.push({ operation, times, fault }),
    refused,
    repeated,
    run,
    service,
    state,
    works
  }
})
export type Stage = Effect.Success<ReturnType<typeof makeStage>>

export const requires = (holds: boolean, why: string) => (holds ? Effect.void : Effect.fail(new Broken({ why })))

/** What can happen to one request, and how the Bridge is asked again. */
export const mishaps: ReadonlyArray<readonly [what: string, fault: Fault]> = [
  ["is lost on its way", { kind: "request lost" }],
  ["loses its answer", { kind: "answer lost" }],
  ["is answered 503", { kind: "unavailable", retryAfter: 1 }],
  ["is answered by a broken proxy", { kind: "broken proxy" }]
]
export const kills: ReadonlyArray<readonly [what: string, fault: Fault]> = [
  ["as its request arrives", { kind: "killed", when: "arrived" }],
  ["before its answer", { kind: "killed", when: "handled" }],
  ...[0, 5, 20, 80].map(
    (answered) => [`${answered} ms after its answer`, { kind: "killed", when: { answered } }] as const
  )
]

/** Waits until the condition holds, the command ended, or the time is over. */
export const until = (condition: () => boolean, millis: number) => {
  const end = performance.now() + millis
  return Effect.sleep("20 millis").pipe(Effect.repeat({ until: () => condition() || performance.now() > end }))
}

/** Lets a Bridge store what it was just answered. */
export const settling = Effect.sleep("1 second")
