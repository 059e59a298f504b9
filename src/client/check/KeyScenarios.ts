/**
 * What a Bridge promises that replaces its key: from every mishap on the way it comes back with a key that the service knows. A
 * Bridge that does not replace its key ends with 64 when it is asked to, and these scenarios are skipped.
 */
import { Effect } from "effect"
import { type Broken, kills, minute, mishaps, requires, type Scenario, settling, type Stage, until } from "./Stage.ts"

/** Enrolls and makes sure that the key which the service knows at the end is another one. */
const replaced = (stage: Stage, play: Effect.Effect<unknown, Broken>) =>
  Effect.gen(function* () {
    yield* stage.done("enroll")
    const before = stage.service.knownKey()
    yield* play
    yield* requires(stage.service.knownKey() !== before, "the service still knows the old key")
    yield* stage.works
  })

/** Of the times after an answer, two suffice: the folder changes as for a token. */
const fewer = kills.filter(([what]) => !/^(5|80) ms/.test(what))

const interrupted = (["prepareKey", "confirmKey"] as const).flatMap((operation): ReadonlyArray<Scenario> => {
  const phase = operation === "prepareKey" ? "prepare" : "confirm"
  return [
    ...mishaps.map(([what, fault]) => ({
      name: `rotate-key, and the ${phase} ${what}`,
      promise:
        "A Bridge repeats a request without an answer exactly, with the same Idempotency-Key, and has one new key.",
      play: (stage: Stage) => {
        stage.plan(operation, fault)
        return replaced(stage, stage.repeated("rotate-key"))
      }
    })),
    ...fewer.map(([what, fault]) => ({
      name: `rotate-key, killed at the ${phase} ${what}`,
      promise: "A key rotation that was cut off at any step leaves a Bridge with the key that the service knows.",
      play: (stage: Stage) => {
        stage.plan(operation, fault)
        return replaced(stage, Effect.andThen(stage.run("rotate-key"), stage.repeated("rotate-key")))
      }
    }))
  ]
})

export const replacing: ReadonlyArray<Scenario> = [
  {
    name: "rotate-key",
    promise: "A Bridge prepares a new key and confirms it, proved by both keys; afterwards it proves the new one.",
    play: (stage) =>
      replaced(
        stage,
        Effect.gen(function* () {
          const before = stage.service.activeToken()
          yield* stage.done("rotate-key")
          yield* requires(stage.count("confirmKey", 200) === 1, "rotate-key confirmed no key")
          yield* requires(stage.service.activeToken() === before, "rotate-key replaced the token")
          yield* stage.done("rotate")
        })
      )
  },
  ...interrupted,
  {
    name: "rotate-key, and the window of the key rotation under way has passed",
    promise: "A Bridge whose new key came too late keeps the old one and prepares another key rotation.",
    play: (stage) => {
      stage.plan("confirmKey", { kind: "killed", when: "arrived" })
      return replaced(
        stage,
        Effect.gen(function* () {
          yield* stage.run("rotate-key")
          stage.clock.ahead += 6 * minute
          yield* stage.repeated("rotate-key")
        })
      )
    }
  },
  {
    name: "rotate-key, and a token rotation is under way",
    promise: "A Bridge finishes the rotation of its token before it replaces its key.",
    play: (stage) => {
      stage.plan("confirm", { kind: "killed", when: "arrived" })
      return replaced(stage, Effect.andThen(stage.run("rotate"), stage.repeated("rotate-key")))
    }
  },
  {
    name: "rotate, and a key rotation is under way",
    promise: "A Bridge finishes the rotation of its key before it replaces its token.",
    play: (stage) => {
      stage.plan("confirmKey", { kind: "killed", when: "arrived" })
      return replaced(stage, Effect.andThen(stage.run("rotate-key"), stage.repeated("rotate")))
    }
  },
  {
    name: "rotate-key, after a copy of a proof was used",
    promise: "A Bridge repeats a request whose proof was refused with a new proof, and the same Idempotency-Key.",
    play: (stage) => {
      stage.plan("prepareKey", { kind: "proof used" })
      stage.plan("confirmKey", { kind: "proof used" })
      return replaced(stage, stage.done("rotate-key"))
    }
  },
  {
    name: "rotate-key, and the disk is full",
    promise: "A Bridge announces no key that it could not store, and goes on once there is room.",
    play: (stage) =>
      replaced(
        stage,
        Effect.gen(function* () {
          const running = yield* stage.launch("rotate-key", { fullDisk: true })
          yield* until(running.hasEnded, 5000)
          running.kill()
          yield* stage.ending(running)
          yield* stage.works
          yield* stage.done("rotate-key")
        })
      )
  },
  {
    name: "run, and the operator wants a new key",
    promise: "A running Bridge replaces its key when the operator asks for it, and goes on with the new one.",
    short: true,
    play: (stage) =>
      replaced(
        stage,
        Effect.gen(function* () {
          const { count, ending, launch, lifetime, service } = stage
          yield* stage.done("rotate-key")
          service.requireNewKey()
          const running = yield* launch("run", { limit: lifetime * 3000 })
          const isDone = () => !service.wantsNewKey() && count("confirm", 200) > 0
          yield* until(() => isDone() || running.hasEnded(), lifetime * 2000)
          yield* settling
          running.kill()
          yield* ending(running)
          yield* requires(!service.wantsNewKey(), "run did not replace the key")
          yield* requires(count("confirm", 200) > 0, "run did not rotate the token after it had replaced the key")
        })
      )
  }
]
