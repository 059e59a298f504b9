/**
 * Bounds what large requests hold in memory at once: what does not fit waits a second and is refused, before V8 would end
 * the process (decisions.md, Memory).
 *
 * A body is counted by its Content-Length, a chunked one by the maximum, from before it is read until its answer is
 * ready. An answer is counted by its bytes, from when its size is known until it was sent; a batch by the answers that it
 * may collect, until they are known. Other requests are not counted: they are small, and the number of connections bounds
 * theirs.
 */
import { NodeHttpServerRequest } from "@effect/platform-node"
import { Context, Effect, Exit, Layer } from "effect"
import type { HttpServerRequest, HttpServerResponse } from "effect/http"
import { refuse, type SharedRefusal } from "../../../wire/Errors.ts"
import { oldGeneration } from "../../settings/Heap.ts"

const kib = 1024
const mib = 1024 * kib
/** Bytes of the largest body that any endpoint reads. */
export const largestBody = mib
const small = 16 * kib
/** Bytes of the answer to one message of a batch: a context, or a task with its receipts. */
const answerBytes = 64 * kib

/**
 * Bytes of bodies at once, and as many of answers. A body takes up to six times its size (its bytes, its text with two
 * bytes a character, its values), an answer up to eight times: a 32nd of the heap becomes less than half of it.
 */
const whole = Math.min(64 * mib, Math.max(largestBody, oldGeneration() / 32))
/** Bytes of the bodies of one owner, and as many of its answers. More would be parsed one after the other while everybody else waits. */
export const share = Math.max(largestBody, Math.min(4 * mib, whole / 4))
/** Bytes of answers at once. Nobody who does not read fills it alone. */
const wholeOfAnswers = Math.max(4 * share, whole)

/** Counts the answer to one message; false if it does not fit. `isKept`: it cannot be dropped, so it fits anyway. */
export type CountAnswer = (bytes: number, isKept: boolean) => Effect.Effect<boolean>

type Answered<E, R> = Held<HttpServerResponse.HttpServerResponse, E, R>
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
    /**
     * Runs `work`, which answers so many messages at once, once their answers fit and the owner has read enough of its
     * earlier ones. The answer counts until it was sent, or its connection closed.
     */
    readonly answers: <E, R>(
      owner: string,
      messages: number,
      request: HttpServerRequest.HttpServerRequest,
      work: (count: CountAnswer) => Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
    ) => Answered<E, R>
    /** The same for one answer whose size is known once `work` has ended. */
    readonly answer: <E, R>(
      owner: string,
      request: HttpServerRequest.HttpServerRequest,
      work: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
    ) => Answered<E, R>
  }
>()("service/edge/MemoryBudget") {
  static readonly layer = Layer.sync(MemoryBudget, () => {
    const bodies = budget(whole, share)
    const unsent = budget(wholeOfAnswers, share)

    const answers = <E, R>(
      owner: string,
      messages: number,
      request: HttpServerRequest.HttpServerRequest,
      work: (count: CountAnswer) => Answered<E, R>
    ): Answered<E, R> =>
      Effect.suspend(() => {
        const held = unsent.open(owner)
        return held.admit(messages <= 1 ? 0 : Math.min(share, messages * answerBytes)).pipe(
          Effect.flatMap((isAdmitted): Answered<E, R> => (isAdmitted ? work(held.count) : refuse("rate_limited", 1))),
          Effect.onExit((exit) =>
            Effect.sync(() => {
              if (Exit.isFailure(exit)) return held.close()
              held.settle(lengthOf(exit.value))
              whenSent(request, held.close)
            })
          )
        )
      })

    return {
      body: (owner, request, work) => {
        const bytes = sizeOf(request)
        return bytes <= small ? work : bodies.hold(owner, bytes, work)
      },
      answers,
      answer: (owner, request, work) =>
        answers(owner, 1, request, (count) =>
          Effect.flatMap(work, (response) =>
            Effect.flatMap(count(lengthOf(response), false), (fits) =>
              fits ? Effect.succeed(response) : refuse("rate_limited", 1)
            )
          )
        )
    }
  })
}

const lengthOf = ({ body }: HttpServerResponse.HttpServerResponse) =>
  body._tag === "Uint8Array" ? body.contentLength : 0

