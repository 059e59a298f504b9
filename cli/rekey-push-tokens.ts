import { command, using } from "./support/command.ts"
import { facts, next } from "./support/print.ts"

export const rekeyPushTokens = command("rekey-push-tokens", {
  description: "Seal every push token under the first of SERVICE_PUSH_TOKEN_KEYS, while the server runs",
  flags: {},
  run: () => using(({ pushAdmin }) => pushAdmin.rekey),
  print: ({ token_keys, ...counts }) => [
    ...facts({ ...counts, token_keys: Object.entries(token_keys).map(([key, devices]) => `${key}: ${devices}`) }),
    next("push-status", "the old key may go when it holds no tokens")
  ],
  ok: ({ unreadable }) => unreadable === 0
})
