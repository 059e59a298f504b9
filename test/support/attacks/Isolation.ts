/**
 * Three projects, and every operation that takes an id, called with ids of the other two (spec 1.5, 5): the answer is that
 * to an unknown id, and nothing changes.
 *
 * The id of a foreign challenge is the one exception: `enrollment_challenge_mismatch` is a code of the specification.
 */
import { Effect, Redacted } from "effect"
import * as fc from "fast-check"
import { SqlClient } from "effect/sql"
import { randomUUID } from "node:crypto"
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import * as Tokens from "../../../src/platform/crypto/Tokens.ts"
import { exchange, makeClient, obtainCode, post, refresh, signIn } from "../agents/Agent.ts"
import { Bridge } from "../bridges/Bridge.ts"
import type { Answer } from "../network/Http.ts"
import { Agent } from "../agents/McpAgent.ts"
import { everything, makeRegisteredPhone } from "../phones/Phone.ts"
import { hasGit } from "../agents/Repository.ts"
import { makePerson } from "../people/SignIn.ts"
import { pinDocument, type World } from "./Targets.ts"
import { tokens } from "../bridges/Tokens.ts"

/** A project with one thing of every kind. `folder` holds the repository of its document. */
const tenant = Effect.fnUntraced(function* (on: World, folder: string) {
  const agent = yield* Agent.make(on)
  const { project_id } = agent
  mkdirSync(folder)
  const entry = yield* agent.note("A secret of the project: ostrich")
  const task = yield* agent.task("A secret task")
  const closed = yield* agent.task("Another")
  yield* agent.update(closed, { status: "done" })
  const document = hasGit ? yield* pinDocument(on, folder, project_id) : undefined

  const person = yield* makePerson(on, { project_id })
  const phone = yield* makeRegisteredPhone(on, person)
  const client_id = yield* makeClient(on)
  const signedIn = yield* signIn(on, { client_id, token: agent.token })
  const { code, verifier } = yield* obtainCode(on, { client_id, token: agent.token })

  const held = tokens(on)
  const rotation = Effect.gen(function* () {
    const token: string = yield* (yield* Bridge.make(on)).enroll(on)
    const { body } = yield* held.prepare(token)
    return { successor: body.successor_token as string, rotation_id: body.rotation_id as string }
  })
  const [confirming, aborting] = [yield* rotation, yield* rotation]
  const newcomer = yield* Bridge.make(on)

  const ids = {
    project: newcomer.project_id,
    place: project_id,
    entry: entry.id as string,
    task: task.id as string,
    document: document?.document_id ?? randomUUID(),
    device: phone.device_id,
    confirming: confirming.rotation_id,
    aborting: aborting.rotation_id,
    refresh: signedIn.refresh_token,
    access: signedIn.access_token,
    code
  }
  return { on, agent, phone, client_id, verifier, held, confirming, aborting, newcomer, ids }
})
export type Tenant = Effect.Success<ReturnType<typeof tenant>>
type Kind = keyof Tenant["ids"]

const token = (kind: Tokens.TokenKind) => Effect.map(Tokens.mint(kind), Redacted.value)
/** Ids and secrets that do not exist. */
const unknown = (kind: Kind) =>
  kind === "refresh"
    ? token("srt")
    : kind === "access"
      ? token("sat")
      : kind === "code"
        ? token("sac")
        : Effect.sync(randomUUID)

type Use = readonly [Kind, (me: Tenant, id: string) => Effect.Effect<Answer>]

const tool = (kind: Kind, name: string, given: (id: string) => object): Use => [
  kind,
  ({ agent }, id) => Effect.map(agent.call(name, given(id) as never), ({ answer }) => answer)
]
const writing = (kind: Kind, name: string, given: (id: string) => object): Use => [
  kind,
  ({ agent }, id) => Effect.map(agent.write(name, given(id) as never), ({ answer }) => answer)
]
const receipt = { session_ref: "s", worker: "w", outcome: "handoff", summary: "x" }

