import { command, using } from "./support/command.ts"
import { facts, next } from "./support/print.ts"

export const pushStatus = command("push-status", {
  description: "Show what waits for delivery to phones, what was given up, and which provider is paused",
  flags: {},
  run: () => using(({ pushAdmin }) => pushAdmin.status),
  print: ({ current_key, deliveries, due_since, pauses, token_keys }) => [
    ...facts({
      ...deliveries,
      due_since,
      ...Object.fromEntries(
        pauses.map(({ environment, failures, paused_until, reason }) => [
          environment,
          `paused until ${paused_until?.toISOString() ?? "-"}: ${reason}, ${failures} in a row`
        ])
      ),
      token_keys: Object.entries(token_keys).map(([key, devices]) => `${key}: ${devices}`),
      current_key
    }),
    next(deliveries["dead"] === undefined ? "list-devices --project ID" : "list-push-dead-letters")
  ]
})
