/** Checks that Apple's push service accepts a connection for each environment in which phones may register. */
import { Effect } from "effect"
import * as http2 from "node:http2"
import type { Settings } from "../../../src/platform/settings/Settings.ts"
import { readCertificates } from "../../../src/push/channels/apns/Apns.ts"
import { readKey } from "../../../src/push/channels/apns/ProviderToken.ts"
import { check } from "./Check.ts"

/** Connects without sending a request. */
export const apns = Effect.fnUntraced(
  function* ({ push }: Pick<Settings["Service"], "push">) {
    if (push.apns === undefined) {
      return [check("apns", "ok", "Not configured: notifications are only logged.")]
    }
    yield* readKey(push.apns.keyFile)
    const ca = push.caFile === undefined ? undefined : yield* readCertificates(push.caFile)
    return yield* Effect.forEach(push.environments, (environment) => connection(push.origins[environment], ca), {
      concurrency: "unbounded"
    })
  },
  Effect.catch(({ message }) => Effect.succeed([check("apns", "fail", message)]))
)

const connection = (origin: string, ca: string | undefined) =>
  connect(origin, ca).pipe(
    Effect.timeoutOrElse({ duration: "5 seconds", orElse: () => Effect.fail("no answer in 5 s") }),
    Effect.match({
      onSuccess: () => check("apns", "ok", `${origin} answers over HTTP/2; nothing was sent.`),
      onFailure: (reason) =>
        check("apns", "fail", `${origin} cannot be reached (${reason}): allow outgoing connections to it.`)
    })
  )

/** Succeeds once the server's SETTINGS frame arrives, which proves that it speaks HTTP/2. */
const connect = (origin: string, ca: string | undefined) =>
  Effect.callback<void, string>((resume) => {
    const session = http2.connect(origin, ca === undefined ? {} : { ca })
    session.on("remoteSettings", () => resume(Effect.void))
    session.on("error", (error: NodeJS.ErrnoException) => resume(Effect.fail(error.code ?? "no HTTP/2")))
    session.on("close", () => resume(Effect.fail("it closed the connection")))
    return Effect.sync(() => session.destroy())
  })
