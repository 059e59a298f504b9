/** A person at the console, an operator, and a project in which something has happened. */
import { Channels } from "../../../src/people/channels/Channels.ts"
import { makeSecret } from "../../../src/push/channels/webhook/webhook.ts"
import { Context, Effect, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { randomUUID } from "node:crypto"
import { Agent } from "../agents/McpAgent.ts"
import { type Instance, makeToken, post } from "../agents/Agent.ts"
import { makeRegisteredPhone } from "../phones/Phone.ts"
import { makeApp, signIn } from "./SignIn.ts"
import type { Service } from "../service/Service.ts"
import { repository } from "../agents/Repository.ts"
import { Documents } from "../../../src/agents/documents/Documents.ts"
import { Sessions } from "../../../src/signin/sessions/Sessions.ts"
import { Bridge, issueCredential, type Instance as BridgeInstance } from "../bridges/Bridge.ts"
import { Projects } from "../../../src/operator/projects/Projects.ts"
import { type Answer, send } from "../network/Http.ts"

/** Where the service's pages say that they come from. */
export const origin = "http://127.0.0.1:8787"

/** A browser with one cookie jar that is signed in to nothing. */
export class Person {
  cookie = ""
  declare readonly url: string
  declare readonly origin: string
  constructor(url: string, from = origin) {
    this.url = url
    this.origin = from
  }

  private keep = (answer: Answer) => {
    for (const set of answer.headers.getSetCookie()) {
      const [pair = ""] = set.split(";")
      const [name = ""] = pair.split("=")
      const others = this.cookie.split("; ").filter((cookie) => cookie !== "" && !cookie.startsWith(`${name}=`))
      this.cookie = [...others, pair].join("; ")
    }
    return answer
  }

  get(path: string, headers: Readonly<Record<string, string>> = {}): Effect.Effect<Answer> {
    return Effect.map(
      send(`${this.url}${path}`, { method: "GET", headers: { cookie: this.cookie, ...headers } }),
      this.keep
    )
  }

  post(
    path: string,
    fields: Readonly<Record<string, string>>,
    headers: Readonly<Record<string, string>> = { origin: this.origin }
  ): Effect.Effect<Answer> {
    return Effect.map(post(`${this.url}${path}`, fields, { cookie: this.cookie, ...headers }), this.keep)
  }

  signIn(project_token: string, to = "") {
    return this.post("/console/sign-in", { project_token, to })
  }
}

/** The value that the forms of a signed-in person's page carry. */
export const csrfOf = ({ text }: Answer): string => /name="csrf" value="([^"]+)"/.exec(text)?.[1] ?? ""

const hours = (count: number) => TestClock.adjust(`${count} hours`)

/** A project with tasks in every state, receipts, memory and two Bridges; `text` is part of every text of an agent. */
export const makeBusyProject = Effect.fnUntraced(function* (
  on: Instance & BridgeInstance,
  text = "",
  names: { readonly project?: string; readonly label?: string } = {}
) {
  const { project_id } = yield* Context.get(on.services, Projects).create(
    `${names.project ?? "Harbour"}${text}`.slice(0, 200)
  )
  yield* Context.get(on.services, Projects).approveReference(project_id, "github:octo", Option.none())
  const person = yield* makeToken(on, { project_id, label: names.label ?? "Ada" })
  const agent = yield* Agent.make(on, { project_id })
  const write = (tool: string, input: Readonly<Record<string, unknown>>) =>
    Effect.map(agent.write(tool, input), ({ output, text }) => {
      if (output === undefined) throw new Error(text)
      return output
    })

  yield* (yield* Bridge.make(on, { project_id, bridge_id: "bridge-lighthouse" })).enroll(on)
  yield* hours(6)
  yield* (yield* Bridge.make(on, { project_id, bridge_id: "bridge-pier" })).enroll(on)
  const tasks = yield* Effect.forEach(
    ["Choose the invoice format", "Move orders to the new queue", "Write the guide", "Remove the old endpoint"],
    (title, index) =>
      Effect.map(
        write("task_create", {
          title: `${title}${text}`,
          body: `Why: support asks for it.\nHow: see docs.${text}`,
          priority: index
        }),
        ({ task }) => task
      )
  )
  const [question, atWork, , done] = tasks
  const change = (task: any, changes: object) =>
    Effect.map(
      write("task_update", { id: task.id, expected_version: task.version, ...changes }),
      (output) => output.task
    )
  const receipt = (outcome: string) => ({
    session_ref: `session-${outcome}`,
    worker: `claude-code${text}`.slice(0, 120),
    outcome,
    summary: `Read the code, changed three files.${text}`,
    next_steps: [`Run the tests${text}`],
    pitfalls: [`The queue is slow${text}`],
    git_checkpoint: { repository: "acme/shop", branch: "main", commit_sha: "a".repeat(40), dirty: true }
  })
  const started = yield* change(question, { status: "in_progress", assignee: `agent-1${text}`.slice(0, 120) })
  yield* change(started, {
    status: "blocked",
    blocked_kind: "decision",
    blocked_reason: `Should invoices be PDF or UBL?\nBoth work; UBL costs a day more.${text}`,
    choices: ["PDF", `UBL${text}`.slice(0, 200)],
    receipt: receipt("blocked")
  })
  yield* change(yield* change(done, { status: "in_progress" }), { status: "done", receipt: receipt("completed") })
  yield* change(atWork, {
    status: "in_progress",
    assignee: "agent-2",
    depends_on: [done!.id],
    receipt: receipt("progress")
  })

  const note = yield* write("memory_add", {
    kind: "note",
    title: `Deploys happen on Tuesdays${text}`,
    body: `Never on Fridays.${text}`
  })
  const decision = yield* write("memory_add", {
    kind: "decision",
    title: `Deploys happen any day${text}`,
    body: `The pipeline is safe now.${text}`,
    supersedes: note.entry.id
  })
  yield* hours(15)
  return {
    project_id,
    token: person.token,
    token_id: person.token_id,
    agent,
    task_id: question!.id as string,
    /** At work, after another one. */
    dependent_id: atWork!.id as string,
    finished_id: done!.id as string,
    entry_id: decision.entry.id as string,
    former_id: note.entry.id as string
  }
})

