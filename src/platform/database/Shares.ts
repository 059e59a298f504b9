/**
 * Shares the connections between callers, so that nobody's requests keep everybody else's from the database
 * (decisions.md, Shares of the connections).
 *
 * 1. Callers that this process does not know have a quarter of the connections, known ones the rest.
 * 2. One owner (an unknown caller's network; a known caller's project or credential) has at most half of these at once.
 * 3. Owners that wait take turns, so that an owner's own queue is the only one that it makes longer.
 *
 * An operation holds one connection at a time, so it takes its turn once (Persistence.ts). Commands and the work in the
 * background take no turns: there is one of each. Lookups that share statements (Together.ts) share their places in the
 * same way, and so do changes.
 */
import { Context, Effect, Layer } from "effect"
import { Settings } from "../settings/Settings.ts"

/** Runs an operation once its owner has a turn. */
export type Turn = <A, E, R>(operation: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

/** Where an owner takes its turns. */
export interface Share {
  readonly connection: Turn
  readonly lookup: Turn
  readonly change: Turn
}

const withoutTurn: Turn = (operation) => operation
const withoutTurns: Share = { connection: withoutTurn, lookup: withoutTurn, change: withoutTurn }

/** The share of the current request. */
export const CurrentShare = Context.Reference<Share>("service/database/CurrentShare", {
  defaultValue: () => withoutTurns
})

/** Takes a turn for the operation and everything in it. */
export const inTurn = <A, E, R>(operation: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.flatMap(CurrentShare, (share) =>
    share.connection(Effect.provideService(operation, CurrentShare, withoutTurns))
  )

/** Takes a place among the lookups, or among the changes, that share statements. */
export const among =
  (kind: "lookup" | "change") =>
  <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.flatMap(CurrentShare, (share) => share[kind](self))

export class Shares extends Context.Service<
  Shares,
  {
    /** The share of a client network, for callers whose credential this process has not accepted yet. */
    readonly unknown: (network: string) => Share
    /** The share of an accepted credential or its project. */
    readonly known: (owner: string) => Share
  }
>()("service/database/Shares") {
  static readonly layer = Layer.effect(
    Shares,
    Effect.map(Settings, ({ database: { poolSize } }) => {
      const connections = divided(poolSize)
      const lookups = divided(places)
      const changes = divided(places)
      const shareOf = (kind: "unknown" | "known") => (owner: string) => ({
        connection: connections[kind](owner),
        lookup: lookups[kind](owner),
        change: changes[kind](owner)
      })
      return { unknown: shareOf("unknown"), known: shareOf("known") }
    })
  )
}

/** Lookups, or changes, that run or wait for the next shared statement: as many as two statements hold. */
const places = 128

const divided = (all: number) => {
  const forUnknown = Math.max(1, all >> 2)
  const forKnown = Math.max(1, all - forUnknown)
  return { unknown: turns(forUnknown, half(forUnknown)), known: turns(forKnown, half(forKnown)) }
}

const half = (turns: number) => Math.ceil(turns / 2)

interface Owner {
  readonly name: string
  running: number
  /** In the order of their arrival. */
  readonly waiting: Set<() => void>
}

/** So many turns for all, of which one owner has at most `most`. */
export const turns = (all: number, most: number) => {
  const owners = new Map<string, Owner>()
  /** Those that wait and may run one more. The first one gets the next turn, and goes to the end. */
  const next = new Set<Owner>()
  let free = all

  const start = (owner: Owner) => {
    free--
    owner.running++
  }
  const queue = (owner: Owner) => {
    if (owner.waiting.size > 0 && owner.running < most) next.add(owner)
    else next.delete(owner)
    if (owner.waiting.size === 0 && owner.running === 0) owners.delete(owner.name)
  }
  const end = (owner: Owner) => {
    free++
    owner.running--
    queue(owner)
    const [first] = next
    if (first === undefined) return
    const [resume] = first.waiting
    first.waiting.delete(resume!)
    next.delete(first)
    start(first)
    queue(first)
    resume!()
  }

  return (name: string): Turn =>
    (operation) =>
      Effect.suspend(() => {
        let owner = owners.get(name)
        if (owner === undefined) owners.set(name, (owner = { name, running: 0, waiting: new Set() }))
        const mine = owner
        if (free > 0 && mine.running < most) {
          start(mine)
          return Effect.ensuring(
            operation,
            Effect.sync(() => end(mine))
          )
        }
        let started = false
        let resume = () => {}
        const turn = Effect.callback<void>((done) => {
          resume = () => {
            started = true
            done(Effect.void)
          }
          // A turn may have become free since the first look.
          if (free > 0 && mine.running < most) {
            start(mine)
            return resume()
          }
          mine.waiting.add(resume)
          queue(mine)
        })
        // An interruption can arrive between the start of the turn and the operation.
        const leave = Effect.sync(() => {
          if (started) return end(mine)
          mine.waiting.delete(resume)
          queue(mine)
        })
        return Effect.ensuring(Effect.andThen(turn, operation), leave)
      })
}
