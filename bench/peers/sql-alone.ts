/**
 * Runs only the statements of one operation: node:http and `pg`, prepared, in one transaction if the service uses one.
 * Its CPU time minus that of the same server without statements is the minimal cost of the service's SQL.
 * An update matches no row after its first run, but costs the same on this side of the connection.
 */
import { randomUUID } from "node:crypto"
import { createServer } from "node:http"
import { Pool } from "pg"

export interface Alone {
  readonly port: number
  readonly database: { readonly host: string; readonly port: number; readonly password: string }
  readonly poolSize: number
  readonly statements: ReadonlyArray<readonly [sql: string, values: ReadonlyArray<unknown>]>
  /** The index of the first statement of the transaction, if there is one. */
  readonly transaction: number | undefined
  /** Values that are replaced by new ids in every operation. */
  readonly fresh: ReadonlyArray<string>
}

process.once("message", ({ database, fresh, poolSize, port, statements, transaction }: Alone) => {
  const pool = new Pool({ ...database, user: "postgres", database: "postgres", max: poolSize })

  const operation = async () => {
    const ids = new Map(fresh.map((id) => [id, randomUUID()]))
    const client = await pool.connect()
    for (const [index, [text, values]] of statements.entries()) {
      if (index === transaction) await client.query("begin")
      const current = values.map((value) => (typeof value === "string" ? (ids.get(value) ?? value) : value))
      await client.query({ name: `statement-${index}`, text, values: current })
    }
    if (transaction !== undefined) await client.query("commit")
    client.release()
  }

  createServer(async (request, response) => {
    for await (const _ of request);
    if (statements.length > 0) await operation()
    response.end('{"result":{}}')
  }).listen(port, "127.0.0.1", () => process.send!("ready"))
})
