/**
 * The turns of each project: how many of its tool calls run at once in this process.
 *
 * Once a caller is refused although others of its project use more, each project token has half of the turns at most for a
 * minute, so that nobody keeps the colleagues out. Until then one may use them all.
 *
 * Of the projects whose calls have taken much time lately, the one with the most is slowed down: it gets one turn at a
 * time, and each turn ends only after a rest. Otherwise its calls could occupy the process and the database's processors,
 * and every other project would notice.
 */
import { Clock, Effect, Exit, Option, Predicate, Semaphore } from "effect"
import { inTurn } from "../../../platform/edge/limits/inTurn.ts"

/**
 * Milliseconds of calls that a project may take before it can be slowed down: more than a few calls that were in flight
 * while the process or the database stood still for a second.
 */
const freeTime = 3_000
/** Milliseconds that are remembered at most. */
const mostTime = 30_000
/** How much of them is forgotten in each millisecond. */
const recovery = 0.5
/** The same of a project that is slowed down: less than its turns take, so that it stays so while it goes on. */
const slowedRecovery = 0.25
/** How long a project that is slowed down rests, compared with the call before. */
const rest = 2
/** Milliseconds. */
const longestRest = 10_000

/**
 * Milliseconds after a failover in which no time counts: commits wait for the new standby, and connections that lead to the
 * lost server are noticed one by one.
 */
const settling = 10_000

/** Milliseconds for which callers share the limits of their project after one was refused. */
const sharing = 60_000

export interface Maxima {
  readonly calls: number
  readonly searches: number
}

interface Permits {
  readonly calls: Semaphore.Semaphore
  readonly searches: Semaphore.Semaphore
}

const permits = (): Permits => ({ calls: Semaphore.makeUnsafe(1), searches: Semaphore.makeUnsafe(1) })
const resize = ({ calls, searches }: Permits, maxima: Maxima) =>
  Effect.andThen(calls.resize(maxima.calls), searches.resize(maxima.searches))

const oneEach: Maxima = { calls: 1, searches: 1 }
const waitedInVain = (exit: Exit.Exit<unknown, unknown>) =>
  Option.exists(Exit.findErrorOption(exit), Predicate.isTagged("bridge_persistence_error"))

/** At least one. */
export const half = (maximum: number) => Math.max(1, maximum >> 1)

/** The calls of one project token that run, wait or rest. */
interface Caller extends Permits {
  present: number
}

export interface Project extends Permits {
  /** By the id of the project token. */
  readonly callers: Map<string, Caller>
  /** Until when each has half of the project's limits. */
  sharedUntil: number
  /** Calls that run, wait or rest. */
  present: number
  /** Milliseconds that ended calls had taken, less what was forgotten, at the time `at`. */
  spent: number
  at: number
  /** Calls that run, and the sum of the times at which they started: their time counts before they end. */
  running: number
  started: number
  /** Until when the last turn rests; 0 if the project is not slowed down. */
  restsUntil: number
}

/** A call that has come in. */
export interface Visit {
  readonly project: Project
  readonly caller: Caller
  /** Whether the caller has half of the project's limits. */
  readonly isShared: boolean
}

interface Options {
  /** Otherwise time does not count, and no project is slowed down. */
  readonly measured: boolean
  /** How many projects are known, before those without calls are forgotten. */
  readonly most?: number
  /** The database server that answers; undefined until one is found. */
  readonly server?: () => string | undefined
}

