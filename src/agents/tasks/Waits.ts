/**
 * Agents that wait until a task changes (decisions.md, The loop of a decision).
 *
 * 1. A waiter is an entry of a list. It holds neither a connection nor a turn of its project.
 * 2. Once a second one statement finds which of the tasks have changed, for all waiters of this process together.
 * 3. It ends when its task has changed, its time is up, or the process stops; in a full project also when a token with
 *    fewer waiters needs its place.
 */
import { Context, Deferred, Duration, Effect, Latch, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { persistence } from "../../platform/database/Persistence.ts"
import { Draining } from "../../platform/edge/Draining.ts"
import { partOf, Settings } from "../../platform/settings/Settings.ts"
import type { Actor } from "../../wire/Actor.ts"
import { limitInUse } from "../continuity/Budget.ts"
import { type ContinuityRefusal, refuse, type Unavailable } from "../continuity/Errors.ts"
import type { TaskWait, TaskWaited } from "./Shapes.ts"
import * as Store from "./TaskStore.ts"

/** How many callers of one project wait at once, at all processes of this machine. */
const mostWaiters = 64
const interval = Duration.seconds(1)

/** Runs an operation in a turn of its project. */
export type Turn = <A, E, R>(
  read: Effect.Effect<A, E, R>
) => Effect.Effect<A, E | ContinuityRefusal<"limit_exceeded">, R>

interface Waiter {
  readonly project_id: string
  /** The id of the project token behind the caller. */
  readonly subject: string
  readonly id: string
  readonly version: number
  /** Its task has changed, or it gives way to another caller. */
  readonly over: Deferred.Deferred<void>
}

/**
 * Who gives way in a project that has as many waiters as it may: the one of the token with the most that waits longest.
 * Nobody, if `subject` has as many itself.
 */
export const givesWay = <W extends Pick<Waiter, "subject">>(present: Iterable<W>, subject: string): W | undefined => {
  const bySubject = new Map<string, Array<W>>()
  for (const waiter of present) {
    const others = bySubject.get(waiter.subject)
    if (others === undefined) bySubject.set(waiter.subject, [waiter])
    else others.push(waiter)
  }
  const own = bySubject.get(subject)?.length ?? 0
  const [most] = [...bySubject.values()].toSorted((a, b) => b.length - a.length)
  return most !== undefined && most.length > own ? most[0] : undefined
}

export class Waits extends Context.Service<
  Waits,
  {
    /** The first read takes a turn. The one after the wait does not: whoever has waited is not refused. */
    readonly wait: (
      actor: Pick<Actor, "project_id" | "subject">,
      input: TaskWait,
      turn: Turn
    ) => Effect.Effect<TaskWaited, Unavailable | ContinuityRefusal<"task_not_found" | "limit_exceeded">>
  }
>()("service/tasks/Waits") {
  static readonly layer = Layer.effect(
    Waits,
    Effect.gen(function* () {
      const store = Store.make(yield* SqlClient.SqlClient)
      const draining = yield* Draining
      const most = partOf(mostWaiters, (yield* Settings).processes)
      const waiters = new Set<Waiter>()
      const byProject = new Map<string, Set<Waiter>>()
      /** Open while somebody waits. */
      const present = yield* Latch.make()

      const poll = Effect.gen(function* () {
        const known = [...waiters]
        const newer = yield* store.newer(known.map(({ id, project_id, version }) => [project_id, id, version]))
        yield* Effect.forEach(newer, ({ place }) => Deferred.succeed(known[place - 1]!.over, undefined))
      }).pipe(persistence, Effect.ignore)

      yield* present.await.pipe(
        Effect.andThen(Effect.sleep(interval)),
        Effect.andThen(Effect.suspend(() => (waiters.size === 0 ? Effect.void : poll))),
        Effect.forever,
        Effect.forkScoped
      )

      const enter = (waiter: Waiter) =>
        Effect.suspend(() => {
          const { project_id, subject } = waiter
          const others = byProject.get(project_id) ?? new Set()
          if (others.size >= most) {
            const other = givesWay(others, subject)
            if (other === undefined) return limitInUse("waiters", most, 1)
            Deferred.doneUnsafe(other.over, Effect.void)
            others.delete(other)
          }
          byProject.set(project_id, others.add(waiter))
          waiters.add(waiter)
          return present.open
        })
      const leave = (waiter: Waiter) =>
        Effect.suspend(() => {
          const { project_id } = waiter
          waiters.delete(waiter)
          const others = byProject.get(project_id)
          others?.delete(waiter)
          if (others?.size === 0) byProject.delete(project_id)
          return waiters.size === 0 ? present.close : Effect.void
        })

      const read = Effect.fn("Waits.read")(function* (project_id: string, { id, version }: TaskWait) {
        const found = yield* store.find(project_id, id)
        if (Option.isNone(found)) return yield* refuse("task_not_found")
        return { task: found.value, changed: found.value.version > version }
      }, persistence)

      const wait = Effect.fn("Waits.wait")(function* (
        { project_id, subject }: Pick<Actor, "project_id" | "subject">,
        input: TaskWait,
        turn: Turn
      ) {
        const before = yield* turn(read(project_id, input))
        if (before.changed) return before
        const { id, timeout_seconds = 20, version } = input
        const waiter = { project_id, subject, id, version, over: yield* Deferred.make<void>() }
        yield* Effect.acquireUseRelease(
          enter(waiter),
          () =>
            Effect.raceFirst(Deferred.await(waiter.over), draining.began).pipe(
              Effect.timeoutOption(Duration.seconds(timeout_seconds))
            ),
          () => leave(waiter)
        )
        return yield* read(project_id, input)
      })

      return { wait }
    })
  )
}
