/** What a Bridge promises (spec 3.1, 3.2, 3.4), as scenarios: each plays one mishap against the command and looks at what it does. */
import { Effect } from "effect"
import { lstatSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { replacing } from "./KeyScenarios.ts"
import type { Result } from "./Report.ts"
import { type Exchange, serve } from "./Server.ts"
import { makeService, type Settings } from "./Service.ts"
import {
  Broken,
  type Check,
  kills,
  makeStage,
  minute,
  mishaps,
  requires,
  type Scenario,
  settling,
  type Stage,
  until
} from "./Stage.ts"

const enrolling = (["challenge", "proof"] as const).flatMap((operation): ReadonlyArray<Scenario> => [
  ...mishaps.map(([what, fault]) => ({
    name: `enroll, and the ${operation} ${what}`,
    promise: "A Bridge repeats a request without an answer exactly, with the same Idempotency-Key, and enrolls.",
    play: ({ plan, repeated, works }: Stage) => {
      plan(operation, fault)
      return Effect.andThen(repeated("enroll"), works)
    }
  })),
  ...kills.map(([what, fault]) => ({
    name: `enroll, killed at the ${operation} ${what}`,
    promise: "Enrollment that was cut off at any step is finished by the same command with the same credential.",
    play: ({ plan, repeated, run, works }: Stage) => {
      plan(operation, fault)
      return Effect.andThen(run("enroll"), Effect.andThen(repeated("enroll"), works))
    }
  }))
])

const rotating = (["prepare", "confirm"] as const).flatMap((operation): ReadonlyArray<Scenario> => [
  ...mishaps.map(([what, fault]) => ({
    name: `rotate, and the ${operation} ${what}`,
    promise:
      "A Bridge repeats a request without an answer exactly, with the same Idempotency-Key, and has one new token.",
    play: ({ count, done, plan, repeated, works }: Stage) =>
      Effect.gen(function* () {
        yield* done("enroll")
        plan(operation, fault)
        yield* repeated("rotate")
        yield* requires(count("confirm", 200) > 0, "rotate ended with 0 without a confirmed rotation")
        yield* works
      })
  })),
  ...kills.map(([what, fault]) => ({
    name: `rotate, killed at the ${operation} ${what}`,
    promise: "A rotation that was cut off at any step leaves a token that works, and can be finished or repeated.",
    play: ({ done, plan, repeated, run, works }: Stage) =>
      Effect.gen(function* () {
        yield* done("enroll")
        plan(operation, fault)
        yield* run("rotate")
        yield* repeated("rotate")
        yield* works
      })
  }))
])

/** Requests after a refusal that no repetition mends. */
const few = 5

const once: ReadonlyArray<Scenario> = [
  {
    name: "enroll",
    promise: "A Bridge asks for a challenge, signs the 32 bytes of the nonce, and keeps the token.",
    play: ({ done, works }) => Effect.andThen(done("enroll"), works)
  },
  {
    name: "rotate",
    promise: "A Bridge prepares and confirms: afterwards the successor is its token.",
    play: ({ count, done, service, works }) =>
      Effect.gen(function* () {
        yield* done("enroll")
        const before = service.activeToken()
        yield* done("rotate")
        yield* requires(count("confirm", 200) === 1, "rotate confirmed no rotation")
        yield* requires(service.activeToken() !== before, "the token is still the old one")
        yield* works
      })
  },
  {
    name: "enroll and rotate, and every answer has a field that is new",
    promise: "A Bridge ignores fields that it does not know: the protocol grows by adding.",
    play: ({ control, done, works }) => {
      control.addsFields = true
      return Effect.andThen(done("enroll"), Effect.andThen(done("rotate"), works))
    }
  },
  {
    name: "enroll, and the challenge expires before the proof",
    promise: "A Bridge whose challenge has expired asks for another one, with the same credential and another key.",
    play: ({ clock, plan, repeated, run, works }) =>
      Effect.gen(function* () {
        plan("challenge", { kind: "killed", when: { answered: 0 } })
        plan("proof", { kind: "killed", when: "arrived" })
        yield* run("enroll")
        clock.ahead += 11 * minute
        yield* repeated("enroll")
        yield* works
      })
  },
  {
    name: "enroll, and the credential was revoked",
    promise: "A Bridge whose credential is refused stops and says so; it does not ask again and again.",
    play: ({ exchanges, refused, service }) =>
      Effect.gen(function* () {
        service.revokeCredential()
        yield* refused("enroll")
        yield* requires(exchanges.length <= few, `it sent ${exchanges.length} requests`)
      })
  },
  {
    name: "enroll again, once enrolled",
    promise: "A Bridge that is told to enroll again with a used credential keeps the token that works.",
    play: ({ done, run, works }) => Effect.andThen(done("enroll"), Effect.andThen(run("enroll"), works))
  },
  {
    name: "rotate, and the window of the rotation under way has passed",
    promise: "A Bridge whose successor came too late keeps its token and prepares another rotation.",
    play: ({ clock, done, plan, repeated, run, service, works }) =>
      Effect.gen(function* () {
        yield* done("enroll")
        plan("confirm", { kind: "killed", when: "arrived" })
        yield* run("rotate")
        clock.ahead += 6 * minute
        const before = service.activeToken()
        yield* repeated("rotate")
        yield* requires(service.activeToken() !== before, "rotate ended with 0, and the token is still the old one")
        yield* works
      })
  },
  {
    name: "rotate twice at once",
    promise: "Two processes of one Bridge do not lose its token.",
    play: ({ done, run, works }) =>
      Effect.gen(function* () {
        yield* done("enroll")
        yield* Effect.all([run("rotate"), run("rotate")], { concurrency: 2 })
        yield* works
      })
  },
  {
    name: "rotate, and somebody else has a rotation under way",
    promise: "A Bridge ends no rotation that it did not begin: it says so, and keeps its token.",
    play: ({ count, done, refused, service, works }) =>
      Effect.gen(function* () {
        yield* done("enroll")
        service.steal.prepare()
        yield* refused("rotate")
        yield* requires(count("confirm") + count("abort") === 0, "it tried to end the other's rotation")
        yield* works
      })
  },
  {
    name: "rotate, and somebody else has taken the token over",
    promise: "A Bridge whose token was replaced by another stops and says so.",
    play: ({ done, exchanges, refused, service }) =>
      Effect.gen(function* () {
        yield* done("enroll")
        service.steal.rotate()
        const from = exchanges.length
        yield* refused("rotate")
        yield* refused("status")
        yield* requires(exchanges.length - from <= few, `it sent ${exchanges.length - from} requests`)
      })
  },
  {
    name: "rotate, and the disk is full",
    promise: "A Bridge confirms no successor that it could not store, and goes on once there is room.",
    play: ({ done, ending, launch, works }) =>
      Effect.gen(function* () {
        yield* done("enroll")
        const running = yield* launch("rotate", { fullDisk: true })
        yield* until(running.hasEnded, 5000)
        running.kill()
        yield* ending(running)
        yield* works
        yield* done("rotate")
        yield* works
      })
  },
  ...[-1, 1].map((days) => ({
    name: `rotate, on a machine whose clock is a day ${days > 0 ? "slow" : "fast"}`,
    promise: "A Bridge that proves its key takes the time from Date when its proof is refused, and goes on.",
    ahead: days * 86_400,
    play: ({ done, works }: Stage) =>
      Effect.gen(function* () {
        yield* done("enroll")
        yield* done("rotate")
        yield* works
      })
  })),
  {
    name: "rotate, after a copy of a proof was used",
    promise: "A Bridge that proves its key repeats a request with a new proof, and the same Idempotency-Key.",
    play: ({ done, plan, works }) =>
      Effect.gen(function* () {
        yield* done("enroll")
        plan("prepare", { kind: "proof used" })
        plan("confirm", { kind: "proof used" })
        yield* done("rotate")
        yield* works
      })
  },
  {
    name: "status, and the answer leads elsewhere",
    promise: "A Bridge talks to the address of the service only, and follows no redirect.",
    play: ({ control, done, ending, exchanges, launch }) =>
      Effect.gen(function* () {
        yield* done("enroll")
        const other = yield* serve(makeService(nobody), () => 0)
        control.redirect = other.url
        for (const verb of ["status", "rotate"] as const) {
          const from = exchanges.length
          const running = yield* launch(verb)
          // With its second request it has gone past the first redirect; it may go on asking for a minute.
          yield* until(() => exchanges.length > from + 1 || running.hasEnded(), 5000)
          running.kill()
          yield* ending(running)
        }
        yield* requires(other.exchanges.length === 0, "it followed a redirect to another address")
      }).pipe(Effect.scoped)
  }
]

const nobody: Settings = {
  mint: () => "",
  now: () => 0,
  lifetimes: { token: 1, challenge: 1, confirmation: 1 }
}

/** When the rotation was confirmed, as a share of the token's life. */
const rotatesInTime = ({ broken, count, done, ending, exchanges, launch, lifetime, works }: Stage) =>
  Effect.gen(function* () {
    yield* done("enroll")
    const born = exchanges.findLast(({ operation, status }) => operation === "proof" && status === 200)!.at
    const running = yield* launch("run", { limit: lifetime * 3000 })
    yield* until(() => count("confirm", 200) > 0 || running.hasEnded(), lifetime * 1200)
    yield* settling
    const confirmed = exchanges.find(({ operation, status }) => operation === "confirm" && status === 200)
    running.kill()
    yield* ending(running)
    if (confirmed === undefined) return yield* broken(`run confirmed no rotation within the ${lifetime} s of a token`)
    const share = (confirmed.at - born) / (lifetime * 1000)
    if (share < 0.25 || share > 0.95)
      return yield* broken(`run rotated after ${Math.round(share * 100)} % of the token's life`)
    yield* works
  })

/** `run` ends by itself, with another code than 0, and soon stops asking. */
const stops = ({ ending, exchanges, launch, lifetime }: Stage, from: number, limit: number) =>
  Effect.gen(function* () {
    const running = yield* launch("run", { limit })
    const { code, timedOut } = yield* ending(running)
    yield* requires(!timedOut, `run still ran ${Math.round(limit / 1000)} s later`)
    yield* requires(code !== 0, "run ended with 0")
    const many = exchanges.length - from
    yield* requires(many <= few + 2, `run sent ${many} requests in a life of ${lifetime} s`)
  })

const lasting: ReadonlyArray<Scenario> = [
  {
    name: "run",
    promise: "A running Bridge rotates between a quarter of its token's life and its end.",
    short: true,
    play: rotatesInTime
  },
  ...[-9, 9].map((hours) => ({
    name: `run, on a machine whose clock is nine hours ${hours > 0 ? "slow" : "fast"}`,
    promise: "A Bridge counts the life of its token by the service's clock (Date), not by its own.",
    short: true as const,
    ahead: hours * 3600,
    play: rotatesInTime
  })),
  {
    name: "run, and the service restarts",
    promise: "A running Bridge waits for a service that does not answer, and goes on.",
    short: true,
    play: (stage) =>
      Effect.gen(function* () {
        const { control, count, done, ending, exchanges, launch, lifetime, works } = stage
        yield* done("enroll")
        const running = yield* launch("run", { limit: lifetime * 5000 })
        control.isAway = true
        yield* Effect.sleep(lifetime * 250)
        control.isAway = false
        const from = exchanges.length
        yield* until(() => count("confirm", 200) > 0 || running.hasEnded(), lifetime * 1000)
        yield* settling
        running.kill()
        yield* ending(running)
        yield* requires(exchanges.length > from, "run sent nothing after the service was back")
        yield* requires(count("confirm", 200) > 0, "run did not rotate after the service was back")
        yield* works
      })
  },
  {
    name: "run, and the service asks for time",
    promise: "A Bridge waits for as long as Retry-After says.",
    short: true,
    play: ({ count, done, ending, exchanges, launch, lifetime, plan }) =>
      Effect.gen(function* () {
        yield* done("enroll")
        plan("prepare", { kind: "unavailable", retryAfter: 2 })
        const running = yield* launch("run", { limit: lifetime * 3000 })
        yield* until(() => count("prepare") > 1 || running.hasEnded(), lifetime * 1500)
        running.kill()
        yield* ending(running)
        const [first, second] = exchanges.filter(({ operation }) => operation === "prepare")
        if (first === undefined) return yield* new Broken({ why: "run prepared no rotation" })
        if (second === undefined) return yield* new Broken({ why: "run did not ask again" })
        const waited = second.at - first.at
        yield* requires(waited >= 1900, `it asked again after ${Math.round(waited)} ms instead of 2 s`)
      })
  },
  {
    name: "run, and the service refuses everything for a while",
    promise: "A Bridge asks more and more rarely: a fleet must not keep a service from coming back.",
    short: true,
    play: ({ done, ending, exchanges, launch, plan }) =>
      Effect.gen(function* () {
        yield* done("enroll")
        for (const operation of ["self", "prepare"] as const) plan(operation, { kind: "broken proxy" }, Infinity)
        const running = yield* launch("run", { limit: 30_000 })
        const from = exchanges.length
        yield* until(() => running.hasEnded(), 6000)
        running.kill()
        yield* ending(running)
        const many = exchanges.length - from
        yield* requires(many <= 60, `it sent ${many} requests in six seconds`)
      })
  },
  {
    name: "run, and the Bridge is revoked",
    promise: "A running Bridge that was revoked ends by itself, with another code than 0.",
    short: true,
    play: (stage) =>
      Effect.gen(function* () {
        yield* stage.done("enroll")
        stage.service.revokeIdentity()
        yield* stops(stage, stage.exchanges.length, stage.lifetime * 1000 + 5000)
      })
  },
  {
    name: "run, and the token has expired meanwhile",
    promise: "A Bridge whose token expired while it was off ends by itself, with another code than 0.",
    short: true,
    play: (stage) =>
      Effect.gen(function* () {
        yield* stage.done("enroll")
        stage.clock.ahead += (stage.lifetime + 1) * 1000
        yield* stops(stage, stage.exchanges.length, stage.lifetime * 1000 + 5000)
      })
  },
  {
    name: "run, after a rotation that was cut off",
    promise: "A Bridge that starts finishes the rotation that it finds in its folder.",
    short: true,
    play: ({ done, ending, exchanges, launch, lifetime, plan, run, works }) =>
      Effect.gen(function* () {
        yield* done("enroll")
        plan("confirm", { kind: "killed", when: "handled" })
        yield* run("rotate")
        const running = yield* launch("run", { limit: lifetime * 1000 })
        yield* until(() => exchanges.at(-1)?.operation === "self" && exchanges.at(-1)?.status === 200, lifetime * 500)
        running.kill()
        yield* ending(running)
        yield* works
      })
  }
]

export const scenarios: ReadonlyArray<Scenario> = [...once, ...enrolling, ...rotating, ...replacing, ...lasting]

/** What holds in every scenario. */
const always = (stage: Stage) =>
  Effect.gen(function* () {
    const { exchanges, outputs, service, state } = stage
    yield* requires(repeatsExactly(exchanges), "a request was repeated with the same Idempotency-Key but another body")
    const shown = service.secrets.find(({ text }) => outputs.some((output) => output.includes(text)))
    yield* requires(shown === undefined, `the ${shown?.what} is in the output`)
    for (const { content, isOpen, path } of filesIn(state)) {
      yield* requires(!isOpen, `other accounts can read ${path.slice(state.length + 1) || "the folder"}`)
      const nonce = service.secrets.find(({ text, what }) => what === "nonce" && content.includes(text))
      yield* requires(nonce === undefined, `the nonce is stored in ${path.slice(state.length + 1)}`)
    }
  })

const repeatsExactly = (exchanges: ReadonlyArray<Exchange>) => {
  const bodies = new Map<string, string>()
  return exchanges.every(({ bearer, body, key, operation }) => {
    if (key === undefined || operation === undefined) return true
    const name = `${operation} ${bearer} ${key}`
    const first = bodies.get(name) ?? body
    bodies.set(name, first)
    return first === body
  })
}

interface File {
  readonly path: string
  /** Whether the group or others may do anything with it. */
  readonly isOpen: boolean
  readonly content: string
}

/** A file in a folder that only its owner may open is private whatever its own mode. */
const filesIn = (folder: string): ReadonlyArray<File> => {
  const found = lstatSync(folder, { throwIfNoEntry: false })
  if (found === undefined) return []
  const isOpen = (found.mode & 0o077) !== 0
  if (!found.isDirectory())
    return [{ path: folder, isOpen, content: found.isFile() ? readFileSync(folder, "utf8") : "" }]
  const inside = readdirSync(folder).flatMap((name) => filesIn(join(folder, name)))
  return isOpen ? inside : inside.map((file) => ({ ...file, isOpen: false }))
}

/** Plays one scenario. Never fails: what goes wrong is in the result. */
export const play = (check: Check, scenario: Scenario): Effect.Effect<Result> =>
  Effect.gen(function* () {
    const from = performance.now()
    const found = yield* Effect.flatMap(makeStage(check, scenario), (stage) =>
      Effect.andThen(scenario.play(stage), always(stage)).pipe(
        Effect.as({ kept: true, why: null }),
        Effect.catchTag("Broken", ({ why }) => Effect.succeed({ kept: false, why })),
        Effect.map((found) =>
          stage.hasDeclined()
            ? { kept: null, why: "rotate-key ended with 64: the Bridge does not replace its key" }
            : found
        )
      )
    ).pipe(Effect.scoped)
    const { name, promise } = scenario
    return { scenario: name, promise, ...found, seconds: (performance.now() - from) / 1000 }
  })