/** In this order, each operation succeeds with an id of its own project. */
const uses: Readonly<Record<string, Use>> = {
  "reading an entry": tool("entry", "memory_get", (id) => ({ id })),
  "reading a task": tool("task", "task_get", (id) => ({ id })),
  ...(hasGit && { "reading a document": tool("document", "git_document_get", (id) => ({ document_id: id })) }),
  "naming a task in an entry": writing("task", "memory_add", (id) => ({ kind: "note", body: "x", task_id: id })),
  "depending on a task": writing("task", "task_create", (id) => ({ title: "x", depends_on: [id] })),
  "depending on it with a key": writing("task", "task_create", (id) => ({
    title: "x",
    depends_on: [id],
    idempotency_key: "k"
  })),
  "updating a task": writing("task", "task_update", (id) => ({ id, expected_version: 1, title: "stolen", receipt })),
  "superseding an entry": writing("entry", "memory_add", (id) => ({ kind: "note", body: "x", supersedes: id })),
  "writing to a project": [
    "place",
    ({ agent }, project_id) => {
      const write_context = { ...agent.write_context, project_id }
      return Effect.map(agent.call("memory_add", { write_context, kind: "note", body: "x" }), ({ answer }) => answer)
    }
  ],
  "reading a device": ["device", ({ phone }, id) => phone.get(id)],
  "setting preferences": ["device", ({ phone }, id) => phone.prefer(id, everything)],
  "setting preferences under a condition": [
    "device",
    ({ phone }, id) => phone.prefer(id, everything, { headers: { "if-match": '"2"' } })
  ],
  "revoking a device": ["device", ({ phone }, id) => phone.revoke(id)],
  "enrolling in a project": [
    "project",
    ({ newcomer, on }, project_id) => newcomer.askChallenge(on, { body: { project_id } })
  ],
  "confirming a rotation": ["confirming", ({ confirming, held }, id) => held.confirm(confirming.successor, id)],
  "aborting a rotation": ["aborting", ({ aborting, held }, id) => held.abort(aborting.successor, id)],
  "exchanging a code": [
    "code",
    ({ client_id, on, verifier }, code) => exchange(on, { client_id, code, code_verifier: verifier })
  ],
  "refreshing a sign-in": ["refresh", ({ client_id, on }, refresh_token) => refresh(on, { client_id, refresh_token })]
}

/** RFC 7009: the answer is always the same, so only the rows show the effect. */
const silent: Readonly<Record<string, Use>> = {
  "revoking an access token": ["access", ({ client_id, on }, token) => post(`${on.url}/revoke`, { client_id, token })],
  "revoking a refresh token": ["refresh", ({ client_id, on }, token) => post(`${on.url}/revoke`, { client_id, token })]
}
const all = { ...uses, ...silent }

const shown = ({ headers, status, text }: Answer) => {
  const { date: _, "x-request-id": __, "keep-alive": ___, ...rest } = Object.fromEntries(headers)
  return JSON.stringify([status, rest, text])
}

/** Every row except those of the audit log, which may count a refusal, and except times of last use. */
const state = SqlClient.SqlClient.use((sql) =>
  Effect.flatMap(
    sql<{ readonly name: string }>`
      select table_name as name
        from information_schema.tables
       where table_schema = 'public'
         and table_name !~ '^audit_'
       order by 1`,
    Effect.forEach(({ name }) =>
      Effect.map(
        sql<{ readonly digest: string | null }>`
          select md5(string_agg(md5((to_jsonb(t) - 'last_used_at')::text), '' order by (to_jsonb(t) - 'last_used_at')::text)) as digest
            from ${sql(name)} t`,
        ([row]) => `${name} ${row!.digest}`
      )
    )
  )
)

const changes = (before: ReadonlyArray<string>, after: ReadonlyArray<string>) =>
  before.flatMap((line, index) => (line === after[index] ? [] : [line.split(" ")[0]!])).join(", ")

/** `count` operations with foreign ids, in chunks between which the rows are compared. */
export const isolation = Effect.fnUntraced(function* (
  on: World,
  {
    chunk,
    count,
    folder,
    seed
  }: { readonly chunk: number; readonly count: number; readonly folder: string; readonly seed: number }
) {
  const tenants = yield* Effect.forEach(["a", "b", "c"], (name) => tenant(on, join(folder, name)))
  const violations = new Set<string>()
  const step = fc.record({
    by: fc.nat(2),
    of: fc.integer({ min: 1, max: 2 }),
    name: fc.constantFrom(...Object.keys(all))
  })
  const steps = fc.sample(step, { numRuns: count, seed })
  let before = yield* state
  for (let from = 0; from < count; from += chunk) {
    const some = steps.slice(from, from + chunk)
    yield* Effect.forEach(
      some,
      Effect.fnUntraced(function* ({ by, name, of }) {
        const [kind, use] = all[name]!
        const foreign = yield* use(tenants[by]!, tenants[(by + of) % 3]!.ids[kind])
        const random = yield* use(tenants[by]!, yield* unknown(kind))
        if (shown(foreign) !== shown(random)) violations.add(`${name}: ${shown(foreign)} is not ${shown(random)}`)
        if (foreign.text.includes("ostrich")) violations.add(`${name} shows something of another project`)
      }),
      { concurrency: 8, discard: true }
    )
    const after = yield* state
    const changed = changes(before, after)
    if (changed !== "")
      violations.add(`${changed} changed by one of: ${[...new Set(some.map(({ name }) => name))].join(", ")}`)
    before = after
  }

  // An operation that ignores its own ids too would prove nothing.
  for (const [name, [kind, use]] of Object.entries(uses)) {
    const own = yield* use(tenants[0]!, tenants[0]!.ids[kind])
    const random = yield* use(tenants[0]!, yield* unknown(kind))
    if (shown(own) === shown(random)) violations.add(`${name} ignores its id: ${shown(own)}`)
  }
  for (const [name, [kind, use]] of Object.entries(silent)) {
    const earlier = yield* state
    yield* use(tenants[1]!, tenants[1]!.ids[kind])
    if (changes(earlier, yield* state) === "") violations.add(`${name} ignores its id`)
  }
  return { violations: [...violations], operations: Object.keys(all).length }
})
