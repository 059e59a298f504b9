/**
 * Where the soak happens: two replicas of two processes each, over the cluster of deploy/ha, or where that cannot run over
 * one PostgreSQL. It fails as often as it is told, and says when.
 */
import { Effect } from "effect"
import { Client } from "pg"
import { relay } from "../../../../support/network/Relay.ts"
import { awaiting, balancer, beside, draw, freePort, server } from "../../harness.ts"
import { cannotRun, type Fault, faultsOf, patroniCluster } from "../database/Patroni.ts"
import { ownPostgres, settingsOver } from "../database/Postgres.ts"
import { rollover } from "../Rollover.ts"
import type { Window } from "./Judge.ts"

/** The faults of the cluster, in turn. */
const turns: ReadonlyArray<Fault> = ["postgres killed", "planned switch", "node killed"]

const overCluster = Effect.fnUntraced(function* (folder: string) {
  const cluster = yield* awaiting("the cluster", patroniCluster(folder, { unsafe: false }))
  // Otherwise a trial of a backup only reads it.
  yield* Effect.promise(async () => {
    const superuser = new Client({ connectionString: cluster.superuser })
    await superuser.connect()
    await superuser.query("alter role bridge createdb")
    await superuser.end()
  })
  const strike = faultsOf(cluster)
  let turn = 0
  const fail = Effect.gen(function* () {
    const fault = turns[turn++ % turns.length]!
    yield* awaiting(fault, strike[fault](yield* cluster.primary))
    return fault
  })
  return {
    by: "three nodes with Patroni",
    urls: [cluster.proxied, cluster.named] as const,
    fail,
    synchronous: awaiting("a synchronous standby", cluster.synchronous),
    whole: awaiting("a whole cluster", cluster.whole)
  }
})

const overOne = Effect.fnUntraced(function* (folder: string, why: string) {
  const postgres = yield* ownPostgres(folder)
  const url = postgres.over(yield* relay(postgres.socket))["DATABASE_URL"]!
  return {
    by: `one PostgreSQL, because a cluster cannot run here: ${why}`,
    urls: [url, url] as const,
    fail: Effect.as(postgres.restart, "PostgreSQL killed and restarted"),
    synchronous: Effect.void,
    whole: postgres.answering
  }
})

export const makeGround = Effect.fnUntraced(function* (
  folder: string,
  settingsOf: (replica: string) => Readonly<Record<string, string>>
) {
  const reason = cannotRun()
  const database = yield* reason === undefined ? overCluster(folder) : overOne(folder, reason)
  const port = yield* freePort
  const settings = (replica: string, DATABASE_URL: string) => ({
    ...settingsOver({ port }, "", ""),
    ...settingsOf(replica),
    DATABASE_URL,
    SERVICE_BASE_URL: `http://127.0.0.1:${port}`
  })
  const [first, second] = database.urls
  const proxied = yield* server(folder, settings("proxied", first))
  const named = yield* server(folder, settings("named", second))
  const url = yield* balancer([proxied.port, named.port], port)
  const on = yield* beside(folder, { url }, settings("beside", first))

  /** Without the service's limits of time. */
  const query = <Row extends object>(text: string) =>
    Effect.promise(async () => {
      const client = new Client({ connectionString: first })
      await client.connect()
      return (await client.query<Row>(text).finally(() => client.end())).rows
    })

  const windows: Array<Window> = []
  const violations: Array<string> = []
  /** A node that never comes back must not keep the script from its end, where most is judged. */
  const isWhole = Effect.map(Effect.timeoutOption(database.whole, "5 minutes"), ({ _tag }) => _tag === "Some")
  /** What a fault explains is known once it is over. */
  const during = <E>(explains: ReadonlyArray<string>, fault: Effect.Effect<Pick<Window, "why" | "to">, E>) =>
    Effect.gen(function* () {
      const from = performance.now()
      const { to, why } = yield* fault
      // Processes that are new are slow once at everything.
      windows.push({ why, from, to, calm: Math.max(to, performance.now()) + 5000, explains })
    })

  /** The primary fails; `writing` waits until everybody writes again. A connection that hangs is noticed by a probe. */
  const failover = Effect.fnUntraced(function* (writing: (since: number) => Effect.Effect<void>) {
    if (!(yield* isWhole)) return void violations.push("a failover was left out: the cluster was not whole")
    yield* during(
      ["503 bridge_persistence_error", "no answer"],
      Effect.gen(function* () {
        const why = yield* database.fail
        yield* writing(performance.now())
        yield* database.synchronous
        const to = performance.now() + 3000
        if (!(yield* isWhole)) violations.push(`${why}: the cluster was not whole within five minutes`)
        return { why, to }
      })
    )
  })
  const killWorker = during(
    ["no answer"],
    Effect.suspend(() =>
      Effect.map(proxied.killSome(draw() < 0.5 ? 1 : 2), () => ({
        why: "worker killed",
        to: performance.now() + 1000
      }))
    )
  )
  /** No request is lost in it. */
  const rollOver = during(
    [],
    Effect.map(rollover(proxied), () => ({ why: "rollover", to: performance.now() }))
  )
  return {
    by: database.by,
    replicas: { proxied, named },
    url,
    on,
    query,
    windows,
    violations,
    failover,
    killWorker,
    rollOver
  }
})
export type Ground = Effect.Success<ReturnType<typeof makeGround>>
