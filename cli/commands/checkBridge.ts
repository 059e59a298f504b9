/** Plays the service against any Bridge, and tells which promises it keeps. */
import { Console, Data, Effect, Option, Redacted } from "effect"
import { Argument, Flag } from "effect/cli"
import { writeFileSync } from "node:fs"
import { mint } from "../../src/platform/crypto/Tokens.ts"
import * as Flags from "../support/Flags.ts"
import { frame } from "../support/frames/frame.ts"
import { fileWork } from "../support/files/SecretFiles.ts"

/** Scenarios at once: most of the time of one goes by waiting. */
const atOnce = 4

class NoScenario extends Data.TaggedError("UsageError")<{ readonly message: string }> {}

export const checkBridge = frame("check-bridge", {
  description: [
    "Check whether a Bridge keeps its promises: the service is played against it, with lost requests and answers,",
    "kills, expiry, theft, revocation, wrong clocks and a full disk. The command gets enroll, rotate, rotate-key, run or",
    "status as its last argument (it ends rotate-key with 64 if it never replaces its key), and CHECK_BRIDGE_URL, CHECK_BRIDGE_PROJECT, CHECK_BRIDGE_CREDENTIAL_FILE and CHECK_BRIDGE_STATE, its",
    "folder, in the environment. It takes a few minutes; exit code 1 if a promise is broken"
  ].join(" "),
  flags: {
    junit: Flags.path("junit", "Also write the results to this file, as JUnit XML").pipe(Flag.optional),
    lifetime: Flags.count("lifetime", 86_400, "Seconds that a token lives where run is checked (default: 20)").pipe(
      Flag.withDefault(20)
    ),
    only: Flags.label("only", 200, "Only scenarios with this text in their name").pipe(Flag.optional),
    command: Argument.String("command").pipe(
      Argument.withDescription("The Bridge's command, after --"),
      Argument.atLeast(1)
    )
  },
  run: ({ command, junit, lifetime, only }, asJson) =>
    Effect.gen(function* () {
      const kit = yield* Effect.promise(() => import("../../src/client/check/Scenarios.ts"))
      const report = yield* Effect.promise(() => import("../../src/client/check/Report.ts"))
      const isChosen = ({ name }: { readonly name: string }) => name.includes(Option.getOrElse(only, () => ""))
      if (!kit.scenarios.some(isChosen)) {
        return yield* new NoScenario({ message: "No scenario has the text of --only in its name." })
      }
      const check = {
        command,
        environment: process.env,
        mint: (kind: "sbe" | "sbt") => Redacted.value(Effect.runSync(mint(kind))),
        lifetime
      }
      let count = 0
      const played = (scenario: (typeof kit.scenarios)[number]) =>
        Effect.tap(kit.play(check, scenario), () =>
          process.stderr.isTTY && !asJson
            ? Effect.sync(() => process.stderr.write(`\r${++count} scenarios`))
            : Effect.void
        )
      // Without it nothing else can be looked at.
      const [first, ...others] = kit.scenarios
      const enrolled = yield* played(first!)
      const results = enrolled.kept
        ? yield* Effect.forEach(others.filter(isChosen), played, { concurrency: atOnce })
        : []
      if (process.stderr.isTTY && !asJson) yield* Console.error("")
      const whole = report.reportOf([enrolled, ...results])
      if (Option.isSome(junit)) {
        yield* fileWork(junit.value, () => writeFileSync(junit.value, report.junit(whole)))
      }
      const unplayed = enrolled.kept ? [] : ["The other scenarios need a Bridge that enrolls: they were not played."]
      return { ...whole, lines: [...report.lines(whole), ...unplayed] }
    }),
  print: ({ lines }) => lines,
  ok: ({ ok }) => ok
})
