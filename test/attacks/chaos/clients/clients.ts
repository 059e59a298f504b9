/**
 * Real clients from npm, with everything at its default: each signs in once and can write, refreshes, is revoked, and signs in
 * again; works with a token in a header; and signs in where clients do not register themselves. The service needs no way out.
 *
 * Where only a model calls tools, a scripted one does (Model.ts).
 */
import { Effect, Redacted } from "effect"
import { mkdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { ofRole } from "../../../../src/wire/Scopes.ts"
import { admin, chaos, scratch, server, type Server } from "../harness.ts"
import { type Given, realClients, type RealClient } from "../parts/clients/Clients.ts"
import type { ToolCall } from "../parts/clients/Model.ts"
import { type Desk, desk as deskIn } from "../parts/clients/Person.ts"
import { install, versions } from "../parts/clients/Programs.ts"

/** Seconds; a client that waits longer has to refresh. */
const accessTtl = 8

const violations: Array<string> = []
const figures: Record<string, string> = {}

const writes = ofRole("contributor").join(" ")

const project = Effect.fnUntraced(function* (folder: string) {
  const { project_id } = yield* admin(folder, "create-project", "--name", "Harbour")
  const out = join(folder, "token")
  yield* admin(folder, "create-project-token", "--project", project_id, "--role", "contributor", "--out", out)
  return { project_id: project_id as string, token: Redacted.make(readFileSync(out, "utf8").trim()) }
})

/** The standing grants of the project. */
const standing = Effect.fnUntraced(function* (folder: string, project_id: string) {
  const { items } = yield* admin(folder, "list-oauth-grants", "--project", project_id)
  return (items as ReadonlyArray<{ grant_id: string; status: string; scopes: ReadonlyArray<string> }>).filter(
    ({ status }) => status === "active"
  )
})

const play = Effect.fnUntraced(function* (
  client: RealClient,
  commands: string,
  folder: string,
  on: Server,
  { project_id, token }: { readonly project_id: string; readonly token: Redacted.Redacted<string> }
) {
  const name = client.package
  const url = `${on.url}/mcp`
  const secret = Redacted.value(token)
  let homes = 0
  const desk = () => {
    const home = join(folder, `${name.replaceAll(/\W/g, "-")}-${(homes += 1)}`)
    mkdirSync(home, { recursive: true })
    return deskIn(home, commands, secret)
  }
  const expect = (holds: boolean, what: string, output = "") => {
    if (!holds) violations.push(`${name} ${what}: ${output.replaceAll(secret, "spt_…").slice(-600)}`)
  }
  const revokeAll = Effect.gen(function* () {
    for (const { grant_id } of yield* standing(folder, project_id)) {
      yield* admin(folder, "revoke-oauth-grant", "--grant", grant_id)
    }
  })
  const canWrite = Effect.map(standing(folder, project_id), (grants) =>
    grants.some(({ scopes }) => scopes.join(" ") === writes)
  )
  const call = (at: Desk, calls: ReadonlyArray<ToolCall>, given: Given = {}) =>
    Effect.promise(() => client.call(at, url, calls, given))
  const signIn = Effect.fnUntraced(function* (at: Desk, when: string, given: Given = {}) {
    if (client.signIn === undefined) return
    const { output } = yield* Effect.promise(() => client.signIn!(at, url, given))
    expect(yield* canWrite, `does not sign in to write ${when}`, output)
  })

  const person = desk()
  yield* signIn(person, "at first")
  const [identity = ""] = yield* call(person, [{ tool: "server_identity", given: {} }])
  const found = /\{\s*\\*"resource\\*":[^{}]*\\*"project_id\\*":[^{}]*\}/.exec(identity)?.[0]
  expect(found !== undefined, "does not sign in", identity)
  if (found === undefined) return
  const write_context = JSON.parse(found.replaceAll(/\\+n/g, " ").replaceAll("\\", "")) as object
  const write = Effect.fnUntraced(function* (when: string, at = person, given: Given = {}) {
    const [note = "", task = ""] = yield* call(
      at,
      [
        { tool: "memory_add", given: { write_context, kind: "note", title: when, body: when } },
        { tool: "task_create", given: { write_context, title: when } }
      ],
      given
    )
    expect(/created_at/.test(note), `cannot write a note ${when}`, note)
    expect(/version/.test(task), `cannot write a task ${when}`, task)
  })
  yield* write("after the sign-in")
  expect(person.allowed === 1, `signs in ${person.allowed} times to write once`)

  yield* Effect.sleep(`${accessTtl + 1} seconds`)
  yield* write("after a refresh")
  expect(person.allowed === 1, "signs in again instead of refreshing")

  yield* revokeAll
  yield* signIn(person, "after a revocation")
  yield* write("after a revocation")
  expect(person.allowed > 1, "was not asked to sign in again after a revocation")

  const holder = desk()
  yield* write("with a header token", holder, { header: secret })
  expect(holder.allowed === 0, "signs in although it has a token")

  if (client.redirect_uri !== undefined) {
    const given = yield* admin(folder, "create-oauth-client", "--name", name, "--redirect-uri", client.redirect_uri)
    const stranger = desk()
    yield* signIn(stranger, "as a client that the operator created", given)
    yield* write("as a client that the operator created", stranger, given)
  }
})

chaos(
  "clients",
  () => ({ clients: figures }),
  Effect.gen(function* () {
    const folder = yield* scratch
    const settings = { SERVICE_OAUTH_ACCESS_TTL_SECONDS: String(accessTtl) }
    const on = yield* server(folder, settings)
    const made = yield* project(folder)
    for (const client of realClients) {
      const name = client.package
      const at = join(folder, "programs", name.replaceAll(/\W/g, "-"))
      mkdirSync(at, { recursive: true })
      const commands = yield* Effect.promise(() => install(at, name))
      if (commands === undefined) {
        figures[name] = "cannot be installed here"
        continue
      }
      const before = violations.length
      yield* play(client, commands, folder, on, made)
      figures[name] = `${versions[name]} ${violations.length === before ? "works" : "fails"}`
    }
    return { figures: { clients: figures }, violations }
  }),
  "20 minutes"
)
