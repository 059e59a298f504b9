/**
 * Lookups and changes that share a statement (decisions.md, Lookups that share a statement, Changes that share a statement).
 *
 * 1. A lookup that finds no statement under way runs one of its own.
 * 2. Lookups that arrive meanwhile wait. The next statement answers them together, 64 at most.
 * 3. While a statement takes longer than 50 ms, a second one may run. After a second a statement no longer counts.
 * 4. If a shared statement fails or takes a second, each of its lookups runs a statement of its own. One that writes is not
 *    given up: its commit may only be slow. If it cannot be repeated, because nobody knows whether it was committed, its
 *    failure is that of each of its lookups.
 *
 * Nothing is kept: a statement answers only lookups that began before it was sent, so a revocation takes effect with the
 * next lookup.
 */
import { Clock, Context, Effect, Exit, type Option } from "effect"
import { Settings } from "../settings/Settings.ts"
import type { Locking } from "../sql/Asked.ts"
import { among, inTurn } from "./Shares.ts"

/** How many lookups, or changes, a statement answers. */
const most = 64
/** Nanoseconds. */
const slow = 50_000_000n
const tooLong = 1_000_000_000n
/** PostgreSQL cancels a statement before that, so its connection has gone silent. */
const lost = "10 seconds"
/** Milliseconds. How often the statements under way are checked once a lookup has waited. */
const interval = 50

interface UnderWay {
  readonly since: bigint
  /** Lets its lookups go on without it. */
  readonly giveUp: () => void
}

interface Waiting<In, Out, E> {
  readonly input: In
  /** Its own, if it does not share one. */
  statement: UnderWay | undefined
  resume: (next: Effect.Effect<Out, E>) => void
}

interface Statements<In, Out, E> {
  readonly one: (input: In) => Effect.Effect<Out, E>
  /** Answers in the order of `inputs`. */
  readonly each: (inputs: ReadonlyArray<In>) => Effect.Effect<ReadonlyArray<Out>, E>
}

interface Options {
  /** Which places (Shares.ts) are taken. */
  readonly place?: "lookup" | "change"
  readonly writes?: boolean
  /** Whether each may run alone after a shared statement failed. */
  readonly repeatable?: boolean
}

export const together = <In, Out, E>(
  { each, one }: Statements<In, Out, E>,
  { place = "lookup", repeatable = true, writes = false }: Options = {}
) =>
  Effect.map(Effect.context<Settings>(), (context) => {
    const alone = (input: In) => inTurn(one(input))
    if (!Context.get(context, Settings).database.sharedLookups) return alone

    const clock = Context.get(context, Clock.Clock)
    const fork = Effect.runForkWith(context)
    const waiting = new Set<Waiting<In, Out, E>>()
    const underWay = new Set<UnderWay>()
    let timer: NodeJS.Timeout | undefined

    const begin = (giveUp = () => {}): UnderWay => {
      const statement = { since: clock.monotonicTimeNanosUnsafe(), giveUp }
      underWay.add(statement)
      return statement
    }
    const took = ({ since }: UnderWay) => clock.monotonicTimeNanosUnsafe() - since
    const mayBegin = () => {
      const [first, second] = underWay
      return second === undefined && (first === undefined || took(first) >= slow)
    }

    const sendNext = () => {
      if (waiting.size === 0 || !mayBegin()) return
      const next = [...waiting].slice(0, most)
      for (const each of next) waiting.delete(each)
      if (next.length > 1) return share(next)
      const only = next[0]!
      only.statement = begin()
      only.resume(one(only.input))
    }

    const share = (sharing: ReadonlyArray<Waiting<In, Out, E>>) => {
      const settle = (exit?: Exit.Exit<ReadonlyArray<Out>, E>) => {
        underWay.delete(statement)
        sendNext()
        sharing.forEach(({ input, resume }, index) => {
          if (exit !== undefined && Exit.isSuccess(exit)) return resume(Effect.succeed(exit.value[index]!))
          resume(repeatable || exit === undefined ? alone(input) : Effect.failCause(exit.cause))
        })
      }
      const giveUp = () => {
        settle()
        fiber.interruptUnsafe()
      }
      // Whoever waits for one that writes waits until its own time is over. By then nobody waits for the statement, which
      // would keep its connection, and the shutdown, until TCP gives up.
      const statement = begin(writes ? undefined : giveUp)
      const work = each(sharing.map(({ input }) => input))
      const fiber = fork(writes ? Effect.timeoutOrElse(work, { duration: lost, orElse: () => Effect.interrupt }) : work)
      fiber.addObserver(settle)
    }

    /** Sends what waits when a statement has become slow, and gives up those that take too long. */
    const check = () => {
      for (const statement of underWay) {
        if (took(statement) < tooLong) continue
        statement.giveUp()
        underWay.delete(statement)
      }
      sendNext()
      if (underWay.size > 0) return
      clearInterval(timer)
      timer = undefined
    }

    const wait = (lookup: Waiting<In, Out, E>) =>
      Effect.callback<Out, E>((resume) => {
        lookup.resume = resume
        waiting.add(lookup)
        sendNext()
        timer ??= setInterval(check, interval).unref()
      })

    const leave = (lookup: Waiting<In, Out, E>) => {
      waiting.delete(lookup)
      if (lookup.statement !== undefined && underWay.delete(lookup.statement)) sendNext()
    }

    return (input: In): Effect.Effect<Out, E> =>
      among(place)(
        Effect.suspend(() => {
          const lookup: Waiting<In, Out, E> = { input, statement: undefined, resume: () => {} }
          const run = Effect.suspend(() => {
            if (waiting.size > 0 || !mayBegin()) return wait(lookup)
            lookup.statement = begin()
            return one(input)
          })
          return Effect.ensuring(
            run,
            Effect.sync(() => leave(lookup))
          )
        })
      )
  })

/**
 * Changes of different identities that share a statement (decisions.md, Changes that share a statement). `act` changes what it
 * can without waiting for a lock, and passes over the rest. What it returns is for one request, whose first attempt shares a
 * statement: if it had no result, the next ones run alone and wait.
 */
export const changes = <In, Out, E>(
  act: (all: ReadonlyArray<In>, locking: Locking) => Effect.Effect<ReadonlyArray<Option.Option<Out>>, E>,
  options: Pick<Options, "repeatable"> = {}
) => {
  const alone = (locking: Locking) => (input: In) => Effect.map(act([input], locking), ([result]) => result!)
  const statements = { one: alone("skip locked"), each: (all: ReadonlyArray<In>) => act(all, "skip locked") }
  return Effect.map(together(statements, { ...options, place: "change", writes: true }), (shared) => () => {
    let attempts = 0
    return (input: In) => Effect.suspend(() => (attempts++ === 0 ? shared(input) : inTurn(alone("")(input))))
  })
}
