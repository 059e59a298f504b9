/**
 * Bridges that rotate and agents that write, all at once, until they are stopped. Every mutation is recorded before it is
 * sent and after it was acknowledged.
 *
 * A mutation that was answered 503, or not at all, is repeated exactly until it is answered, so that in the end each has
 * happened once and everything acknowledged is stored. `settled` checks that in the database.
 */
import { Effect, Fiber, Ref } from "effect"
import type { SqlClient } from "effect/sql"
import { createHash } from "node:crypto"
import { Agent, type Called, type Instance as ForAgents } from "../../../support/agents/McpAgent.ts"
import { Bridge, type Instance as ForBridges, makeProject } from "../../../support/bridges/Bridge.ts"
import { type Answer, send } from "../../../support/network/Http.ts"
import { violatedInvariants } from "../../../support/attacks/Invariants.ts"
import { awaiting, draw, type Ledger } from "../harness.ts"

export type On = ForAgents & ForBridges

/** The answer to a request and its time (milliseconds of this process). */
export interface Exchange {
  /** The first word of what was sent. */
  readonly kind: string
  readonly at: number
  readonly millis: number
  readonly outcome: string
}

/** Milliseconds: how long each caller rests between its turns, and before it repeats a request. */
interface Pace {
  readonly bridges: number
  readonly agents: number
  readonly repeat: number
}
const atOnce: Pace = { bridges: 0, agents: 0, repeat: 75 }

export const callsTooLong = "200 limit_exceeded concurrent_calls"
/**
 * While the database is away, calls wait for it, further calls and searches of their project get no turn, and a search
 * whose first statement was answered takes longer than its second.
 */
const temporary = [
  "503 bridge_persistence_error",
  "no answer",
  callsTooLong,
  "200 limit_exceeded concurrent_searches",
  "200 search_too_broad"
]

/** A load on a service whose services are at hand. `label` tells the rows of two loads on one database apart. */
export const makeLoad = Effect.fnUntraced(function* (
  on: On,
  ledger: Ledger,
  size: {
    readonly bridges: number
    readonly agents: number
    readonly label?: string
    readonly project_id?: string
    readonly pace?: Pace
  }
) {
  const project_id = size.project_id ?? (yield* makeProject(on))
  const fleet = yield* Effect.forEach(
    Array.from({ length: size.bridges }),
    () =>
      Effect.flatMap(Bridge.make(on, { project_id }), (bridge) =>
        Effect.map(bridge.enroll(on), (token) => ({ bridge, token }))
      ),
    { concurrency: 4 }
  )
  const agents = yield* Effect.forEach(Array.from({ length: size.agents }), () => Agent.make(on, { project_id }))
  return yield* loadOf(on, ledger, { project_id, fleet, agents, label: size.label ?? "", pace: size.pace ?? atOnce })
})
export type Load = Effect.Success<ReturnType<typeof makeLoad>>

interface Callers {
  readonly project_id: string
  readonly fleet: ReadonlyArray<{ readonly bridge: Bridge; token: string }>
  readonly agents: ReadonlyArray<Agent>
  readonly label: string
  readonly pace?: Pace
}

