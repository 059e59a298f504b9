/**
 * What a process knows of the others that share its port with SERVICE_PROCESSES: a worker reaches them through the parent
 * (platform/process/Parent.ts). A process that serves alone is the first one, and all of them.
 */
import { Context, Effect, Layer, Option } from "effect"
import cluster from "node:cluster"
import type { Message, Question } from "./Messages.ts"

/** 1 to SERVICE_PROCESSES, the same for the worker that replaces this one; undefined in a process that serves alone. */
export const workerNumber = cluster.isWorker
  ? Number(process.argv.find((argument) => argument.startsWith("--worker="))?.slice("--worker=".length))
  : undefined

/** Whether the service has served before this worker, which then migrates before it listens. */
export const isReplacement = cluster.isWorker && process.argv.includes("--replaces")

/** Without its parent a worker gets no connection, so it stops; by default Node would end it without stopping anything. */
export const followParent = () =>
  cluster.worker?.on("disconnect", () => {
    cluster.worker!.exitedAfterDisconnect = true
    process.kill(process.pid, "SIGTERM")
  })

/** Milliseconds. The parent waits for a second. */
const patience = 1500

export class Workers extends Context.Service<
  Workers,
  {
    /** Does the work in the background, of which one process on a machine is enough. */
    readonly isFirst: boolean
    /** From the parent: everything that ends this process has to leave time for its clients to move. */
    readonly isRetiring: () => boolean
    readonly tell: (what: "ready" | "wake") => Effect.Effect<void>
    /** What happens when another worker tells the first one `wake`. */
    readonly onWake: (wake: () => void) => Effect.Effect<void>
    /** How this process answers a question. */
    readonly answers: <A>(question: Question, answer: Effect.Effect<A>) => Effect.Effect<void>
    /** The answers of all processes; those that do not answer within a second are missing. */
    readonly askAll: (question: Question) => Effect.Effect<ReadonlyArray<unknown>>
    readonly askFirst: (question: Question) => Effect.Effect<Option.Option<unknown>>
  }
>()("service/workers/Workers") {
  static readonly layer = Layer.unwrap(Effect.sync(() => (cluster.isWorker ? amongOthers : alone)))
}

const known = () => {
  const answers = new Map<Question, Effect.Effect<unknown>>()
  return {
    answers: <A>(question: Question, answer: Effect.Effect<A>) => Effect.sync(() => void answers.set(question, answer)),
    find: (question: Question) => Option.fromUndefinedOr(answers.get(question))
  }
}

const alone = Layer.sync(Workers, () => {
  const { answers, find } = known()
  const ask = (question: Question) => Effect.transposeOption(find(question))
  return {
    isFirst: true,
    isRetiring: () => false,
    tell: () => Effect.void,
    onWake: () => Effect.void,
    answers,
    askAll: (question) => Effect.map(ask(question), Option.toArray),
    askFirst: ask
  }
})

const amongOthers = Layer.effect(
  Workers,
  Effect.gen(function* () {
    const { answers, find } = known()
    const waiting = new Map<number, (value: unknown) => void>()
    let asked = 0
    let retiring = false
    let wake = () => {}

    /** Nothing fails if the parent has gone: this process is about to end, too. */
    const post = (message: Message, sent = () => {}) => {
      if (process.send === undefined || !process.connected) return sent()
      process.send(message, undefined, undefined, sent)
    }
    const send = (message: Message) => Effect.callback<void>((resume) => post(message, () => resume(Effect.void)))
    const ask = (question: Question, of: "all" | "first") =>
      Effect.callback<unknown>((resume) => {
        const id = ++asked
        waiting.set(id, (value) => resume(Effect.succeed(value)))
        post({ say: "ask", id, question, of })
        return Effect.sync(() => waiting.delete(id))
      }).pipe(Effect.timeoutOption(patience))
    const run = yield* Effect.context<never>()

    const receive = (message: Message) => {
      if (message.say === "wake") wake()
      if (message.say === "answer") {
        waiting.get(message.id)?.(message.value)
        waiting.delete(message.id)
      }
      if (message.say === "retire") {
        retiring = true
        process.kill(process.pid, "SIGTERM")
      }
      if (message.say === "ask") {
        const { id, question } = message
        const answer = Effect.flatMap(Effect.transposeOption(find(question)), (value) =>
          send({ say: "answer", id, value: Option.getOrUndefined(value) })
        )
        Effect.runForkWith(run)(answer)
      }
    }
    yield* Effect.acquireRelease(
      Effect.sync(() => process.on("message", receive)),
      () => Effect.sync(() => process.off("message", receive))
    )
    // What it counted outlives it. This layer ends last.
    yield* Effect.addFinalizer(() =>
      Effect.flatMap(Effect.transposeOption(find("metrics")), (value) =>
        send({ say: "last", value: Option.getOrUndefined(value) })
      )
    )
    return {
      isFirst: workerNumber === 1,
      isRetiring: () => retiring,
      tell: (say) => send({ say }),
      onWake: (run) => Effect.sync(() => void (wake = run)),
      answers,
      askAll: (question) =>
        Effect.map(ask(question, "all"), (answer) => Option.getOrElse(answer, () => []) as ReadonlyArray<unknown>),
      askFirst: (question) =>
        Effect.map(
          ask(question, "first"),
          Option.filter((value) => value !== undefined)
        )
    }
  })
)
