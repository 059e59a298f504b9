/** Delivery of notifications: the queue, dead letters, and the keys that seal push tokens. */
import { Effect, Option } from "effect"
import { Flag } from "effect/cli"
import { command, using } from "../support/frames/command.ts"
import * as Flags from "../support/Flags.ts"
import { list } from "../support/frames/list.ts"
import { facts, next } from "../support/terminal/Print.ts"

const pushStatus = command("push-status", {
  description: "Show the notifications in the queue by state, paused push environments, and push token keys in use",
  remote: "read",
  flags: {},
  run: () => using(({ pushAdmin }) => pushAdmin.status),
  print: ({ current_key, deliveries, due_since, pauses, token_keys, web_push_keys }) => [
    ...facts({
      ...deliveries,
      due_since,
      ...Object.fromEntries(
        pauses.map(({ environment, failures, paused_until, reason }) => [
          environment,
          `paused until ${paused_until?.toISOString() ?? "-"}: ${reason}, ${failures} in a row`
        ])
      ),
      token_keys: perKey(token_keys),
      current_key,
      web_push_keys: web_push_keys.map(
        ({ public_key, replaced_at, subscriptions, token_key_id, usable }) =>
          `${public_key.slice(0, 12)}… ${replaced_at === null ? "current" : "replaced"}, made from ${token_key_id}${usable ? "" : " (not configured)"}, browsers: ${subscriptions}`
      )
    }),
    next(deliveries["dead"] === undefined ? "list-devices --project ID" : "list-push-dead-letters")
  ]
})

/** How many push tokens each key seals. */
const perKey = (counts: Readonly<Record<string, number>>) =>
  Object.entries(counts).map(([key, devices]) => `${key}: ${devices}`)

const listPushDeadLetters = list("list-push-dead-letters", {
  description: "List notifications that were given up (dead letters), newest first",
  flags: { since: Flags.since.pipe(Flag.withDescription("Only those given up since then"), Flag.optional) },
  after: Flags.uuid("after", ""),
  key: "delivery_id",
  page: ({ pushAdmin }, { since }, page) => pushAdmin.listDead(page, Option.getOrUndefined(since)),
  columns: ["delivery_id", "device_id", "kind", "attempts", "last_status", "last_reason", "settled_at", "expires_at"],
  none: "There are no dead letters.",
  next: ({ length }) => (length === 0 ? "push-status" : "retry-push-dead-letters")
})

const retryPushDeadLetters = command("retry-push-dead-letters", {
  description: "Retry the dead letters that have not expired",
  remote: "write",
  flags: {},
  run: () => using(({ pushAdmin }) => Effect.map(pushAdmin.retryDead, (retried) => ({ retried }))),
  print: (result) => [...facts(result), next("push-status")]
})

const rekeyPushTokens = command("rekey-push-tokens", {
  description: "Seal every push token with the first key of SERVICE_PUSH_TOKEN_KEYS; the server may be running",
  flags: {},
  run: () => using(({ pushAdmin }) => pushAdmin.rekey),
  print: ({ token_keys, ...counts }) => [
    ...facts({ ...counts, token_keys: perKey(token_keys) }),
    next("push-status", "remove the old key once it seals no tokens")
  ],
  ok: ({ unreadable }) => unreadable === 0
})

const rotateWebPushKey = command("rotate-web-push-key", {
  description: "Let browsers subscribe with a new web push key from now on; earlier subscriptions keep theirs",
  remote: "write",
  flags: { id: Flags.newUuid },
  run: ({ id }) =>
    using(({ persistently, pushAdmin }) =>
      Effect.map(persistently(pushAdmin.rotateWebPushKey(id)), ({ public_key }) => ({ public_key }))
    ),
  print: (rotated) => [...facts(rotated), next("push-status", "shows how many browsers still use which key")]
})

export const push = [pushStatus, listPushDeadLetters, retryPushDeadLetters, rekeyPushTokens, rotateWebPushKey]
