/** A phone with the app: its push token and its requests to the mobile API. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import { notificationKindNames, notificationKinds } from "../../../src/wire/mobile/Notifications.ts"
import { type Ask, send } from "../network/Http.ts"
import type { Person } from "../people/SignIn.ts"

/** Preferences that let every kind of notification through. */
export const everything = {
  kinds: Object.fromEntries(
    notificationKindNames.filter((name) => !notificationKinds[name].byDefault).map((name) => [name, true])
  ),
  minimum_priority: "low",
  quiet_hours: null,
  paused_until: null
}

export const makePhone = (
  on: { readonly url: string },
  person: Pick<Person, "bearer">,
  token = randomBytes(32).toString("hex")
) => {
  const base = `${on.url}/bridge/v1/mobile/devices`
  const ask = (path: string, asked: Ask = {}) => send(`${base}${path}`, { bearer: person.bearer, ...asked })
  const body = (given: { readonly push?: object; readonly [field: string]: unknown } = {}) => ({
    platform: "ios",
    ...given,
    push: { provider: "apns", environment: "production", topic: "com.example.app", token, ...given.push }
  })
  return {
    token,
    body,
    register: (given: Parameters<typeof body>[0] = {}, asked: Ask = {}) => ask("", { body: body(given), ...asked }),
    get: (id: string, asked?: Ask) => ask(`/${id}`, { method: "GET", ...asked }),
    prefer: (id: string, preferences: unknown, asked?: Ask) =>
      ask(`/${id}/preferences`, { method: "PUT", body: preferences, ...asked }),
    ring: (id: string, asked?: Ask) => ask(`/${id}/test`, asked),
    revoke: (id: string, asked?: Ask) => ask(`/${id}/revoke`, asked)
  }
}

/** What is stored of a device: its state, and how many parts of its push token. */
export const storedDevice = (device_id: string) =>
  SqlClient.SqlClient.use((sql) =>
    Effect.map(
      sql<{ readonly state: string; readonly state_reason: string | null; readonly secrets: number }>`
        select state, state_reason, num_nonnulls(token_key_id, token_sealed, token_lookup) as secrets
          from mobile_device
         where device_id = ${device_id}::uuid`,
      ([row]) => row!
    )
  )

/** A registered phone that wants every kind of notification, unless told otherwise. */
export const makeRegisteredPhone = Effect.fnUntraced(function* (
  on: { readonly url: string },
  person: Pick<Person, "bearer">,
  given: { readonly preferences?: object; readonly push?: object } = {}
) {
  const phone = makePhone(on, person)
  const answer = yield* phone.register({ preferences: everything, ...given })
  if (answer.status !== 201) return yield* Effect.die(`${answer.status} ${answer.text}`)
  return { ...phone, device_id: answer.body.device_id as string }
})
