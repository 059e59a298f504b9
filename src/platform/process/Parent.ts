/**
 * The parent of several processes (SERVICE_PROCESSES; decisions.md, Several processes). It serves nothing itself:
 *
 * 1. It holds the listening socket and hands each connection to the next worker, so a worker that ends leaves no
 *    connection in a queue of its own.
 * 2. It joins the embedded PostgreSQL first and leaves it last.
 * 3. It restarts a worker that ends, after a growing pause. Until all have served once, a worker that fails ends the
 *    service as a single process would; later only if no worker serves and no restart helps.
 * 4. On SIGHUP it replaces one worker after the other: the next one serves before the previous one sends its clients away.
 * 5. It passes questions between workers, and keeps what ended workers have counted.
 * 6. It closes the connection that was on its way to a worker when that ended: its client would wait for ever.
 *
 * Workers notice its end by their channel to it, and stop as on SIGTERM.
 */
import { Deferred, Duration, Effect, FiberSet, Queue } from "effect"
import cluster, { type Worker } from "node:cluster"
import { embeddedPostgres } from "../database/embedded/EmbeddedPostgres.ts"
import { partOfHeap } from "../settings/Heap.ts"
import { Settings } from "../settings/Settings.ts"
import type { Message, Question } from "../workers/Messages.ts"
import { lasting, type Snapshot, totalsOf } from "../workers/Totals.ts"
import { announceStopping, logReady } from "./Banner.ts"
import { isLasting, WorkerFailed } from "./Exit.ts"
import { onHangUp } from "./Signals.ts"

/** Milliseconds. */
const pauses = { shortest: 100, longest: 30_000, forgottenAfter: 60_000 }
/** The pause before a restart, twice the one before; after a minute of life a worker begins again with the shortest. */
export const pauseAfter = (lived: number, before: number) =>
  lived > pauses.forgottenAfter ? pauses.shortest : Math.min(pauses.longest, Math.max(pauses.shortest, 2 * before))

/** A worker has ten seconds for its requests and a few for the rest; systemd gives the service 45. */
const stopTime = Duration.seconds(18)
/** For a replacement to serve. */
const startTime = Duration.seconds(60)
/** For both, and for a restart that was under way. */
const replacementTime = Duration.minutes(2)
const answerTime = Duration.seconds(1)

interface Member {
  readonly number: number
  readonly worker: Worker
  readonly since: number
  readonly serves: Deferred.Deferred<void>
  readonly ended: Deferred.Deferred<{ readonly code: number | null; readonly signal: string | null }>
  /** Its metrics when they were last read. */
  metrics: ReadonlyArray<Snapshot>
  /** The connection that was last passed on to it. */
  passed: Connection | undefined
}

/** As node:cluster passes it on; `fd` is negative once the worker has it, or it is closed. */
interface Connection {
  readonly fd: number
  readonly close: () => void
}

