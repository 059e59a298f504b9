/** What no retry mends at the database ends the start, and every command, with 78 and the remedy. */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest"
import { main } from "../support/service/processes/Main.ts"
import { refusal, startService, type TestService } from "../support/service/ServiceAdmin.ts"

vi.setConfig({ testTimeout: 60_000 })

let service: TestService

beforeAll(async () => {
  service = await startService()
  for (const encoding of ["LATIN1", "SQL_ASCII"])
    await service.create(encoding.toLowerCase(), `template0 encoding '${encoding}' locale_provider libc locale 'C'`)
  await service.create("foreign_owned")
  await service.account("guest")
})
afterAll(() => service.stop())

const create = "create one with: createdb --template=template0 --encoding=UTF8 NAME"
const encoded = (encoding: string) =>
  `The database in DATABASE_URL has the encoding ${encoding}, and must have UTF8: ${create}; pg_dump moves what the old one holds.`

describe.each([
  [
    "that does not exist",
    "missing",
    "postgres",
    "database_unsuitable",
    `The database in DATABASE_URL does not exist: ${create}`
  ],
  ["in LATIN1", "latin1", "postgres", "database_unsuitable", encoded("LATIN1")],
  ["in SQL_ASCII", "sql_ascii", "postgres", "database_unsuitable", encoded("SQL_ASCII")],
  [
    "in which the account may not create tables",
    "foreign_owned",
    "guest",
    "database_forbids",
    "The database account lacks privileges on the tables or the schema: set SERVICE_DATABASE_OWNER_URL to the owner's address, or let the account in DATABASE_URL own the database."
  ]
])("a database %s", (_, database, account, code, sentence) => {
  const on = () => {
    const { DATABASE_URL } = service.on(database).shell().env
    return service.on("", { DATABASE_URL: DATABASE_URL.replace(/\/\/\w+@/, `//${account}@`) })
  }

  it("ends the start", async () => {
    const { env, program } = on().shell()
    const server = spawn(program, [main], { env: { ...env, SERVICE_PORT: "0" }, timeout: 30_000 })
    let logged = ""
    server.stdout.on("data", (text: Buffer) => (logged += text.toString()))
    expect((await once(server, "exit"))[0]).toBe(78)
    expect(logged).toContain(sentence)
  })

  it("ends migrate, and fails doctor", async () => {
    const migrated = await on().run("migrate", "--json")
    expect(refusal(migrated)).toEqual([78, code])
    expect(migrated.stderr).toContain(sentence)
    const { code: ended, stdout } = await on().run("doctor", "--json")
    expect(ended).toBe(1)
    const failed = JSON.parse(stdout).checks.filter(({ status }: { status: string }) => status === "fail")
    expect(failed.map(({ message }: { message: string }) => message)).toContain(
      // Before the first migration, doctor asks for the right by itself.
      account === "guest"
        ? "The account in DATABASE_URL may not create tables: make it the owner of the database."
        : sentence
    )
  })
})
