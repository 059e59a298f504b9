/** The operator's work on documents, files and deliveries, with each statement failing in every way a database fails. */
import { layer } from "@effect/vitest"
import { Context, Effect, Layer, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import { Transfer } from "../../../src/agents/transfer/Transfer.ts"
import { Documents, type Pin } from "../../../src/agents/documents/Documents.ts"
import { Projects } from "../../../src/operator/projects/Projects.ts"
import { PushAdmin } from "../../../src/push/admin/PushAdmin.ts"
import { command, type Operation, sweep } from "../../support/attacks/Failpoints.ts"
import { Agent } from "../../support/agents/McpAgent.ts"
import { makeRegisteredPhone } from "../../support/phones/Phone.ts"
import { hasGit, repository } from "../../support/agents/Repository.ts"
import { Service } from "../../support/service/Service.ts"
import { masked, rowsOf } from "../../support/attacks/Shape.ts"
import { makePerson } from "../../support/people/SignIn.ts"

const path = "guide.md"

/** Read-only input: a repository, and a project's file with every kind of row. */
class Given extends Context.Service<
  Given,
  { readonly place: Pick<Pin, "directory" | "commit">; readonly file: string }
>()("test/Given") {
  static readonly layer = Layer.effect(
    Given,
    Effect.gen(function* () {
      const service = yield* Service
      const agent = yield* Agent.make(service)
      yield* agent.note("A note")
      const task = yield* agent.task("A task")
      yield* agent.task("A later task", { depends_on: [task.id] })
      const receipt = { session_ref: "s", worker: "w", outcome: "progress", summary: "Begun" }
      yield* agent.update(task, { status: "in_progress", receipt })
      let file = ""
      const write = (text: string) => Effect.sync(() => void (file += text))
      yield* Context.get(service.services, Transfer).save(agent.project_id, write)
      if (!hasGit) return { place: { directory: "", commit: "" }, file }
      const { commit, directory } = yield* repository
      return { place: { directory, commit: commit({ [path]: "# Guide\n" }) }, file }
    })
  ).pipe(Layer.provideMerge(Service.layer))
}

const project = Effect.gen(function* () {
  const { services } = yield* Service
  const sql = yield* SqlClient.SqlClient
  yield* sql`delete from pinned_document`
  yield* sql`delete from document_blob`
  const { project_id } = yield* Context.get(services, Projects).create("Harbour")
  const { file, place } = yield* Given
  const pin = { ...place, project_id, path, repository: "acme/shop", title: "Guide", bootstrap: false }
  return { project_id, file, pin, pinned: { document_id: "" } }
})
type Project = Effect.Success<typeof project>
const ofProject = command<Project>()

const pinning: Readonly<Record<string, Operation<Project>>> = {
  "pin a document": ofProject((on, { pin }) => Context.get(on, Documents).pin(pin)),
  "unpin a document": {
    ...ofProject((on, { pinned }) => Context.get(on, Documents).unpin(pinned.document_id)),
    after: ({ services }, { pin, pinned }) =>
      Effect.map(Context.get(services, Documents).pin(pin), (answer) => Object.assign(pinned, answer)),
    again: "document_not_found"
  }
}

/** A phone with a notification that could not be delivered. */
const phone = Effect.gen(function* () {
  const service = yield* Service
  const sql = yield* SqlClient.SqlClient
  yield* sql`delete from mobile_device`
  yield* sql`alter table audit_event disable trigger user`
  yield* sql`delete from audit_event where project_id is null`
  const person = yield* makePerson(service)
  const { device_id } = yield* makeRegisteredPhone(service, person)
  const agent = yield* Agent.make(service, person)
  yield* agent.update(yield* agent.task("A task"), { status: "blocked", blocked_kind: "decision" })
  yield* sql`update push_outbox set state = 'dead', attempts = 8, settled_at = created_at`
  return { device_id }
})
const operator = command<Effect.Success<typeof phone>>()

const projectTables = [
  "pinned_document",
  "memory_entry",
  "memory_posting",
  "task",
  "task_dependency",
  "receipt",
  "audit_event"
]

layer(Given.layer)("when a statement fails", (it) => {
  sweep(
    it,
    project,
    ({ project_id }) =>
      masked(
        [
          ...projectTables.map((table) => rowsOf(table, "project_id = $1")),
          rowsOf("document_blob", "true"),
          "select 'count ' || sum(active) from memory_count where project_id = $1"
        ],
        [project_id]
      ),
    {
      ...(hasGit && pinning),
      "import a project": ofProject((on, { file, project_id }) =>
        Context.get(on, Transfer).load(project_id, Stream.make(Buffer.from(file)))
      )
    }
  )

  sweep(
    it,
    phone,
    ({ device_id }) =>
      masked(
        [
          ...["mobile_device", "push_outbox"].map((table) => rowsOf(table, "device_id = $1")),
          rowsOf("audit_event", "project_id is null")
        ],
        [device_id]
      ),
    {
      "retry dead letters": operator((on) => Context.get(on, PushAdmin).retryDead),
      "rekey push tokens": operator((on) => Context.get(on, PushAdmin).rekey)
    },
    { SERVICE_PUSH_TOKEN_KEYS: `own:${randomBytes(32).toString("base64")}` }
  )
})
