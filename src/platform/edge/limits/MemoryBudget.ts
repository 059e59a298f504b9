/**
 * Bounds what large requests hold in memory at once: what does not fit waits a second and is refused, before V8 would end
 * the process (decisions.md, Memory).
 *
 * A body is counted by its Content-Length, a chunked one by the maximum, from before it is read until its answer is
 * ready. An answer is counted by its bytes, from when its size is known until it was sent; a batch by the answers that it
 * may collect, until they are known. Other requests are not counted: they are small, and the number of connections bounds
 * theirs.
 *
 * A project has a share of the whole, and each of its tokens half of that: who reads slowly, or sends slowly, leaves the
 * other half to the colleagues.
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
/** Bytes of the answer to one message of a batch: most contexts, or tasks with their receipts. */
const answerBytes = 32 * kib
/** Bytes around a result that are not counted with it, or of a failure in its place. */
const envelopeBytes = kib

/**
 * Bytes of bodies at once, and as many of answers. A body takes up to six times its size (its bytes, its text with two
 * bytes a character, its values), an answer up to eight times: a 32nd of the heap becomes less than half of it.
 */
const whole = Math.min(64 * mib, Math.max(largestBody, oldGeneration() / 32))
/** Bytes of the bodies of one project, and as many of its answers. More would be parsed one after the other while everybody else waits. */
const share = Math.max(largestBody, Math.min(4 * mib, whole / 4))
/** The same of one token of the project. What is being sent cannot be taken back for a colleague who comes later. */
export const tokenShare = share / 2
/** Bytes of answers at once. Nobody who does not read fills it alone. */
const wholeOfAnswers = Math.max(4 * share, whole)

/** Counts the answer to one message; false if it does not fit. `isKept`: it cannot be dropped, so it fits anyway. */
export type CountAnswer = (bytes: number, isKept: boolean) => Effect.Effect<boolean>

/** A project, and the token of it that stands behind a request. */
export interface Owner {
  readonly project_id: string
  readonly subject: string
}

type Answered<E, R> = Held<HttpServerResponse.HttpServerResponse, E, R>
type Held<A, E, R> = Effect.Effect<A, E | SharedRefusal<"rate_limited">, R>

export class MemoryBudget extends Context.Service<
  MemoryBudget,
  {
    /** Runs `work`, which reads the body of the request, once the body fits. */
    readonly body: <A, E, R>(
      owner: Owner,
      request: HttpServerRequest.HttpServerRequest,
      work: Effect.Effect<A, E, R>
    ) => Held<A, E, R>
    /**
     * Runs `work`, which answers so many messages at once, once their answers fit and the token has read enough of its
     * earlier ones. Refuses the answer if it does not fit with what `work` has not counted. It counts until it was sent, or
     * its connection closed.
     */
    readonly answers: <E, R>(
      owner: Owner,
      messages: number,
      request: HttpServerRequest.HttpServerRequest,
      work: (count: CountAnswer) => Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
    ) => Answered<E, R>
    /** The same for one answer whose size is known once `work` has ended. */
    readonly answer: <E, R>(
      owner: Owner,
      request: HttpServerRequest.HttpServerRequest,
      work: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>
    ) => Answered<E, R>
  }
