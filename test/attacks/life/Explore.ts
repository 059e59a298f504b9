/** Explores every state of a Bridge's life, breadth first, and checks each one. */
import {
  type Bounds,
  type Bug,
  type Goal,
  handle,
  hasBegun,
  intrusions,
  isUnderWay,
  newborn,
  next,
  type Process,
  received,
  reissued,
  type Request,
  type Step,
  steps,
  thefts,
  type World
} from "./Life.ts"

/** What is wrong with a step; undefined for a safe one. */
const unsafe = (before: World, { name, to }: Step, bug?: Bug): string | undefined => {
  const { journal, service } = to
  if (service.tokens.filter((state) => state === "a").length > 1) return "two active tokens"
  if (before.service.tokens.some((state, at) => (state === "r" || state === "x") && "ap".includes(service.tokens[at]!)))
    return "an ended token works again"
  if (service.identity === "revoked" && service.tokens.some((state) => state === "a" || state === "p"))
    return "a token of a revoked Bridge works"
  if (service.rotations.some(({ state }) => state === "p") && service.keyRotations.some(({ state }) => state === "p"))
    return "token and key are replaced at once"
  if (service.identity === "active" && service.key !== journal.key && service.key !== journal.next?.key)
    return `the service knows a key that the folder does not hold, after ${name}`
  if (service.strayed) return "the Bridge belongs to another project"
  const changes = (request: Request) => handle(service, request, bug)[0] !== service
  if (service !== before.service && thefts(to).some(changes)) return "a thief without the key changes something"
  if (service !== before.service && intrusions(to).some(changes)) return "a Bridge of another project changes something"
  return undefined
}

/** Runs one command alone, on a network that loses nothing; how it ended. */
const runs = (from: World, goal: Goal, bug?: Bug): { readonly world: World; readonly code: string } => {
  let world: World = { ...from, processes: [null, null] }
  const begun = isUnderWay(goal, world.journal)
  let process: Process = { goal, memory: world.journal, waiting: null, todo: null, begun }
  for (let turn = 0; turn < 40; turn++) {
    let action = next(process, world, bug)
    while ("send" in action) {
      const [service, answer] = handle(world.service, action.send, bug)
      world = { ...world, service }
      action = received(process, action.send, answer, bug)
    }
    if ("ends" in action) return { world, code: action.ends }
    const made = action.makes === undefined ? 0 : 1
    world = { ...world, journal: action.write, ids: world.ids + made, keys: world.keys + made }
    process = { ...process, memory: action.write, begun: hasBegun(process, action.write) || action.begins === true }
  }
  return { world, code: "it goes on for ever" }
}

const passWindow = (world: World): World =>
  steps({ ...world, processes: [null, null] }, { ids: 0, keys: 0, credentials: 0, processes: 0 }).find(
    ({ seen }) => seen === "window"
  )?.to ?? world

const isHome = ({ journal, service }: World) =>
  service.identity === "active" &&
  journal.token !== null &&
  service.tokens[journal.token] === "a" &&
  journal.key === service.key &&
  journal.next === null &&
  journal.rotation === null

/**
 * What a Bridge does by itself after a crash: it finishes its enrollment, then rotates. "home", or the last code. `helped`:
 * somebody has given it the newest credential.
 */
const outcomeOf = (from: World, bug?: Bug, helped = false): string => {
  let world = from
  let code = ""
  for (let turn = 0; turn < 3; turn++) {
    const { enrollment, token } = world.journal
    if (enrollment?.done !== true || (helped && turn === 0)) {
      const enrolled = runs(world, "enroll", bug)
      world = enrolled.world
      code = enrolled.code
      if (token === null && code !== "ok") return code
    }
    const rotated = runs(world, "rotate", bug)
    world = rotated.world
    code = rotated.code
    if (code === "ok" && isHome(world)) return "home"
    world = passWindow(world)
  }
  return code
}

/** The Bridge holds the key that the service knows, and a token works that it holds or can ask for again. */
const hasKeyAndToken = ({ journal, service }: World) => {
  const mayEnroll = !service.credentials.at(-1)!.foreign
  const hasToken = service.tokens.includes("a") && (journal.token !== null || mayEnroll)
  return service.identity === "active" && hasToken && [journal.key, journal.next?.key].includes(service.key)
}

/** How a state is, in the words of docs/proof.md. */
export const phaseOf = ({ journal, service }: World): string => {
  if (service.identity === "revoked") return "revoked"
  if (service.identity === "none") return "new"
  if (!service.tokens.includes("a")) return "without a token"
  if (service.keyRotations.some(({ state }) => state === "p")) return "replacing its key"
  if (service.rotations.some(({ state }) => state === "p")) return "replacing its token"
  return journal.token !== null && service.tokens[journal.token] === "a" && journal.key === service.key
    ? "at work"
    : "answer missed"
}