/** `program`: the file that a worker runs. Ends only with a failure. */
export const parent = Effect.fnUntraced(function* (program: string) {
  const settings = yield* Settings
  const { database, processes } = settings
  const embedded = database.url === undefined ? (yield* embeddedPostgres(database.dataDir)).directory : undefined
  const heap = partOfHeap(processes)
  const run = yield* FiberSet.makeRuntime<never>()

  /** In the order of their start. While a worker is replaced, two have its number. */
  const members = new Set<Member>()
  const ready = yield* Queue.sliding<void>(1)
  const waiting = new Map<number, (value: unknown) => void>()
  let questions = 0
  let restarts = 0
  /** What ended workers have counted. */
  let counted: ReadonlyArray<Snapshot> = []
  let hasServed = false

  const serving = () => [...members].filter(({ serves }) => Deferred.isDoneUnsafe(serves))
  const first = () => serving().findLast(({ number }) => number === 1)
  /** Fails silently for a worker that is ending. */
  const tell = ({ worker }: Member, message: Message) => {
    if (worker.isConnected()) worker.send(message, undefined, undefined, () => {})
  }

  const answerOf = (member: Member, question: Question) =>
    Effect.callback<unknown>((resume) => {
      const id = ++questions
      waiting.set(id, (value) => resume(Effect.succeed(value)))
      tell(member, { say: "ask", id, question, of: "first" })
      return Effect.sync(() => waiting.delete(id))
    }).pipe(Effect.timeoutOrElse({ duration: answerTime, orElse: () => Effect.undefined }))

  /** Whoever asks comes first. */
  const answersTo = Effect.fnUntraced(function* (asking: Member, question: Question) {
    const asked = [asking, ...[...members].filter((member) => member !== asking)]
    const answers = yield* Effect.forEach(asked, (member) => answerOf(member, question), { concurrency: "unbounded" })
    if (question !== "metrics") return answers.filter((answer) => answer !== undefined)
    // Whoever is too busy to answer counts as before, and whoever has ended meanwhile is in `counted` already: no sum becomes
    // smaller.
    for (const [at, member] of asked.entries())
      if (answers[at] !== undefined) member.metrics = answers[at] as ReadonlyArray<Snapshot>
    const metrics = asked.filter((member) => members.has(member)).map((member) => member.metrics)
    return [...metrics, counted, ownMetrics(serving().length, restarts)]
  })

  const receive = (member: Member, message: Message) => {
    if (message.say === "ready") {
      Deferred.doneUnsafe(member.serves, Effect.void)
      Queue.offerUnsafe(ready, undefined)
    }
    if (message.say === "last" && message.value !== undefined) member.metrics = message.value as ReadonlyArray<Snapshot>
    if (message.say === "answer") {
      waiting.get(message.id)?.(message.value)
      waiting.delete(message.id)
    }
    const holder = first()
    if (message.say === "wake" && holder !== undefined) tell(holder, message)
    if (message.say === "ask") {
      const { id, of, question } = message
      const ofFirst = holder === undefined ? Effect.undefined : answerOf(holder, question)
      const answer: Effect.Effect<unknown> = of === "all" ? answersTo(member, question) : ofFirst
      run(Effect.map(answer, (value) => tell(member, { say: "answer", id, value })))
    }
  }

  const start = (number: number): Member => {
    cluster.setupPrimary({
      exec: program,
      args: [`--worker=${number}`, ...(hasServed ? ["--replaces"] : [])],
      execArgv: [...process.execArgv, `--max-old-space-size=${heap}`],
      serialization: "advanced"
    })
    const worker = cluster.fork({ SERVICE_PROCESSES: String(processes) })
    const member: Member = {
      number,
      worker,
      since: performance.now(),
      serves: Deferred.makeUnsafe(),
      ended: Deferred.makeUnsafe(),
      metrics: [],
      passed: undefined
    }
    members.add(member)
    watchPassed(member)
    const end = (code: number | null, signal: string | null) => {
      if (!members.delete(member)) return
      closePassed(member)
      counted = totalsOf([counted, lasting(member.metrics)])
      Deferred.doneUnsafe(member.ended, Effect.succeed({ code, signal }))
    }
    worker.on("message", (message: Message) => receive(member, message))
    // It could not be started: there is no process that could end.
    worker.on("error", () => worker.process.pid === undefined && end(null, null))
    // What it has sent is read by the time its channel closes.
    worker.on("exit", (code, signal) => {
      if (worker.isConnected()) worker.once("disconnect", () => end(code, signal))
      else end(code, signal)
    })
    return member
  }

  /** Another worker may have got it meanwhile. */
  const closePassed = ({ passed }: Member) => {
    if (passed !== undefined && passed.fd >= 0 && ![...members].some((other) => other.passed === passed)) passed.close()
  }

  yield* Effect.addFinalizer(() =>
    Effect.forEach(members, (member) => stop(member, () => member.worker.process.kill("SIGTERM")), {
      concurrency: "unbounded",
      discard: true
    })
  )

  yield* announceStopping

  /** The next one, or undefined if it does not serve: then the previous one stays. */
  const replace = Effect.fnUntraced(function* (previous: Member) {
    const next = start(previous.number)
    const serves = yield* Effect.raceFirst(
      Effect.as(Deferred.await(next.serves), true),
      Effect.as(Deferred.await(next.ended), false)
    ).pipe(Effect.timeoutOrElse({ duration: startTime, orElse: () => Effect.succeed(false) }))
    if (!serves) {
      yield* stop(next, () => next.worker.process.kill("SIGKILL"))
      return undefined
    }
    yield* stop(previous, () => tell(previous, { say: "retire" }))
    return next
  })

  /** Keeps a worker of this number running, and replaces it when `replacements` says so. */
  const keep = Effect.fnUntraced(function* (number: number, replacements: Queue.Queue<Deferred.Deferred<boolean>>) {
    let member = start(number)
    let pause = 0
    while (true) {
      const event = yield* Effect.raceFirst(
        Deferred.await(member.ended),
        Effect.map(Queue.take(replacements), (replaced) => ({ replaced }))
      )
      if ("replaced" in event) {
        const next = yield* replace(member)
        member = next ?? member
        yield* Deferred.succeed(event.replaced, next !== undefined)
        continue
      }
      const { code, signal } = event
      const isHopeless = serving().length === 0 && isLasting(code)
      if ((!hasServed && code !== null && code !== 0) || isHopeless) return yield* new WorkerFailed({ code: code! })
      restarts++
      pause = pauseAfter(performance.now() - member.since, pause)
      yield* Effect.logWarning("A worker ended and is restarted").pipe(
        Effect.annotateLogs({ worker: number, ended_with: code ?? signal ?? "no process", pause_ms: pause })
      )
      yield* Effect.sleep(pause)
      member = start(number)
    }
  })

  const numbers = Array.from({ length: processes }, (_, at) => at + 1)
  const queues = yield* Effect.forEach(numbers, () => Queue.unbounded<Deferred.Deferred<boolean>>())

  const rollOver = Effect.gen(function* () {
    for (const [at, queue] of queues.entries()) {
      const done = yield* Deferred.make<boolean>()
      yield* Queue.offer(queue, done)
      const isReplaced = Deferred.await(done).pipe(
        Effect.timeoutOrElse({ duration: replacementTime, orElse: () => Effect.succeed(false) })
      )
      if (!(yield* isReplaced)) {
        yield* Effect.logError("The replacement of a worker did not serve; the workers that run stay").pipe(
          Effect.annotateLogs({ worker: at + 1 })
        )
        return
      }
    }
    yield* Effect.logInfo("All workers were replaced")
  })

  const begin = Effect.gen(function* () {
    while (serving().length < processes) yield* Queue.take(ready)
    hasServed = true
    yield* logReady(settings, embedded, processes)
    const hangUps = yield* Queue.sliding<void>(1)
    onHangUp(() => Queue.offerUnsafe(hangUps, undefined))
    return yield* Effect.forever(Effect.andThen(Queue.take(hangUps), rollOver))
  })

  return yield* Effect.all([begin, ...numbers.map((number, at) => keep(number, queues[at]!))], {
    concurrency: "unbounded"
  })
}, Effect.scoped)

