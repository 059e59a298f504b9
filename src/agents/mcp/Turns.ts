/**
 * The turns of each project: how many of its tool calls run at once in this process.
 *
 * A project whose calls have taken much time lately gets one turn at a time until it has rested. Its turns are what stands
 * between it and the database's processors: eight expensive calls at once would slow down every other project.
 */
import { Clock, Effect, Option, Semaphore } from "effect"

/** Milliseconds of calls that a project may take before it gets one turn at a time. */
const freeTime = 4_000
/** How much of that comes back in each millisecond. */
const recovery = 0.25

/** Projects without calls are forgotten when this many are known. */
const maxProjects = 10_000

export interface Maxima {
  readonly calls: number
  readonly searches: number
}

export interface Project {
  readonly calls: Semaphore.Semaphore
  readonly searches: Semaphore.Semaphore
  /** Calls that run or wait. */
  present: number
  /** Milliseconds that calls have taken, less what had come back at `at`. */
  spent: number
  at: number
}

/** With `unlimited` time, the maxima always hold. */
export const make = (unlimited: boolean) => {
  const projects = new Map<string, Project>()

  const find = (project_id: string, now: number): Project => {
    const known = projects.get(project_id)
    if (known !== undefined) return known
    if (projects.size >= maxProjects) {
      for (const [id, { present }] of projects) if (present === 0) projects.delete(id)
    }
    const calls = Semaphore.makeUnsafe(1)
    const made: Project = { calls, searches: Semaphore.makeUnsafe(1), present: 0, spent: 0, at: now }
    projects.set(project_id, made)
    return made
  }

  /** Adds milliseconds to what the project has spent, and sets how many turns it has now. */
  const spend = (project: Project, { calls, searches }: Maxima, milliseconds: number, now: number) => {
    project.spent = Math.max(0, project.spent - (now - project.at) * recovery) + milliseconds
    project.at = now
    const most = unlimited || project.spent <= freeTime ? Infinity : 1
    return Effect.andThen(
      project.calls.resize(Math.min(calls, most)),
      project.searches.resize(Math.min(searches, most))
    )
  }

  /** Runs `call` while the project is known to have a call. */
  const visit = <A, E, R>(project_id: string, maxima: Maxima, call: (project: Project) => Effect.Effect<A, E, R>) =>
    Effect.acquireUseRelease(
      Effect.map(Clock.currentTimeMillis, (now) => {
        const project = find(project_id, now)
        project.present += 1
        return project
      }),
      (project) =>
        Effect.flatMap(Clock.currentTimeMillis, (now) => Effect.andThen(spend(project, maxima, 0, now), call(project))),
      (project) => Effect.sync(() => (project.present -= 1))
    )

  /** Runs `call` and adds its time to what the project has spent. */
  const timed = <A, E, R>(project: Project, maxima: Maxima, call: Effect.Effect<A, E, R>) =>
    Effect.acquireUseRelease(
      Clock.currentTimeMillis,
      () => call,
      (since) => Effect.flatMap(Clock.currentTimeMillis, (now) => spend(project, maxima, now - since, now))
    )

  return { visit, timed }
}

/** Runs `call` between `take` and `release`, or fails if it is not its turn by the time `until` (milliseconds). */
export const inTurn =
  <E2>(take: Effect.Effect<unknown>, release: Effect.Effect<unknown>, until: number, refusal: E2) =>
  <A, E, R>(call: Effect.Effect<A, E, R>) =>
    Effect.acquireUseRelease(
      Effect.interruptible(
        Effect.flatMap(Clock.currentTimeMillis, (now) => Effect.timeoutOption(take, Math.max(0, until - now)))
      ),
      (taken): Effect.Effect<A, E | E2, R> => (Option.isSome(taken) ? call : Effect.fail(refusal)),
      (taken) => (Option.isSome(taken) ? release : Effect.void)
    )
