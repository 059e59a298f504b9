/**
 * The turns of each project: how many of its tool calls run at once in this process.
 *
 * Of the projects whose calls have taken much time lately, the one with the most is slowed down: it gets one turn at a
 * time, and each turn ends only after a rest. Otherwise its calls could occupy the process and the database's processors,
 * and every other project would notice.
 */
import { Clock, Effect, Semaphore } from "effect"
import { inTurn } from "../../platform/edge/inTurn.ts"

/** Milliseconds of calls that a project may take before it can be slowed down. */
const freeTime = 1_000
/** Milliseconds that are remembered at most. */
const mostTime = 30_000
/** How much of them is forgotten in each millisecond. */
const recovery = 0.25
/** How long a project that is slowed down rests, compared with the call before. */
const rest = 2
/** Milliseconds. */
const longestRest = 10_000

/** Projects without calls are forgotten when this many are known. */
const maxProjects = 10_000

export interface Maxima {
  readonly calls: number
  readonly searches: number
}

export interface Project {
  readonly calls: Semaphore.Semaphore
  readonly searches: Semaphore.Semaphore
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

/** Without `measured`, time does not count and no project is slowed down. */
export const make = ({ measured }: { readonly measured: boolean }) => {
  const projects = new Map<string, Project>()
  let heaviest: Project | undefined

  const find = (project_id: string, now: number): Project => {
    const known = projects.get(project_id)
    if (known !== undefined) return known
    if (projects.size >= maxProjects) {
      for (const [id, { present }] of projects) if (present === 0) projects.delete(id)
    }
    const calls = Semaphore.makeUnsafe(1)
    const idle = { present: 0, spent: 0, at: now, running: 0, started: 0, restsUntil: 0 }
    const made: Project = { calls, searches: Semaphore.makeUnsafe(1), ...idle }
    projects.set(project_id, made)
    return made
  }

  const endedOf = ({ at, spent }: Project, now: number) => Math.max(0, spent - (now - at) * recovery)
  const spentBy = (project: Project, now: number) =>
    Math.min(mostTime, endedOf(project, now) + project.running * now - project.started)

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

  const setTurns = ({ calls, searches }: Project, maxima: Maxima, slowed: boolean) =>
    Effect.andThen(calls.resize(slowed ? 1 : maxima.calls), searches.resize(slowed ? 1 : maxima.searches))

  /** Runs `work`, which takes turns of the project. */
  const visit = <A, E, R>(project_id: string, maxima: Maxima, work: (project: Project) => Effect.Effect<A, E, R>) =>
    Effect.acquireUseRelease(
      Effect.map(Clock.currentTimeMillis, (now) => {
        const project = find(project_id, now)
        project.present += 1
        return { project, slowed: spend(project, 0, now) }
      }),
      ({ project, slowed }) => Effect.andThen(setTurns(project, maxima, slowed), work(project)),
      ({ project }) => Effect.sync(() => (project.present -= 1))
    )

  /** Runs calls in their turn, until which they wait at most. */
  const callsOf = (project: Project, maxima: Maxima, until: number) =>
    inTurn(project.calls, until, {
      started: (since) => {
        project.running += 1
        project.started += since
      },
      ended: (since, now) => {
        project.running -= 1
        project.started -= since
        const took = now - since
        const slowed = spend(project, took, now)
        const pause = slowed ? Math.min(rest * took, longestRest) : 0
        if (slowed) project.restsUntil = now + pause
        return Effect.as(setTurns(project, maxima, slowed), pause)
      }
    })

  return { visit, callsOf }
}
