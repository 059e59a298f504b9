/** A person at the console, and a project in which something has happened. */
import { Context, Effect, Option } from "effect"
import { TestClock } from "effect/testing"
import { Agent } from "./McpAgent.ts"
import { type Instance, makeToken, post } from "./Agent.ts"
import { Bridge, type Instance as BridgeInstance } from "../bridges/Bridge.ts"
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
    const set = answer.headers.get("set-cookie")
    if (set !== null) this.cookie = set.split(";")[0]!
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
    entry_id: decision.entry.id as string,
    former_id: note.entry.id as string
  }
})