export const make = ({ measured, most = 10_000, server = () => undefined }: Options) => {
  const projects = new Map<string, Project>()
  let heaviest: Project | undefined
  /**
   * When the database answered a call last. What a call waits afterwards in vain does not count: it occupied nothing. A call
   * that takes too long while others are answered counts.
   */
  let answeredAt = -Infinity
  /** The server that answered last, and from when on time counts again since it took the place of another one. */
  let answering: string | undefined
  let countsFrom = -Infinity

  const find = (project_id: string, now: number): Project => {
    const known = projects.get(project_id)
    if (known !== undefined) return known
    if (projects.size >= most) {
      for (const [id, { present }] of projects) if (present === 0) projects.delete(id)
    }
    const idle = { present: 0, spent: 0, at: now, running: 0, started: 0, restsUntil: 0 }
    const made: Project = { ...permits(), callers: new Map(), sharedUntil: -Infinity, ...idle }
    projects.set(project_id, made)
    return made
  }

  const endedOf = ({ at, restsUntil, spent }: Project, now: number) =>
    Math.max(0, spent - (now - at) * (restsUntil === 0 ? recovery : slowedRecovery))
  const spentBy = (project: Project, now: number) =>
    Math.min(mostTime, endedOf(project, now) + Math.max(0, project.running * now - project.started))

  /** Lets every project begin again after a failover. */
  const noteServer = (now: number) => {
    const current = server()
    if (current === undefined || current === answering) return
    if (answering !== undefined) {
      countsFrom = now + settling
      for (const project of projects.values()) {
        project.spent = 0
        project.started = project.running * countsFrom
      }
    }
    answering = current
  }
  const countedFrom = (since: number) => Math.max(since, countsFrom)

  /** Adds milliseconds, and returns whether the project is slowed down. */
  const spend = (project: Project, milliseconds: number, now: number): boolean => {
    project.spent = Math.min(mostTime, endedOf(project, now) + milliseconds)
    project.at = now
    const spent = spentBy(project, now)
    if (heaviest === undefined || spent >= spentBy(heaviest, now)) heaviest = project
    const slowed = measured && project === heaviest && spent > freeTime
    if (!slowed) project.restsUntil = 0
    return slowed
  }

  const setTurns = (project: Project, maxima: Maxima, slowed: boolean) => resize(project, slowed ? oneEach : maxima)

  /** From now on the callers of the project share its limits. */
  const share = ({ project }: Visit) =>
    Effect.map(Clock.currentTimeMillis, (now) => {
      project.sharedUntil = now + sharing
    })

  const callerOf = ({ callers }: Project, subject: string): Caller => {
    const known = callers.get(subject)
    if (known !== undefined) return known
    const made = { ...permits(), present: 0 }
    callers.set(subject, made)
    return made
  }

  /** Runs `work`, which takes turns of the project. `subject` is the id of the project token behind the call. */
  const visit = <A, E, R>(
    project_id: string,
    subject: string,
    maxima: Maxima,
    work: (visit: Visit) => Effect.Effect<A, E, R>
  ) =>
    Effect.acquireUseRelease(
      Effect.map(Clock.currentTimeMillis, (now) => {
        const project = find(project_id, now)
        const caller = callerOf(project, subject)
        noteServer(now)
        project.present += 1
        caller.present += 1
        return { project, caller, isShared: now < project.sharedUntil, slowed: spend(project, 0, now) }
      }),
      ({ slowed, ...visit }) => {
        const halves = slowed ? oneEach : { calls: half(maxima.calls), searches: half(maxima.searches) }
        const own = visit.isShared ? halves : maxima
        return resize(visit.caller, own).pipe(
          Effect.andThen(setTurns(visit.project, maxima, slowed)),
          Effect.andThen(work(visit))
        )
      },
      ({ caller, project }) =>
        Effect.sync(() => {
          project.present -= 1
          caller.present -= 1
          if (caller.present === 0) project.callers.delete(subject)
        })
    )

  /** Runs `late` after it has noted that a caller got no turn although others have more calls than it. */
  const noting = <A, E>(visit: Visit, late: Effect.Effect<A, E>) =>
    Effect.suspend(() => {
      const { caller, project } = visit
      return 2 * caller.present < project.present ? Effect.andThen(share(visit), late) : late
    })

  /** Runs searches in their turn, until which they wait at most. */
  const searchesOf =
    (visit: Visit, until: number) =>
    <A, E, R, E2>(search: Effect.Effect<A, E, R>, late: Effect.Effect<A, E2>) =>
      inTurn(visit.caller.searches, until)(inTurn(visit.project.searches, until)(search, noting(visit, late)), late)

  /** Runs calls in their turn, until which they wait at most. */
  const callsOf =
    (visit: Visit, maxima: Maxima, until: number) =>
    <A, E, R, E2>(call: Effect.Effect<A, E, R>, late: Effect.Effect<A, E2>) =>
      inTurn(visit.caller.calls, until)(turnsOf(visit.project, maxima, until)(call, noting(visit, late)), late)

  const turnsOf = (project: Project, maxima: Maxima, until: number) =>
    inTurn(project.calls, until, {
      started: (since) => {
        project.running += 1
        project.started += countedFrom(since)
      },
      ended: (since, now, exit) => {
        noteServer(now)
        project.running -= 1
        project.started -= countedFrom(since)
        if (!waitedInVain(exit)) answeredAt = now
        const counted = Math.max(0, answeredAt - countedFrom(since))
        const slowed = spend(project, counted, now)
        const pause = slowed ? Math.min(rest * counted, longestRest) : 0
        if (slowed) project.restsUntil = now + pause
        return Effect.as(setTurns(project, maxima, slowed), pause)
      }
    })

  /** Runs work that takes no turn. Its time counts all the same. */
  const withoutTurn =
    (project_id: string) =>
    <A, E, R>(work: Effect.Effect<A, E, R>) =>
      Effect.flatMap(Clock.currentTimeMillis, (since) =>
        Effect.ensuring(
          work,
          Effect.map(Clock.currentTimeMillis, (now) =>
            spend(find(project_id, now), Math.max(0, now - countedFrom(since)), now)
          )
        )
      )

  return { visit, share, callsOf, searchesOf, withoutTurn }
}
