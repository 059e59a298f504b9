import { command, using } from "./command.ts"
import { facts, next } from "./print.ts"

export const pushStatus = command("push-status", {
  description: "Show what waits for delivery to phones, what was given up, and which provider is paused",
  flags: {},
  run: () => using(({ deliveries }) => deliveries.status),
  print: (status) => [...facts(status), next("list-push-dead-letters")]
})