>()("service/edge/MemoryBudget") {
  static readonly layer = Layer.sync(MemoryBudget, () => {
    const bodies = budget(whole, share, tokenShare)
    const unsent = budget(wholeOfAnswers, share, tokenShare)

    const answers = <E, R>(
      owner: Owner,
      messages: number,
      request: HttpServerRequest.HttpServerRequest,
      work: (count: CountAnswer) => Answered<E, R>
    ): Answered<E, R> =>
      Effect.suspend(() => {
        const held = unsent.open(owner, messages)
        return held.admit(messages <= 1 ? 0 : Math.min(tokenShare, messages * answerBytes)).pipe(
          Effect.flatMap((isAdmitted): Answered<E, R> => (isAdmitted ? work(held.count) : refuse("rate_limited", 1))),
          Effect.tap((response) =>
            Effect.flatMap(held.countRest(lengthOf(response)), (fits) =>
              fits ? Effect.void : refuse("rate_limited", 1)
            )
          ),
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
      answer: (owner, request, work) => answers(owner, 1, request, () => work)
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
  readonly project: string
  readonly token: string
  readonly bytes: number
  granted: boolean
  resume?: () => void
}

const claimOf = ({ project_id, subject }: Owner, bytes: number): Claim => ({
  project: project_id,
  token: `${project_id} ${subject}`,
  bytes,
  granted: false
})

/** `share` and `tokenShare`: the bytes of one project and of one token at most. */
export const budget = (whole: number, share: number, tokenShare: number) => {
  const ofProjects = new Map<string, number>()
  const ofTokens = new Map<string, number>()
  const waiting = new Set<Claim>()
  let held = 0

  /** What a token holds beyond its share does not count for the project: its colleagues would miss it. */
  const add = ({ project, token }: Claim, bytes: number) => {
    const before = ofTokens.get(token) ?? 0
    held += bytes
    change(ofTokens, token, bytes)
    change(ofProjects, project, Math.min(before + bytes, tokenShare) - Math.min(before, tokenShare))
  }
  const grant = (claim: Claim) => {
    add(claim, claim.bytes)
    claim.granted = true
  }
  /**
   * A claim of no bytes waits only while its token holds more than its share. One that is larger than that share fits if
   * the token holds nothing.
   */
  const fits = ({ bytes, project, token }: Claim) => {
    const own = ofTokens.get(token) ?? 0
    if (bytes === 0) return own <= tokenShare
    const mine = ofProjects.get(project) ?? 0
    const hasRoom = own === 0 || own + bytes <= tokenShare
    return hasRoom && mine + Math.min(bytes, tokenShare) <= share && held + bytes <= whole
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
    add(claim, -claim.bytes)
    // In the order of their arrival, skipping those whose share is taken.
    for (const next of waiting) {
      if (!fits(next)) continue
      grant(next)
      waiting.delete(next)
      next.resume?.()
    }
  }

  /** Runs `work` once so many bytes fit, and holds them until it ends. */
  const hold = <A, E, R>(owner: Owner, bytes: number, work: Effect.Effect<A, E, R>): Held<A, E, R> =>
    Effect.suspend(() => {
      const claim = claimOf(owner, bytes)
      return admitted(claim).pipe(
        Effect.flatMap((isAdmitted): Held<A, E, R> => (isAdmitted ? work : refuse("rate_limited", 1))),
        Effect.ensuring(Effect.sync(() => release(claim)))
      )
    })

  /** What one request holds, which answers so many messages. It grows with its answers and is given back as a whole. */
  const open = (owner: Owner, messages: number) => {
    let claims: ReadonlyArray<Claim> = []
    /** Bytes claimed, and bytes of the answers so far. */
    let room = 0
    let used = 0
    let keepsAny = false

    const claimed = (bytes: number) => {
      const claim = claimOf(owner, bytes)
      claims = [...claims, claim]
      room += bytes
      return claim
    }
    const admit = (bytes: number) => admitted(claimed(bytes))
    /** An answer that stands alone is admitted into an empty share, however large it is. */
    const grow = (bytes: number, isKept: boolean, isAlone: boolean) => {
      const needed = isAlone && !isKept ? Math.min(bytes, tokenShare) : used + bytes
      if (needed <= Math.max(room, small)) {
        used += bytes
        return Effect.succeed(true)
      }
      if (isKept) {
        used += bytes
        grant(claimed(used - room))
        return Effect.succeed(true)
      }
      if (needed > tokenShare) return Effect.succeed(false)
      const more = needed - room
      used += bytes
      return Effect.tap(admit(more), (isAdmitted) =>
        Effect.sync(() => {
          if (isAdmitted) return
          room -= more
          used -= bytes
        })
      )
    }
    const count: CountAnswer = (bytes, isKept) =>
      Effect.suspend(() => {
        keepsAny ||= isKept
        return grow(bytes, isKept, used === 0)
      })
    /** Counts what the finished answer has besides the answers so far; false if that does not fit. */
    const countRest = (bytes: number) => {
      const rest = bytes - used
      if (rest <= messages * envelopeBytes) return Effect.succeed(true)
      return grow(rest, keepsAny, used === 0 && messages <= 1)
    }
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
    return { admit, count, countRest, settle, close }
  }

  return { hold, open }
}

const change = (bytesOf: Map<string, number>, key: string, bytes: number) => {
  const left = (bytesOf.get(key) ?? 0) + bytes
  if (left === 0) bytesOf.delete(key)
  else bytesOf.set(key, left)
}
