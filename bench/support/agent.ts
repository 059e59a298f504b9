/** Seeds a project for the tools of agents. */
import { Context, Effect, Option, Redacted, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { Transfer } from "../../src/agents/transfer/Transfer.ts"
import { Projects } from "../../src/operator/projects/Projects.ts"
import { uuidAt } from "../../src/platform/crypto/Random.ts"
import { Database } from "../../src/platform/database/Database.ts"
import { ProjectTokens } from "../../src/signin/access/ProjectTokens.ts"
import { open } from "./load/connection.ts"
import { body } from "./corpus.ts"
import type * as harness from "./harness.ts"
import { type AgentLoad, call } from "./load/tools.ts"

const createdAt = (n: number) => new Date(1_790_000_000_000 + n * 1000)
const blank = {
  kind: "note",
  tags: [],
  active: true,
  supersedes: null,
  superseded_by: null,
  superseded_at: null,
  actor: "bench",
  role: "contributor",
  session_ref: null,
  task_id: null,
  source: "bench"
}

/** A project with this many entries, imported like a backup, and a token that works in it. */
export const agentWith = Effect.fnUntraced(function* (on: harness.Bench, entries: number) {
  const { project_id } = yield* Context.get(on.context, Projects).create(`${entries} entries`)
  const tokens = Context.get(on.context, ProjectTokens)
  const secret = yield* tokens.mint
  yield* tokens.issue({ project_id, role: "contributor", scopes: [], ttl: Option.none() }, secret)
  const ids: Array<string> = []
  for (let n = 0; n < entries; n++) ids.push(yield* uuidAt(createdAt(n)))
  const header = { export: "bridge-service project", project: { id: project_id, name: "x" }, created_at: createdAt(0) }
  const rows = ids.map((id, n) => ({
    memory: { ...blank, id, title: `Entry ${n}`, body: body(n), created_at: createdAt(n) }
  }))
  const counts = { memory: entries, task: 0, dependency: 0, receipt: 0 }
  const file = Stream.fromIterable([header, ...rows, { counts }]).pipe(
    Stream.map((line) => Buffer.from(`${JSON.stringify(line)}\n`))
  )
  yield* Context.get(on.context, Transfer).load(project_id, file)
  // What autovacuum would do later. A dedicated connection has no statement timeout.
  yield* Context.get(on.context, Database).dedicated(SqlClient.SqlClient.use((sql) => sql`vacuum analyze`))
  const token = Redacted.value(secret.token)
  const write_context = yield* Effect.promise(async () => {
    const connection = await open(on.url)
    const identity = await call(connection, { token }, "server_identity", {})
    connection.close()
    return identity.write_context
  })
  return { token, write_context, ids: ids.slice(0, 1000), entries } satisfies AgentLoad
})
