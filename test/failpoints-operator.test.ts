/** What an operator does with documents, files and deliveries, with each statement failing in each way a database fails. */
import { layer } from "@effect/vitest"
import { Context, Effect, Layer, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import { Transfer } from "../src/continuity/Transfer.ts"
import { Documents, type Pin } from "../src/documents/Documents.ts"
import { Projects } from "../src/projects/Projects.ts"
import { Deliveries } from "../src/push/Deliveries.ts"
import { command, type Operation, sweep } from "./support/Failpoints.ts"
import { Agent } from "./support/McpAgent.ts"
import { makeRegisteredPhone } from "./support/Phone.ts"
import { hasGit, repository } from "./support/Repository.ts"
import { Service } from "./support/Service.ts"
import { masked, rowsOf } from "./support/Shape.ts"
import { makePerson } from "./support/SignIn.ts"

class Guide extends Context.Service<Guide, Pick<Pin, "directory" | "commit" | "path">>()("test/Guide") {
  static readonly layer = Layer.effect(
    Guide,
    Effect.map(repository, ({ commit, directory }) => {
      const path = "guide.md"
      return { directory, commit: commit({ [path]: "# Guide\n" }), path }
    })
  )
}

/** A project with everything in it, the file of it, an empty one, and a phone that could not be told. */
const world = Effect.gen(function* () {
  const service = yield* Service
  const sql = yield* SqlClient.SqlClient
  yield* sql`delete from mobile_device`
  yield* sql`delete from pinned_document`
  yield* sql`delete from document_blob`
  const agent = yield* Agent.make(service)
  const { project_id } = agent
  yield* makeRegisteredPhone(service, yield* makePerson(service, { project_id }))
  yield* agent.note("A note")
  const task = yield* agent.task("A task")
  yield* agent.task("A later task", { depends_on: [task.id] })
  const receipt = { session_ref: "s", worker: "w", outcome: "blocked", summary: "Which colour?" }
  yield* agent.update(task, { status: "blocked", blocked_kind: "decision", receipt })
  yield* sql`update push_outbox set state = 'dead', attempts = 8, settled_at = created_at`
  yield* sql`delete from audit_event where project_id is null`
  const { project_id: empty } = yield* Context.get(service.services, Projects).create("Elsewhere")
  let file = ""
  const write = (text: string) => Effect.sync(() => void (file += text))
  yield* Context.get(service.services, Transfer).save(project_id, write, () => Effect.void)
  const place = { project_id, repository: "acme/shop", title: "Guide", bootstrap: false }
  return {
    project_id,
    empty,
    file,
    pin: hasGit ? { ...place, ...(yield* Guide) } : undefined,
    pinned: { document_id: "" }
  }
})
type World = Effect.Success<typeof world>

const projectTables = [
  "pinned_document",
  "memory_entry",
  "memory_posting",
  "task",
  "task_dependency",
  "receipt",
  "mobile_device",
  "push_outbox"
]

const shapeOf = ({ empty, project_id }: World) =>
  masked(
    [
      ...projectTables.map((table) => rowsOf(table, "project_id in ($1, $2)")),
      rowsOf("audit_event", "project_id is null or project_id in ($1, $2)"),
      rowsOf("document_blob", "true"),
      "select 'count ' || sum(active) from memory_count where project_id = $2"
    ],
    [project_id, empty]
  )

const operator = command<World>()

const pinning: Readonly<Record<string, Operation<World>>> = {
  "pin a document": operator((on, { pin }) => Context.get(on, Documents).pin(pin!)),
  "unpin a document": {
    ...operator((on, { pinned }) => Context.get(on, Documents).unpin(pinned.document_id)),
    after: ({ services }, { pin, pinned }) =>
      Effect.map(Context.get(services, Documents).pin(pin!), ({ document_id }) => {
        pinned.document_id = document_id
      }),
    again: "document_not_found"
  }
}

layer(Layer.merge(Service.layer, Guide.layer))("when a statement fails", (it) =>
  sweep(
    it,
    world,
    shapeOf,
    {
      ...(hasGit && pinning),
      "import a project": operator((on, { empty, file }) =>
        Context.get(on, Transfer).load(empty, Stream.make(Buffer.from(file)), () => Effect.void)
      ),
      "retry dead letters": operator((on) => Context.get(on, Deliveries).retryDead),
      "rekey push tokens": operator((on) => Context.get(on, Deliveries).rekey)
    },
    { SERVICE_PUSH_TOKEN_KEYS: `own:${randomBytes(32).toString("base64")}` }
  )
)
