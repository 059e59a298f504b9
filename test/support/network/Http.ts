/** Plain requests, as any client would send them. */
import { Clock, Effect } from "effect"

export interface Ask {
  readonly method?: string
  readonly bearer?: string | undefined
  readonly key?: string | undefined
  readonly headers?: Readonly<Record<string, string>>
  /** An object is sent as JSON, a string unchanged. */
  readonly body?: unknown
}

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** The parsed body; undefined if it is not JSON. */
  readonly body: any
  /** The error's code, if the body is an error object. */
  readonly code: string | undefined
}

/** SERVICE_PROCESSES of the races (service/Replicas.ts). */
export const processes = process.env["SERVICE_PROCESSES"]
/** With several processes a request says what time it is in the test. */
export const timeHeader = "x-test-time"
/** Of a request that goes to the next process, and so to a connection of its own. */
const toTheNext = (now: number) => (processes === undefined ? {} : { connection: "close", [timeHeader]: String(now) })

export const send = (
  url: string,
  { bearer, body, headers = {}, key, method = "POST" }: Ask = {}
): Effect.Effect<Answer> =>
  Effect.flatMap(Clock.currentTimeMillis, (now) =>
    Effect.promise(async (signal) => {
      const response = await fetch(url, {
        method,
        signal,
        redirect: "manual",
        headers: {
          ...(bearer === undefined ? {} : { authorization: `Bearer ${bearer}` }),
          ...(key === undefined ? {} : { "idempotency-key": key }),
          ...(body === undefined ? {} : { "content-type": "application/json" }),
          ...toTheNext(now),
          ...headers
        },
        ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) })
      })
      const text = await response.text()
      const isJson = text !== "" && response.headers.get("content-type")?.includes("json")
      const parsed = isJson ? JSON.parse(text) : undefined
      return { status: response.status, headers: response.headers, text, body: parsed, code: parsed?.error?.code }
    })
  )
