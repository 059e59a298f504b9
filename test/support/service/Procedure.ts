/** Runs the commands of a procedure in docs/operations.md, exactly as written, on the database of the test. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { checkout, typing } from "./Checkout.ts"
import { blocksUnder, read } from "../run/Markdown.ts"
import { relay } from "../network/Relay.ts"
import { environment, instance } from "./Service.ts"
import { TestDatabase } from "../run/TestDatabase.ts"

/** A timeout in milliseconds: a procedure has several commands of a second each, and more on a busy machine. */
export const patience = 90_000

/** The blocks of commands under a heading, in order. Fails unless there are as many blocks as names. */
export const procedure = <const Names extends ReadonlyArray<string>>(
  heading: string,
  ...names: Names
): { readonly [Name in Names[number]]: string } => {
  const found = blocksUnder(read("docs/operations.md"), heading, "sh")
  assert.lengthOf(found, names.length, heading)
  return Object.fromEntries(names.map((name, index) => [name, found[index]!])) as never
}

/** The address of the test's database as operators write it: by TCP, because the tests' cluster has only a unix socket. */
export const databaseUrl = Effect.gen(function* () {
  const { database, host, port, username } = yield* TestDatabase
  const line = yield* relay({ path: `${host}/.s.PGSQL.${port}` })
  return `postgres://${username}@127.0.0.1:${line.port}/${database}`
})

/** A working directory, and the file that sets secrets and keys for commands and replicas. */
export const operator = Effect.fnUntraced(function* (settings: Readonly<Record<string, string>> = {}) {
  const folder = yield* checkout()
  const file = join(folder, "settings.env")
  const secrets = {
    SERVICE_BRIDGE_ENROLLMENT_SECRET: environment.SERVICE_BRIDGE_ENROLLMENT_SECRET,
    SERVICE_BRIDGE_TOKEN_SECRET: environment.SERVICE_BRIDGE_TOKEN_SECRET,
    ...settings
  }
  const lines = Object.entries(secrets).map(([name, value]) => `${name}=${value}\n`)
  writeFileSync(file, lines.join(""), { mode: 0o600 })
  const type = typing(folder, { DATABASE_URL: yield* databaseUrl, SETTINGS: file })
  const present = () =>
    Object.fromEntries(
      [...readFileSync(file, "utf8").matchAll(/^(\w+)=(.*)$/gm)].map(([, name, value]) => [name!, value!])
    )
  return {
    folder,
    file,
    present,
    type: (lines: string, more: Readonly<Record<string, string>> = {}) => type(lines, { ...present(), ...more }),
    /** A replica with the settings that the file has now. */
    started: Effect.suspend(() => instance(present()))
  }
})