/** Node emits `close` after the last byte was given to the kernel, and when the connection closes. */
const whenSent = (request: HttpServerRequest.HttpServerRequest, done: () => void) => {
  const response = NodeHttpServerRequest.toServerResponse(request)
  if (response.destroyed) done()
  else response.once("close", done)
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

  const grant = (claim: Claim) => {
    held += claim.bytes
    if (claim.bytes > 0) shares.set(claim.owner, (shares.get(claim.owner) ?? 0) + claim.bytes)
    claim.granted = true
  }
  /** A claim of no bytes waits only for its owner. */
  const fits = ({ bytes, owner }: Claim) => {
    const mine = shares.get(owner) ?? 0
    return bytes === 0 ? mine < share : held + bytes <= whole && mine + bytes <= share
  }
  /** Waits a second at most; whether the claim was granted. */
  const admitted = (claim: Claim) =>
    Effect.suspend(() => {
      // Not in the callback: its fiber may start late in a process that is busy, and time runs from before.
      if (fits(claim)) {
        grant(claim)
        return Effect.succeed(true)
      }
      return Effect.map(Effect.timeoutOption(turn(claim), "1 second"), () => claim.granted)
    })
  const turn = (claim: Claim) =>
    Effect.callback<void>((resume) => {
      if (fits(claim)) {
        grant(claim)
        return resume(Effect.void)
      }
      claim.resume = () => resume(Effect.void)
      waiting.add(claim)
      return Effect.sync(() => waiting.delete(claim))
    })
  const release = (claim: Claim) => {
    if (!claim.granted) return
    held -= claim.bytes
    // Claims of no bytes may outlive the entry of their owner.
    const left = (shares.get(claim.owner) ?? 0) - claim.bytes
    if (left === 0) shares.delete(claim.owner)
    else shares.set(claim.owner, left)
    // In the order of their arrival, skipping owners whose share is taken.
    for (const next of waiting) {
      if (!fits(next)) continue
      grant(next)
      waiting.delete(next)
      next.resume?.()
    }
  }

  /** Runs `work` once so many bytes fit, and holds them until it ends. */
  const hold = <A, E, R>(owner: string, bytes: number, work: Effect.Effect<A, E, R>): Held<A, E, R> =>
    Effect.suspend(() => {
      const claim: Claim = { owner, bytes, granted: false }
      return admitted(claim).pipe(
        Effect.flatMap((isAdmitted): Held<A, E, R> => (isAdmitted ? work : refuse("rate_limited", 1))),
        Effect.ensuring(Effect.sync(() => release(claim)))
      )
    })

  /** What one request holds. It grows with its answers and is given back as a whole. */
  const open = (owner: string) => {
    let claims: ReadonlyArray<Claim> = []
    /** Bytes claimed, and bytes of the answers so far. */
    let room = 0
    let used = 0

    const claimed = (bytes: number) => {
      const claim: Claim = { owner, bytes, granted: false }
      claims = [...claims, claim]
      room += bytes
      return claim
    }
    const admit = (bytes: number) => admitted(claimed(bytes))
    const count: CountAnswer = (bytes, isKept) =>
      Effect.suspend(() => {
        const isFirst = used === 0
        if (used + bytes <= Math.max(room, small)) {
          used += bytes
          return Effect.succeed(true)
        }
        if (isKept) {
          used += bytes
          grant(claimed(used - room))
          return Effect.succeed(true)
        }
        // The first answer of a request is admitted into an empty share, however large it is.
        const needed = isFirst ? Math.min(used + bytes, share) : used + bytes
        if (needed > share) return Effect.succeed(false)
        const more = Math.max(0, needed - room)
        used += bytes
        return Effect.tap(admit(more), (isAdmitted) =>
          Effect.sync(() => {
            if (isAdmitted) return
            room -= more
            used -= bytes
          })
        )
      })
    const close = () => {
      for (const claim of claims) release(claim)
      claims = []
    }
    /** Holds exactly so many bytes from now on, none if they are few. */
    const settle = (bytes: number) => {
      const before = claims
      claims = []
      if (bytes > small) grant(claimed(bytes))
      for (const claim of before) release(claim)
    }
    return { admit, count, settle, close }
  }

  return { hold, open }
}