/** Outcomes in `other` are violations: anything but success, 503 and no answer. */
export const loadOf = Effect.fnUntraced(function* (
  on: { readonly url: string },
  { note, noted }: Ledger,
  { agents, fleet, label, pace = atOnce, project_id }: Callers
) {
  const exchanges: Array<Exchange> = []
  const violations: Array<string> = []
  const acknowledgedAt: Array<number> = []
  const stopping = yield* Ref.make(false)

  /** Sends one request once. Returns its outcome, and its answer if there was one. */
  const once = Effect.fnUntraced(function* <A>(
    what: string,
    request: Effect.Effect<A, unknown>,
    outcomeOf: (of: A) => string
  ) {
    const at = performance.now()
    const answer = yield* request.pipe(
      Effect.timeout("15 seconds"),
      Effect.catchCause(() => Effect.undefined)
    )
    const outcome = answer === undefined ? "no answer" : outcomeOf(answer)
    exchanges.push({ kind: what.split(" ", 1)[0]!, at, millis: performance.now() - at, outcome })
    return { answer, outcome }
  })

  /** Repeats one request while its outcome is temporary. Any other failure is a violation, and returns undefined. */
  const untilAnswered = <A>(what: string, request: Effect.Effect<A>, outcomeOf: (of: A) => string) =>
    awaiting(`an answer to ${what}`, attempts(what, request, outcomeOf))
  const attempts = Effect.fnUntraced(function* <A>(
    what: string,
    request: Effect.Effect<A>,
    outcomeOf: (of: A) => string
  ) {
    for (;;) {
      const { answer, outcome } = yield* once(what, request, outcomeOf)
      if (temporary.includes(outcome)) {
        yield* Effect.sleep(pace.repeat * (0.7 + 0.6 * draw()))
        continue
      }
      if (/^20\d$/.test(outcome)) return answer
      violations.push(`${what} was answered ${outcome}`)
      return undefined
    }
  })

  /** A mutation: recorded, repeated until answered, and recorded again with the ids in its answer. */
  const mutate = Effect.fnUntraced(function* <A>(
    what: string,
    request: Effect.Effect<A>,
    outcomeOf: (of: A) => string,
    named: (of: A) => string
  ) {
    yield* note("intent", what)
    const answer = yield* untilAnswered(what, request, outcomeOf)
    if (answer === undefined) return
    yield* note("ack", `${what} ${named(answer)}`)
    acknowledgedAt.push(performance.now())
    return answer
  })

  const again = <E, R>(turn: (n: number) => Effect.Effect<unknown, E, R>) =>
    Effect.gen(function* () {
      for (let n = 0; !(yield* Ref.get(stopping)); n++) yield* turn(n)
    })

  /** Not always as long, so that callers who began together do not stay together; ends with `during`. */
  const rest = (millis: number) =>
    Effect.gen(function* () {
      const over = performance.now() + millis * (0.7 + 0.6 * draw())
      while (performance.now() < over && !(yield* Ref.get(stopping)))
        yield* Effect.sleep(Math.min(500, over - performance.now()))
    })

  const rotating = (one: { readonly bridge: Bridge; token: string }, index: number) => {
    const at = (path: string, ask: Parameters<typeof send>[1]) => send(`${on.url}/bridge/v1/tokens/${path}`, ask)
    const turns = again((n) =>
      Effect.gen(function* () {
        const name = `${label}${index} ${n}`
        const key = `bridge-rotate-${index}-${n}`
        const prepared = yield* mutate(
          `prepare ${name}`,
          at("rotate/prepare", { bearer: one.token, key }),
          httpOutcome,
          ({ body }) => body.rotation_id
        )
        if (prepared === undefined) return yield* Ref.set(stopping, true)
        const { rotation_id, successor_token } = prepared.body
        const end = n % 8 === 7 ? "abort" : "confirm"
        yield* mutate(
          `${end} ${name}`,
          at(`rotate/${end}`, { bearer: successor_token, key, body: { rotation_id } }),
          httpOutcome,
          () => rotation_id
        )
        if (end === "confirm") one.token = successor_token
        yield* untilAnswered(`self ${name}`, at("self", { method: "GET", bearer: one.token }), httpOutcome)
        yield* rest(pace.bridges)
      })
    )
    return Effect.andThen(rest(pace.bridges * draw()), turns)
  }

  const writing = (agent: Agent, index: number) => {
    const { write_context } = agent
    return again((n) =>
      Effect.gen(function* () {
        const name = `${label}${index} ${n}`
        const write = (tool: string, what: string, given: Readonly<Record<string, unknown>>) =>
          mutate(
            what,
            agent.call(tool, { ...given, write_context, idempotency_key: what.replaceAll(" ", "-") }),
            toolOutcome,
            ({ output }) => (output.entry ?? output.task).id
          )
        yield* write("memory_add", `note ${name}`, { kind: "note", body: `note ${name}` })
        const created = yield* write("task_create", `task ${name}`, { title: `task ${name}` })
        if (created === undefined) return yield* Ref.set(stopping, true)
        const receipt = {
          session_ref: `session ${name}`,
          worker: "chaos",
          outcome: "progress",
          summary: `done ${name}`
        }
        const { id, version } = created.output.task
        yield* write("task_update", `update ${name}`, {
          id,
          expected_version: version,
          status: "in_progress",
          assignee: "chaos",
          receipt
        })
        yield* rest(pace.agents)
      })
    )
  }

  const run = (more: ReadonlyArray<Effect.Effect<void>>) =>
    Effect.asVoid(
      Effect.all([...fleet.map(rotating), ...agents.map(writing), ...more], { concurrency: "unbounded", discard: true })
    )

  /** The ids of acknowledged mutations, by kind. */
  const acknowledged = (acks = noted("ack")) => {
    const found = new Map<string, Array<string>>()
    for (const line of acks) {
      const [kind, , , id] = line.split(" ") as [string, string, string, string]
      const ids = found.get(kind)
      if (ids === undefined) found.set(kind, [id])
      else ids.push(id)
    }
    return found
  }

  /** Records a violation where the rows lack an acknowledged mutation or hold one that was not sent by then. */
  const present = Effect.fnUntraced(function* (
    sql: SqlClient.SqlClient,
    acks = noted("ack"),
    intended: ReadonlySet<string> = new Set(noted("intent"))
  ) {
    const known = acknowledged(acks)
    const ids = (kind: string) => known.get(kind) ?? []
    const missing = Effect.fnUntraced(function* (sentence: string, wanted: ReadonlyArray<string>, rows: Ids) {
      const stored = new Set((yield* rows).map(({ id }) => id))
      const lost = wanted.filter((id) => !stored.has(id))
      if (lost.length > 0) violations.push(`${lost.length} of ${wanted.length} ${sentence}: ${lost[0]}`)
    })
    const rotations = (state: string): Ids => sql`
      select rotation_id::text as id
        from bridge_rotation r
        join audit_event e on e.subject ->> 'rotation_id' = r.rotation_id::text and e.action = ${`bridge.rotation_${state}`}
       where r.state = ${state}`
    yield* missing("acknowledged confirms are lost, or without audit", ids("confirm"), rotations("confirmed"))
    yield* missing("acknowledged aborts are lost, or without audit", ids("abort"), rotations("aborted"))
    yield* missing(
      "acknowledged prepares are lost",
      ids("prepare"),
      sql`select rotation_id::text as id from bridge_rotation`
    )
    yield* missing("acknowledged notes are lost", ids("note"), sql`select id::text from memory_entry`)
    yield* missing("acknowledged tasks are lost", ids("task"), sql`select id::text from task`)
    yield* missing(
      "acknowledged updates are lost, or came without their receipt",
      ids("update"),
      sql`select id::text from task t where version = 2 and exists (select from receipt r where r.task_id = t.id)`
    )
    const duplicates = yield* sql<{ readonly what: string }>`
      select body as what from memory_entry where project_id = ${project_id}::uuid group by body having count(*) > 1
      union all select title from task where project_id = ${project_id}::uuid group by title having count(*) > 1
      union all select summary from receipt where project_id = ${project_id}::uuid group by summary having count(*) > 1`
    for (const { what } of duplicates) violations.push(`${what} is stored twice`)
    const unknown = yield* sql<{
      readonly what: string
    }>`
      select body as what from memory_entry where project_id = ${project_id}::uuid
      union all select title from task where project_id = ${project_id}::uuid`
    for (const { what } of unknown) if (!intended.has(what)) violations.push(`${what} is stored but was never sent`)
    for (const { broken, found } of yield* violatedInvariants(sql))
      violations.push(`invariant broken: ${broken}: ${found}`)
  })

  /** At the end: everything acknowledged is present, and each Bridge holds its active token. */
  const settled = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
    yield* present(sql)
    const active = new Set(
      (yield* sql<{ readonly hash: string }>`
        select encode(token_hash, 'hex') as hash from bridge_token where state = 'active'`).map(({ hash }) => hash)
    )
    for (const { bridge, token } of fleet) {
      if (!active.has(createHash("sha256").update(token).digest("hex"))) {
        violations.push(`the token of ${bridge.bridge_id} is not the active one`)
      }
    }
  })

  return {
    project_id,
    fleet,
    agents,
    exchanges,
    violations,
    acknowledgements: () => acknowledgedAt.length,
    /** When each was answered (milliseconds of this process). */
    acknowledgedAt,
    mutate,
    once,
    untilAnswered,
    /** The number of acknowledged mutations of each kind. */
    counts: () => Object.fromEntries([...acknowledged()].map(([kind, { length }]) => [`${kind}s`, length])),
    present: (...args: Parameters<typeof present>) => Effect.orDie(present(...args)),
    settled: (sql: SqlClient.SqlClient) => Effect.orDie(settled(sql)),
    /** Repeats a turn until `during` ends. */
    again,
    rest,
    /** Runs until `work` is done, then lets all clients finish their current request, and `more` clients their turn. */
    during: <A, E, R>(work: Effect.Effect<A, E, R>, more: ReadonlyArray<Effect.Effect<void>> = []) =>
      Effect.gen(function* () {
        yield* Ref.set(stopping, false)
        const running = yield* Effect.forkChild(run(more))
        const result = yield* work
        yield* Ref.set(stopping, true)
        yield* Fiber.join(running)
        return result
      }),
    /** The number of each outcome since the given time. */
    outcomes: (since = 0) => {
      const counts: Record<string, number> = {}
      for (const { at, outcome } of exchanges) if (at >= since) counts[outcome] = (counts[outcome] ?? 0) + 1
      return counts
    }
  }
})

type Ids = Effect.Effect<ReadonlyArray<{ readonly id: string }>, unknown>

/** Status and code. A 503 or 429 says when to come again. */
export const httpOutcome = ({ code, headers, status }: Answer) =>
  [
    `${status}`,
    ...(code === undefined ? [] : [code]),
    ...((status === 503 || status === 429) && headers.get("retry-after") === null ? ["without Retry-After"] : [])
  ].join(" ")

/** A tool's failure is a result with HTTP status 200, and may name a limit; 503 is counted like the status of its code. */
export const toolOutcome = ({ answer, code, details }: Called) =>
  [
    `${code === "bridge_persistence_error" ? 503 : answer.status}`,
    ...(code === undefined ? [] : [code]),
    ...(details?.limit === undefined ? [] : [details.limit])
  ].join(" ")
