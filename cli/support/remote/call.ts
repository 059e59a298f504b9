/** Runs a command at a service elsewhere. Raw secrets never cross the wire; see `remotely` in frame.ts. */
import { Data, Effect, Redacted, Schedule } from "effect"
import { Refusal } from "../../../src/wire/Refusal.ts"
import type { More } from "./remotely.ts"
import type { Target } from "./Target.ts"

class NoAnswer extends Data.TaggedError("NoAnswer")<{ readonly message: string }> {}

/** The connection ended, or a proxy answered for the service: the same call again finds out, or finds it done. */
class AnswerLost extends Data.TaggedError("AnswerLost")<{ readonly reason: string }> {}

/** The service gives a command 60 seconds. */
const longest = "70 seconds"

export const call = (target: Target, name: string, flags: More) =>
  attempt(target, name, flags).pipe(
    Effect.retry({ while: isLost, schedule: Schedule.spaced("1 second"), times: 2 }),
    Effect.catchIf(isLost, ({ reason }) => noAnswer(target, flags, reason))
  )

const isLost = (error: unknown) => error instanceof AnswerLost

const attempt = Effect.fnUntraced(function* (target: Target, name: string, flags: More) {
  const url = `${target.origin}/operator/v1/commands/${name}`
  const { ok, status, text } = yield* Effect.tryPromise({
    try: async (signal) => {
      const response = await fetch(url, {
        method: "POST",
        headers: { authorization: `Bearer ${Redacted.value(target.token)}`, "content-type": "application/json" },
        body: JSON.stringify(flags),
        // A redirect could lead the token elsewhere.
        redirect: "error",
        signal
      })
      return { ok: response.ok, status: response.status, text: await response.text() }
    },
    catch: (error) => new AnswerLost({ reason: reasonOf(error) })
  }).pipe(Effect.timeoutOrElse({ duration: longest, orElse: () => noAnswer(target, flags, `none within ${longest}`) }))
  const answer = parsed(text)
  if (ok && answer !== undefined) return answer
  const { error } = (answer ?? {}) as { readonly error?: { readonly code?: unknown; readonly message?: unknown } }
  if (typeof error?.code !== "string" || typeof error.message !== "string")
    return yield* new AnswerLost({ reason: `status ${status}, and not from Bridge Service` })
  return yield* new Refusal({ _tag: error.code, status, message: sentenceOf(error.code, error.message, target) })
})

const noAnswer = ({ origin }: Target, { id, minted }: More, reason: string) =>
  new NoAnswer({ message: `No answer from ${origin}: ${reason}. ${advice(id, minted)}` })

/** Every command that makes something has either an id, or ids with the hashes of its secrets. */
const advice = (id: More[string], minted: More[string]) => {
  if (minted !== undefined) {
    const ids = [minted].flat().map((one) => String(one).split(":", 1)[0])
    return `No file is left, so repeat the command for a new secret. If the list then shows ${shortened(ids)}, revoke it: nobody has its secret.`
  }
  if (id === undefined) return "It may have been carried out, and can be repeated."
  return `It may have been carried out; with --id ${String(id)} it can be repeated, and is not done twice.`
}

const shortened = (ids: ReadonlyArray<unknown>) =>
  ids.length > 3 ? `${ids.slice(0, 3).join(", ")} and ${ids.length - 3} more` : ids.join(", ")

const reasonOf = (error: unknown) => {
  const { cause, message } = error as Error & { readonly cause?: NodeJS.ErrnoException }
  return cause?.code ?? cause?.message ?? message
}

const sentenceOf = (code: string, message: string, { origin }: Target) => {
  if (code === "unauthorized")
    return `${origin} does not accept the operator token: it is revoked, has expired, or is of another service.`
  if (code === "insufficient_scope") return "The operator token lacks operator:write, which this command needs."
  return message
}

/** Instants become dates again, as the command itself returns them. */
const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text, (_, value) =>
      typeof value === "string" && /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(value) ? new Date(value) : value
    )
  } catch {
    return undefined
  }
}
