/** Every mutation by agents, phones and their operator, with each of its statements failing. */
import { layer } from "@effect/vitest"
import { Context, Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { ProjectTokens } from "../../../src/signin/access/ProjectTokens.ts"
import { Memory } from "../../../src/agents/memory/Memory.ts"
import { Devices } from "../../../src/people/mobile/Devices.ts"
import { Clients } from "../../../src/signin/oauth/clients/Clients.ts"
import { Grants } from "../../../src/signin/oauth/grants/Grants.ts"
import { exchange, obtainCode, post, refresh } from "../../support/agents/Agent.ts"
import { command, type On, type Operation, request, type Shape, sweep } from "../../support/attacks/Failpoints.ts"
import { Agent, type Called } from "../../support/agents/McpAgent.ts"
import { everything, makePhone, makeRegisteredPhone } from "../../support/phones/Phone.ts"
import { Service } from "../../support/service/Service.ts"
import { masked, rowsOf } from "../../support/attacks/Shape.ts"
import { makePerson } from "../../support/people/SignIn.ts"

/** A project with a signed-in phone. */
const world = Effect.gen(function* () {
  const service = yield* Service
  const sql = yield* SqlClient.SqlClient
  const person = yield* makePerson(service)
  const phone = yield* makeRegisteredPhone(service, person)
  const [grant] = yield* sql<{ readonly grant_id: string }>`
    select grant_id::text from oauth_grant where client_id = ${person.client_id}`
  return { project_id: person.project_id, person, phone, grant_id: grant!.grant_id }
})
type World = Effect.Success<typeof world>

/** The same with an agent and its entries. */
const worldOfAgent = Effect.gen(function* () {
  const made = yield* world
  const agent = yield* Agent.make(yield* Service, made)
  const note = yield* agent.note("An earlier note")
  const task = yield* agent.task("An earlier task")
  return { ...made, agent, note, task }
})
type WorldOfAgent = Effect.Success<typeof worldOfAgent>

/** The same with an unused authorization code. */
const wholeWorld = Effect.gen(function* () {
  const made = yield* worldOfAgent
  const app = yield* obtainCode(yield* Service, { token: Redacted.value(made.person.project_token) })
  return { ...made, app }
})
type WholeWorld = Effect.Success<typeof wholeWorld>

const projectTables = [
  "memory_entry",
  "memory_posting",
  "task",
  "task_dependency",
  "receipt",
  "idempotency_record",
  "project_token",
  "oauth_grant",
  "mobile_device",
  "mobile_registration",
  "push_outbox",
  "audit_event"
]
const grantTables = ["oauth_code", "oauth_access_token", "oauth_refresh_token"]

/** The clock does not move in these tests. */
const shapeOf = ({ app, person, project_id }: World & Partial<WholeWorld>) =>
  masked(
    [
      ...projectTables.map((table) => rowsOf(table, "project_id = $1")),
      ...grantTables.map((table) =>
        rowsOf(table, "grant_id in (select grant_id from oauth_grant where project_id = $1)")
      ),
      "select 'count ' || coalesce(sum(active), 0) from memory_count where project_id = $1",
      "select 'client ' || (disabled_at is null) from oauth_client where client_id in ($2, $3)"
    ],
    [project_id, app?.client_id ?? person.client_id, person.client_id]
  )

const tool = (run: (agent: Agent, world: WorldOfAgent) => Effect.Effect<Called>): Operation<WorldOfAgent> => ({
  run: (on, world) =>
    Effect.map(run(world.agent.at(on), world), ({ code, output }) => code ?? (output.replayed ? "replayed" : "done")),
  again: "replayed"
})

const http = request<WholeWorld>()
const operator = command<WholeWorld>()
const phone = request<World>()
const phoneAt = (on: On, { person, phone }: World) => makePhone(on, person, phone.token)
/** A retry may leave further tokens or an ended grant, so only the number of grants is compared. */
const grants = (shape: Shape) => shape.filter((row) => row.startsWith("oauth_grant")).length

/** Setting the same preferences again increments their version. */
const unversioned = (shape: Shape) =>
  shape.map((row) => (row.startsWith("mobile_device") ? row.replace(/,\d+,f,\)$/, ")") : row))

layer(Service.layer)("when a statement fails", (it) => {
  sweep(it, worldOfAgent, shapeOf, {
    memory_add: tool((agent, { note }) =>
      agent.write("memory_add", { kind: "note", body: "A better note", supersedes: note.id, idempotency_key: "add" })
    ),
    task_create: tool((agent, { task }) =>
      agent.write("task_create", { title: "A task", depends_on: [task.id], idempotency_key: "create" })
    ),
    task_update: tool((agent, { task }) =>
      agent.update(task, {
        status: "in_progress",
        assignee: "me",
        receipt: { session_ref: "s", worker: "w", outcome: "progress", summary: "Begun" },
        idempotency_key: "update"
      })
    ),
    "archive a note": command<WorldOfAgent>()((on, { note, project_id }) =>
      Context.get(on, Memory).archive(project_id, note.id)
    )
  })

  sweep(it, wholeWorld, shapeOf, {
    "exchange a code": http(
      "invalid_grant",
      (on, { app }) => exchange(on, { client_id: app.client_id, code: app.code, code_verifier: app.verifier }),
      { settled: grants }
    ),
    "refresh a token": http(
      "200",
      (on, { person }) =>
        refresh(on, { client_id: person.client_id, refresh_token: Redacted.value(person.refresh_token) }),
      { settled: grants }
    ),
    "revoke a refresh token": http("200", (on, { person }) =>
      post(`${on.url}/revoke`, { client_id: person.client_id, token: Redacted.value(person.refresh_token) })
    ),
    "revoke an access token": http("200", (on, { person }) =>
      post(`${on.url}/revoke`, { client_id: person.client_id, token: person.bearer })
    ),
    "revoke a project token": operator((on, { person }) => Context.get(on, ProjectTokens).revoke(person.subject)),
    "revoke a grant": operator((on, { grant_id }) => Context.get(on, Grants).revoke(grant_id)),
    "disable a client": operator((on, { person }) => Context.get(on, Clients).disable(person.client_id))
  })

  sweep(it, world, shapeOf, {
    "register a phone": phone(
      "200",
      (on, { person, project_id }) =>
        makePhone(on, person, project_id.replaceAll("-", "").repeat(2)).register({ preferences: everything }),
      // Registering it again renews it.
      { settled: (shape) => unversioned(shape.filter((row) => !row.includes("mobile_device.renewed"))) }
    ),
    "set preferences": phone(
      "200",
      (on, world) => phoneAt(on, world).prefer(world.phone.device_id, { ...everything, minimum_priority: "high" }),
      { settled: (shape) => new Set(unversioned(shape)) }
    ),
    "revoke a phone": phone("200", (on, world) => phoneAt(on, world).revoke(world.phone.device_id)),
    "end a phone": command<World>()((on, { phone }) => Context.get(on, Devices).end(phone.device_id))
  })
})
