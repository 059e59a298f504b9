/** Runs a procedure of docs/run.md or docs/emergencies.md exactly as printed, on the test's database. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { checkout, shellIn } from "./Checkout.ts"
import { blocksUnder, read } from "../run/Markdown.ts"
import { relay } from "../network/Relay.ts"
import { environment, instance } from "./Service.ts"
import { TestDatabase } from "../database/TestDatabase.ts"

/** Test timeout in milliseconds. A procedure has several commands of about a second each; a busy machine is much slower. */
export const patience = 90_000

/** The `sh` blocks under a heading of a page, in order, by the names that the test gives them. It must name every block. */
export const procedure = <const Names extends ReadonlyArray<string>>(
  page: "run" | "emergencies",
  heading: string,
  ...names: Names
): { readonly [Name in Names[number]]: string } => {
  const found = blocksUnder(read(`docs/${page}.md`), heading, "sh")
  assert.lengthOf(found, names.length, heading)
  return Object.fromEntries(names.map((name, index) => [name, found[index]!])) as never
}

/** The test's database as a TCP address, because a PostgreSQL URL cannot name a unix socket. */
export const databaseUrl = Effect.gen(function* () {
  const { database, host, port, username } = yield* TestDatabase
  const line = yield* relay({ path: `${host}/.s.PGSQL.${port}` })
  return `postgres://${username}@127.0.0.1:${line.port}/${database}`
})

/** A checkout to run commands in, and the settings file that commands and replicas read their secrets from. */
export const operator = Effect.fnUntraced(function* (settings: Readonly<Record<string, string>> = {}) {
  const folder = yield* checkout()
  const file = join(folder, "settings.env")
  const secrets = {
    SERVICE_BRIDGE_ENROLLMENT_SECRET: environment.SERVICE_BRIDGE_ENROLLMENT_SECRET,
    SERVICE_BRIDGE_TOKEN_SECRET: environment.SERVICE_BRIDGE_TOKEN_SECRET,
    SERVICE_OAUTH_SECRET: environment.SERVICE_OAUTH_SECRET,
    SERVICE_BACKUP_KEY: "backup-key-of-the-tests-0123456789abcdef",
    ...settings
  }
  const lines = Object.entries(secrets).map(([name, value]) => `${name}=${value}\n`)
  writeFileSync(file, lines.join(""), { mode: 0o600 })
  const shell = shellIn(folder, { DATABASE_URL: yield* databaseUrl, SETTINGS: file })
  const present = () =>
    Object.fromEntries(
      [...readFileSync(file, "utf8").matchAll(/^(\w+)=(.*)$/gm)].map(([, name, value]) => [name!, value!])
    )
  return {
    folder,
    file,
    present,
    type: (lines: string, more: Readonly<Record<string, string>> = {}) => shell(lines, { ...present(), ...more }),
    /** Starts a replica with the file's current settings. */
    started: Effect.suspend(() => instance(present()))
  }
})
