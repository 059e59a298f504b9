import { Effect } from "effect"
import { command } from "./support/command.ts"
import { next } from "./support/print.ts"

export const doctor = command("doctor", {
  description: "Check configuration, database and files; changes nothing",
  flags: {},
  run: () =>
    Effect.flatMap(
      Effect.promise(() => import("./support/checks.ts")),
      ({ examination }) => examination
    ),
  print: ({ checks, ok }) => [
    ...checks.map(({ message, name, status }) => `${status.padEnd(4)}  ${name.padEnd(13)}  ${message}`),
    ok ? next("list-projects") : next("doctor", "after mending what failed")
  ],
  ok: ({ ok }) => ok
})
