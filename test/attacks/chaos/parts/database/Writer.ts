/** A writer beside the service, one row after the other through the proxy: it shows what the cluster itself needs. */
import { Effect } from "effect"
import { Client } from "pg"

export const bareWriter = Effect.fnUntraced(function* (connectionString: string) {
  const acknowledged: Array<number> = []
  const acknowledgedAt: Array<number> = []
  const connect = async () => {
    const client = new Client({ connectionString, connectionTimeoutMillis: 1000, query_timeout: 3000 })
    client.on("error", () => {})
    await client.connect()
    return client
  }
  const first = yield* Effect.promise(connect)
  yield* Effect.promise(() => first.query("create table bare_writer (n int primary key)"))
  yield* Effect.promise(() => first.end())

  const stop = new AbortController()
  yield* Effect.addFinalizer(() => Effect.sync(() => stop.abort()))
  const writing = async () => {
    let client: Client | undefined
    for (let n = 0; !stop.signal.aborted; n++) {
      try {
        client ??= await connect()
        await client.query("insert into bare_writer values ($1)", [n])
        acknowledged.push(n)
        acknowledgedAt.push(performance.now())
      } catch {
        void client?.end().catch(() => {})
        client = undefined
      }
      await new Promise((resume) => setTimeout(resume, 50))
    }
    await client?.end()
  }
  void writing()
  return { acknowledged, acknowledgedAt }
})