/** One text for each state. A process that has the lock remembers what the journal holds. */
const textOf = ({ ids, journal, keys, processes, service, stray }: World) =>
  JSON.stringify([
    journal,
    processes.map(
      (one) => one && [one.goal, one.begun, one.waiting, one.todo, one.memory === journal ? 0 : one.memory]
    ),
    stray,
    Object.values(service),
    ids,
    keys
  ])

/** The changes of phase as lines of the state chart in docs/proof.md. */
export const chartOf = ({ changes }: Explored): ReadonlyArray<string> => {
  const byWay = Map.groupBy(
    [...changes].map((change) =>
      /^(.*) -> (.*): ?(.*)$/.exec(change.replace(/(: answer lost|: ok| arrives late)$/, ""))!
    ),
    ([, from, to]) => `${from}|${to}`
  )
  return [...byWay]
    .map(([way, found]) => {
      const [from, to] = way.split("|").map((phase) => phase.replaceAll(" ", "_"))
      const names = [...new Set(found.map(([, , , name]) => name))].toSorted()
      return `${from} --> ${to}: ${names.join(", ")}`
    })
    .toSorted()
}

export interface Explored {
  readonly states: number
  readonly steps: number
  /** The first violation with the steps that lead to it. */
  readonly violation: { readonly what: string; readonly trace: ReadonlyArray<string> } | undefined
  /** Where the Bridge does not get home by itself: the last code, and how many states. */
  readonly stranded: ReadonlyMap<string, number>
  /** Changes of phase, as `from -> to: step`. */
  readonly changes: ReadonlySet<string>
}

export const explore = (bounds: Bounds, bug?: Bug): Explored => {
  const known = new Map<string, number>()
  const worlds: Array<World> = []
  const parents: Array<readonly [from: number, name: string]> = []
  const stranded = new Map<string, number>()
  const changes = new Set<string>()
  let taken = 0
  const add = (world: World, from: number, name: string) => {
    const [one, other] = world.processes
    // Two processes that change places are the same state.
    const ordered = one === null && other !== null ? { ...world, processes: [other!, null] } : world
    const text = textOf(ordered)
    if (known.has(text)) return
    known.set(text, worlds.length)
    worlds.push(ordered)
    parents.push([from, name])
  }
  /** What follows from journal and service alone, whatever is under way. */
  const outcomes = new Map<string, readonly [alone: string, helped: string]>()
  const outcomesOf = (world: World) => {
    const { ids, journal, keys, service } = world
    const text = JSON.stringify([journal, service, ids, keys])
    const found = outcomes.get(text)
    if (found !== undefined) return found
    const alone = outcomeOf(world, bug)
    const helped = alone === "home" ? alone : outcomeOf({ ...world, service: reissued(service) }, bug, true)
    outcomes.set(text, [alone, helped])
    return [alone, helped] as const
  }
  const traceTo = (at: number): ReadonlyArray<string> => (at <= 0 ? [] : [...traceTo(parents[at]![0]), parents[at]![1]])
  const ended = (what: string, trace: ReadonlyArray<string>): Explored => ({
    states: worlds.length,
    steps: taken,
    violation: { what, trace },
    stranded,
    changes
  })

  add(newborn, -1, "")
  for (let at = 0; at < worlds.length; at++) {
    const world = worlds[at]!
    const [outcome, helped] = outcomesOf(world)
    if (outcome !== "home") {
      if (hasKeyAndToken(world)) return ended(`the Bridge does not get home: ${outcome}`, traceTo(at))
      stranded.set(outcome, (stranded.get(outcome) ?? 0) + 1)
      // The operator issues a credential; a revoked Bridge needs another bridge_id.
      if (helped !== "home" && world.service.identity !== "revoked")
        return ended(`a credential does not bring the Bridge home: ${helped}`, traceTo(at))
    }
    for (const step of steps(world, bounds, bug)) {
      taken++
      const what = unsafe(world, step, bug)
      if (what !== undefined) return ended(what, [...traceTo(at), step.name])
      const [from, to] = [phaseOf(world), phaseOf(step.to)]
      if (from !== to) changes.add(`${from} -> ${to}: ${step.name}`)
      add(step.to, at, step.name)
    }
  }
  return { states: worlds.length, steps: taken, violation: undefined, stranded, changes }
}
