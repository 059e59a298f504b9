/** Questions that an agent asks, and people who answer them without a console. */
import { Context, Effect } from "effect"
import { randomUUID } from "node:crypto"
import { Decisions } from "../../../src/agents/decisions/Decisions.ts"
import type { Actor } from "../../../src/wire/Actor.ts"
import { ofRole } from "../../../src/wire/Scopes.ts"
import type { Agent } from "./McpAgent.ts"

export const question = "Should invoices be PDF or UBL?\nBoth work; UBL costs a day more."
export const choices = ["PDF", "UBL"]

/** A task at work that asks a person. */
export const ask = Effect.fnUntraced(function* (agent: Agent, given: Readonly<Record<string, unknown>> = {}) {
  const task = yield* agent.task("Choose the invoice format")
  const started = yield* agent.update(task, { status: "in_progress", assignee: "agent-1" })
  const asked = { status: "blocked", blocked_kind: "decision", blocked_reason: question, choices, ...given }
  const { output, text } = yield* agent.update(started.output.task, asked)
  if (output === undefined) throw new Error(text)
  return output.task
})

/** A person with a project token of their own. */
export const person = (project_id: string, token_id: string = randomUUID()): Actor => ({
  project_id,
  project_name: "Test project",
  role: "contributor",
  scopes: new Set(ofRole("contributor")),
  credential_id: token_id,
  subject: token_id,
  client_id: null,
  grant_id: null,
  instance_id: "",
  limits: {}
})

/** Answers as `actor`, with the label Ada. */
export const answer = (
  { services }: { readonly services: Context.Context<Decisions> },
  actor: Actor,
  { id, version }: { readonly id: string; readonly version: number },
  text: string,
  idempotency_key?: string
) =>
  Context.get(services, Decisions).answer(
    actor,
    { kind: "token", id: actor.credential_id, label: "Ada" },
    { id, expected_version: version, text, ...(idempotency_key !== undefined && { idempotency_key }) }
  )
