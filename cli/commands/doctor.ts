/** `doctor` runs the checks of support/checks. It neither migrates nor changes anything. */
import { Effect } from "effect"
import { command } from "../support/frames/command.ts"
import { next } from "../support/terminal/Print.ts"

export const doctor = command("doctor", {
  description: "Check configuration, network, files and database; changes nothing",
  flags: {},
  run: () =>
    Effect.flatMap(
      Effect.promise(() => import("../support/checks/examine.ts")),
      ({ examine }) => examine
    ),
  print: ({ checks, ok }) => [
    ...checks.map(({ message, name, status }) => `${status.padEnd(4)}  ${name.padEnd(13)}  ${message}`),
    ok ? next("list-projects") : next("doctor", "after fixing what failed")
  ],
  ok: ({ ok }) => ok
})