type Running = Service["Service"]

/** The link that `open-console` prints: its code, its path, and a browser that has not used it yet. */
export const makeOperator = Effect.fnUntraced(function* (on: Running, project_id?: string) {
  const link = yield* Context.get(on.services, Sessions).makeLink("operator:ada@desk", project_id)
  const address = new URL(Redacted.value(link.url))
  return {
    code: address.searchParams.get("code")!,
    path: `${address.pathname}${address.search}`,
    person: new Person(on.url)
  }
})

/** An operator who has used their link. */
export const signedInOperator = Effect.fnUntraced(function* (on: Running) {
  const { code, person } = yield* makeOperator(on)
  yield* person.post("/console/enter", { code })
  return person
})

/** A project with something on each page of the operator: a document, a sign-in, a phone, a credential, a dead letter. */
export const makeEquippedProject = Effect.fnUntraced(function* (
  on: Running,
  text = "",
  names: Parameters<typeof makeBusyProject>[2] = {}
) {
  const made = yield* makeBusyProject(on, text, names)
  const { project_id } = made
  const clone = yield* repository
  const document = yield* Context.get(on.services, Documents).pin({
    project_id,
    directory: clone.directory,
    repository: `acme/shop${text}`.slice(0, 200),
    commit: clone.commit({ "docs/guide.md": "# Guide\n" }),
    path: "docs/guide.md",
    title: `Guide${text}`.slice(0, 200),
    bootstrap: true
  })
  const client_id = yield* makeApp(on)
  const person = yield* signIn(on, { client_id, token: Redacted.make(made.token) })
  const { device_id } = yield* makeRegisteredPhone(on, { bearer: Redacted.value(person.access_token) })
  const { channel_id } = yield* Context.get(on.services, Channels).create({
    project_id,
    kind: "webhook",
    url: "https://hooks.example.com/tasks",
    secret: makeSecret(),
    titles: false
  })
  const { credential_id } = yield* issueCredential(on, project_id)
  const sql = yield* SqlClient.SqlClient
  const [grant] = yield* sql<{ grant_id: string; now: Date }>`
    select grant_id, created_at as now from oauth_grant where project_id = ${project_id}::uuid`
  const { grant_id, now } = grant!
  const delivery_id = randomUUID()
  yield* sql`
    insert into push_outbox (
      delivery_id, event_id, device_id, project_id, kind, reference, priority, collapse_key, state, attempts, not_before,
      expires_at, last_status, last_reason, created_at, settled_at)
    values (${delivery_id}::uuid, ${randomUUID()}::uuid, ${device_id}::uuid, ${project_id}::uuid, 'task.blocked',
            ${made.task_id}::uuid, 2, ${`t:${delivery_id}`}, 'dead', 8, ${now}, ${now}::timestamptz + interval '1 day', 429,
            'TooManyRequests', ${now}, ${now})`
  const key_id = randomUUID()
  yield* sql`
    insert into person_key (
      person_key_id, credential_id, public_key, sign_count, label, project_token_id, project_id, created_at)
    values (${key_id}::uuid, sha256(${key_id}::bytea), sha256('public'), 0, ${`Laptop${text}`.slice(0, 80)},
            ${made.token_id}::uuid, ${project_id}::uuid, ${now})`
  return {
    ...made,
    key_id,
    document_id: document.document_id,
    client_id,
    grant_id,
    device_id,
    channel_id,
    credential_id,
    delivery_id
  }
})
