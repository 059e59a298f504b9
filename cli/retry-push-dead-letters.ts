import { Effect } from "effect"
import { command, using } from "./support/command.ts"
import { facts, next } from "./support/print.ts"

export const retryPushDeadLetters = command("retry-push-dead-letters", {
  description: "Try notifications again that were given up and have not expired",
  flags: {},
  run: () => using(({ pushAdmin }) => Effect.map(pushAdmin.retryDead, (retried) => ({ retried }))),
  print: (result) => [...facts(result), next("push-status")]
})
