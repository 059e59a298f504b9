/**
 * Bounds what large requests hold in memory at once: what does not fit waits a second and is refused, before V8 would end
 * the process (decisions.md, Memory).
 *
 * A body is counted by its Content-Length, a chunked one by the maximum, from before it is read until its answer is
 * ready. A batch is counted by the answers that it may collect. Other requests are not counted: they are small, and
 * the number of connections bounds theirs.
 */
import { Context, Effect, Layer } from "effect"
import type { HttpServerRequest } from "effect/http"
import { getHeapStatistics } from "node:v8"
import { refuse, type SharedRefusal } from "../../wire/Errors.ts"

const kib = 1024
const mib = 1024 * kib
/** Bytes of the largest body that any endpoint reads. */
export const largestBody = mib
const small = 16 * kib
/** Bytes of the answer to one message of a batch: a context, or a task with its receipts. */
const answerBytes = 64 * kib

/** V8 counts the young generation as part of the heap's limit; what lives longer has the rest. */
const youngGeneration = 192 * mib
/**
 * Bytes of bodies at once, and as many of answers. A body takes up to six times its size (its bytes, its text with two
 * bytes a character, its values), an answer up to eight times: a 32nd of the heap becomes less than half of it.
 */
const whole = Math.min(64 * mib, Math.max(largestBody, (getHeapStatistics().heap_size_limit - youngGeneration) / 32))
/** Bytes of one owner. More would be parsed one after the other while everybody else waits. */
const share = Math.max(largestBody, Math.min(4 * mib, whole / 4))

type Held<A, E, R> = Effect.Effect<A, E | SharedRefusal<"rate_limited">, R>

export class MemoryBudget extends Context.Service<
  MemoryBudget,
  {
    /** Runs `work`, which reads the body of the request, once the body fits. */
    readonly body: <A, E, R>(
      owner: string,
      request: HttpServerRequest.HttpServerRequest,
      work: Effect.Effect<A, E, R>
    ) => Held<A, E, R>
    /** Runs `work`, which answers so many messages at once, once their answers fit. */
    readonly answers: <A, E, R>(owner: string, messages: number, work: Effect.Effect<A, E, R>) => Held<A, E, R>
  }
>()("service/edge/MemoryBudget") {
  static readonly layer = Layer.sync(MemoryBudget, () => {
    const bodies = budget(whole, share)
    const answers = budget(whole, share)
    return {
      body: (owner, request, work) => {
        const bytes = sizeOf(request)
        return bytes <= small ? work : bodies(owner, bytes, work)
      },
      answers: (owner, messages, work) =>
        messages <= 1 ? work : answers(owner, Math.min(share, messages * answerBytes), work)
    }
  })
}

/** How many small bodies one of so many bytes counts for in a rate limit. */
export const smallBodies = (bytes: number) => Math.max(1, Math.ceil(Math.min(bytes, largestBody) / small))

const sizeOf = ({ headers }: HttpServerRequest.HttpServerRequest) => {
  const announced = headers["content-length"]
  if (announced === undefined) return headers["transfer-encoding"] === undefined ? 0 : largestBody
  return Math.min(Number(announced), largestBody)
}

interface Claim {
  readonly owner: string
  readonly bytes: number
  granted: boolean
  resume?: () => void
}

/** `share`: the bytes of one owner at most. A claim must fit into it. */
export const budget = (whole: number, share: number) => {
  const shares = new Map<string, number>()
  const waiting = new Set<Claim>()
  let held = 0

  const tryGrant = (claim: Claim) => {
    const mine = shares.get(claim.owner) ?? 0
    if (held + claim.bytes > whole || mine + claim.bytes > share) return false
    held += claim.bytes
    shares.set(claim.owner, mine + claim.bytes)
    return (claim.granted = true)
  }
  const granted = (claim: Claim) =>
    Effect.callback<void>((resume) => {
      if (tryGrant(claim)) return resume(Effect.void)
      claim.resume = () => resume(Effect.void)
      waiting.add(claim)
    })
  const release = (claim: Claim) => {
    waiting.delete(claim)
    if (!claim.granted) return
    held -= claim.bytes
    const left = shares.get(claim.owner)! - claim.bytes
    if (left === 0) shares.delete(claim.owner)
    else shares.set(claim.owner, left)
    // In the order of their arrival, skipping owners whose share is taken.
    for (const next of waiting) {
      if (!tryGrant(next)) continue
      waiting.delete(next)
      next.resume?.()
    }
  }

  return <A, E, R>(owner: string, bytes: number, work: Effect.Effect<A, E, R>): Held<A, E, R> =>
    Effect.suspend(() => {
      const claim: Claim = { owner, bytes, granted: false }
      return granted(claim).pipe(
        Effect.timeoutOption("1 second"),
        Effect.flatMap((): Held<A, E, R> => (claim.granted ? work : refuse("rate_limited", 1))),
        Effect.ensuring(Effect.sync(() => release(claim)))
      )
    })
}