/** Asks a worker to end, and waits for that. */
export const stop = ({ ended, worker }: Pick<Member, "ended" | "worker">, ask: () => void) =>
  Effect.suspend(() => {
    ask()
    return Deferred.await(ended)
  }).pipe(
    Effect.timeoutOrElse({
      duration: stopTime,
      orElse: () => {
        worker.process.kill("SIGKILL")
        return Deferred.await(ended)
      }
    })
  )

/** Node keeps a connection until the worker says that it has it, offers one at a time, and does not say which. */
const watchPassed = (member: Member) => {
  const channel = member.worker.process
  const send = channel.send.bind(channel) as (...given: ReadonlyArray<unknown>) => boolean
  channel.send = (message: unknown, ...rest: ReadonlyArray<unknown>) => {
    const { act, cmd } = message as { readonly act?: string; readonly cmd?: string }
    if (cmd === "NODE_CLUSTER" && act === "newconn") member.passed = rest[0] as Connection
    return send(message, ...rest)
  }
}

const ownMetrics = (workers: number, restarts: number): ReadonlyArray<Snapshot> => {
  const metric = { attributes: undefined }
  return [
    { ...metric, id: "service_workers", description: "Workers that serve", type: "Gauge", state: { value: workers } },
    {
      ...metric,
      id: "service_worker_restarts_total",
      description: "Workers that ended by themselves",
      type: "Counter",
      state: { count: restarts, incremental: true }
    }
  ]
}
