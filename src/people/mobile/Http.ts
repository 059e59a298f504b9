/** The mobile endpoints over `Devices`. */
import { Effect, Layer } from "effect"
import { HttpApiBuilder, HttpApiSchema } from "effect/http-api"
import { Api } from "../../wire/Api.ts"
import { CurrentGrant } from "../../wire/Actor.ts"
import { etag } from "../../wire/mobile/MobileApi.ts"
import { WebPushKeys } from "../../push/tokens/WebPushKeys.ts"
import { Devices } from "./Devices.ts"

const mobile = HttpApiBuilder.group(
  Api,
  "mobile",
  Effect.fn(function* (handlers) {
    const devices = yield* Devices
    return handlers.handleAll({
      register: ({ headers, payload }) =>
        Effect.flatMap(CurrentGrant, (owner) => devices.register(owner, payload, headers["idempotency-key"])),
      get: ({ params }) =>
        Effect.flatMap(CurrentGrant, (owner) => devices.get(owner, params.id)).pipe(
          Effect.map((device) => versioned(device, device.preferences_version))
        ),
      setPreferences: ({ headers, params, payload }) =>
        Effect.flatMap(CurrentGrant, (owner) =>
          devices.setPreferences(owner, params.id, payload, versions(headers["if-match"]))
        ).pipe(Effect.map((set) => versioned(set, set.version))),
      revoke: ({ params }) => Effect.flatMap(CurrentGrant, (owner) => devices.revoke(owner, params.id)),
      test: ({ params }) => Effect.flatMap(CurrentGrant, (owner) => devices.ring(owner, params.id))
    })
  })
)

/** Public, and the same for everybody until it is rotated. */
const webPush = HttpApiBuilder.group(
  Api,
  "web_push",
  Effect.fn(function* (handlers) {
    const keys = yield* WebPushKeys
    return handlers.handleAll({
      webPushKey: () => Effect.map(keys.current, ({ public_key }) => ({ public_key }))
    })
  })
)

export const MobileHttp = Layer.merge(mobile, webPush)

const versioned = <Body>(body: Body, version: number) =>
  HttpApiSchema.withHeaders({ body, headers: { etag: etag(version) } })

/** If-Match: undefined and `*` accept any version; a tag that is not one of our versions matches none. */
const versions = (ifMatch: string | undefined): ReadonlyArray<number> | undefined =>
  ifMatch === undefined || ifMatch === "*"
    ? undefined
    : ifMatch.split(",").flatMap((tag) => {
        const [, version] = /^"(\d{1,9})"$/.exec(tag.trim()) ?? []
        return version === undefined ? [] : [Number(version)]
      })
