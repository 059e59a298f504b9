/**
 * What callers leave unfinished at one release and go on with at another: each `leave` returns what the caller does next,
 * and that can be done at any service with these rows and secrets.
 *
 * Everything is done as old callers do it: by the endpoints of 0.1.0, without any field that came later.
 */
import { Cause, Effect } from "effect"
import { randomBytes, randomUUID } from "node:crypto"
import { isDeepStrictEqual } from "node:util"
import { generateKeyPair } from "../../../../../src/client/Crypto.ts"
import { answerOf, authorizeQuery, Browser, exchange, pkce, refresh, signIn } from "../../../../support/agents/Agent.ts"
import { Agent } from "../../../../support/agents/McpAgent.ts"
import { Bridge } from "../../../../support/bridges/Bridge.ts"
import { tokens } from "../../../../support/bridges/Tokens.ts"
import type { Answer } from "../../../../support/network/Http.ts"
import { makePhone } from "../../../../support/phones/Phone.ts"

/** Where a service answers. */
export interface At {
  readonly url: string
}

/** What the operator of the first release made. */
export interface Project {
  readonly project_id: string
  readonly token: string
  /** Of an agent, and of the app of a phone. */
  readonly client_id: string
  readonly app_id: string
  /** Bootstrap credentials; each enrollment takes one. */
  readonly credentials: Array<string>
}

/** Reports what differs from what a caller has to find. */
export type Expect = (what: string, seen: unknown, wanted: unknown) => void

export const expecting =
  (violations: Array<string>, where: string): Expect =>
  (what, seen, wanted) => {
    if (isDeepStrictEqual(seen, wanted)) return
    violations.push(`${where}: ${what}: ${JSON.stringify(seen)} instead of ${JSON.stringify(wanted)}`)
  }

type Next = (at: At, expect: Expect) => Effect.Effect<unknown>
type Leave = (at: At, project: Project) => Effect.Effect<Next, unknown>

/** The status, and the code of a refusal. */
const said = ({ body, code, status }: Answer) => `${status} ${code ?? body?.error ?? ""}`.trim()

export const newBridge = Effect.fnUntraced(function* ({ credentials, project_id }: Project) {
  const keys = yield* generateKeyPair
  const credential = credentials.pop()
  if (credential === undefined) return yield* Effect.die("There are too few bootstrap credentials.")
  return new Bridge({ project_id, bridge_id: `bridge-${randomUUID()}`, keys, credential, credential_id: "" })
})

/** An agent that sends what agents of 0.1.0 send. */
export const connect = (at: At, { project_id, token }: Project, credential = token) =>
  Agent.connect({ url: at.url, token: credential, project_id })
export const write = (agent: Agent, tool: string, given: Readonly<Record<string, unknown>>) =>
  agent.call(tool, { ...given, write_context: agent.write_context })

export const person = (at: At, { client_id, token }: Project) =>
  signIn({ ...at, services: undefined as never }, { client_id, token, query: { scope: agentScopes } })
const agentScopes = "context:read memory:read memory:write tasks:read tasks:write"

const rotation = (end: "confirm" | "abort"): Leave =>
  Effect.fnUntraced(function* (at, project) {
    const bridge = yield* newBridge(project)
    const token = yield* bridge.enroll(at)
    const { rotation_id, successor_token } = (yield* tokens(at).prepare(token)).body
    return (now, expect) =>
      Effect.gen(function* () {
        const { abort, confirm, prepare, self } = tokens(now)
        const again = yield* prepare(token)
        expect("the prepare, repeated", [said(again), again.body.successor_token], ["201", successor_token])
        const ended = yield* { abort, confirm }[end](successor_token, rotation_id)
        expect(`the ${end}`, said(ended), "200")
        const [kept, gone] = end === "confirm" ? [successor_token, token] : [token, successor_token]
        expect("the token that is left", said(yield* self(kept)), "200")
        expect("the token that ended", (yield* self(gone)).status, 401)
        expect("the next rotation", said(yield* prepare(kept, "bridge-rotate-2")), "201")
      })
  })

const openChallenge: Leave = Effect.fnUntraced(function* (at, project) {
  const bridge = yield* newBridge(project)
  const challenge = yield* bridge.askChallenge(at)
  return (now, expect) =>
    Effect.gen(function* () {
      const again = yield* bridge.askChallenge(now)
      expect("the challenge, repeated", [said(again), again.body.nonce_b64], ["201", challenge.body.nonce_b64])
      expect("the proof", said(yield* bridge.prove(now, challenge)), "200")
    })
})

const lostProof: Leave = Effect.fnUntraced(function* (at, project) {
  const bridge = yield* newBridge(project)
  const challenge = yield* bridge.askChallenge(at)
  const { access_token } = (yield* bridge.prove(at, challenge)).body
  return (now, expect) =>
    Effect.gen(function* () {
      const again = yield* bridge.prove(now, challenge)
      expect("the proof, repeated", [said(again), again.body.access_token], ["200", access_token])
    })
})

const lostConfirm: Leave = Effect.fnUntraced(function* (at, project) {
  const bridge = yield* newBridge(project)
  const token = yield* bridge.enroll(at)
  const { rotation_id, successor_token } = (yield* tokens(at).prepare(token)).body
  yield* tokens(at).confirm(successor_token, rotation_id)
  return (now, expect) =>
    Effect.gen(function* () {
      expect("the confirm, repeated", said(yield* tokens(now).confirm(successor_token, rotation_id)), "200")
      expect("the token", said(yield* tokens(now).self(successor_token)), "200")
    })
})

const signedIn: Leave = Effect.fnUntraced(function* (at, project) {
  const { access_token, client_id, refresh_token } = yield* person(at, project)
  return (now, expect) =>
    Effect.gen(function* () {
      const works = (credential: string) =>
        Effect.flatMap(connect(now, project, credential), (agent) => agent.call("continuity_context"))
      expect("the access token", (yield* works(access_token)).code, undefined)
      const refreshed = yield* refresh(now, { client_id, refresh_token })
      expect("the refresh", said(refreshed), "200")
      expect("the next access token", (yield* works(refreshed.body.access_token)).code, undefined)
    })
})

/** The answer to the refresh is lost. */
export const usedRefresh: Leave = Effect.fnUntraced(function* (at, project) {
  const { client_id, refresh_token } = yield* person(at, project)
  const successor = (yield* refresh(at, { client_id, refresh_token })).body.refresh_token
  return (now, expect) =>
    Effect.gen(function* () {
      const again = yield* refresh(now, { client_id, refresh_token })
      expect("the refresh, repeated", [said(again), again.body.refresh_token], ["200", successor])
      expect("the next refresh", said(yield* refresh(now, { client_id, refresh_token: successor })), "200")
    })
})

/** The consent page is open; `entered`: the project token was entered already. */
const consent = (entered: boolean): Leave =>
  Effect.fnUntraced(function* (at, { client_id, token }) {
    const { challenge, verifier } = pkce()
    const browser = new Browser(at.url)
    const query = authorizeQuery({ client_id, code_challenge: challenge, scope: agentScopes })
    const page = yield* browser.authorize(query)
    const shown = entered ? yield* browser.submit(page, { project_token: token }) : page
    return (now, expect) =>
      Effect.gen(function* () {
        const later = new Browser(now.url, browser.cookies)
        const decision = entered ? shown : yield* later.submit(shown, { project_token: token })
        const { code } = answerOf(yield* later.submit(decision, { decision: "allow" }))
        const got = yield* exchange(now, { client_id, code, code_verifier: verifier })
        expect("the exchange of the code", said(got), "200")
      })
  })

const lostAnswers: Leave = Effect.fnUntraced(function* (at, project) {
  const agent = yield* connect(at, project)
  const ferry = `ferry${randomBytes(4).toString("hex")}`
  const note = { kind: "decision", body: `The ${ferry} leaves at seven.`, tags: [ferry], idempotency_key: ferry }
  const added = yield* write(agent, "memory_add", note)
  const task = { title: `Paint the ${ferry}`, priority: 1, idempotency_key: ferry }
  const created = yield* write(agent, "task_create", task)
  const change = {
    id: created.output.task.id,
    expected_version: 1,
    status: "in_progress",
    assignee: "painter",
    receipt: { session_ref: "session-1", worker: "painter", outcome: "progress", summary: "Half of it." },
    idempotency_key: ferry
  }
  const updated = yield* write(agent, "task_update", change)
  return (now, expect) =>
    Effect.gen(function* () {
      const later = agent.at(now)
      for (const [tool, given, first] of [
        ["memory_add", note, added],
        ["task_create", task, created],
        ["task_update", change, updated]
      ] as const) {
        const { code, output } = yield* write(later, tool, given)
        const idOf = (of: any) => of?.entry?.id ?? of?.task?.id
        const seen = { code, id: idOf(output), version: output?.task?.version, replayed: output?.replayed }
        const wanted = { code: undefined, id: idOf(first.output), version: first.output.task?.version, replayed: true }
        expect(`${tool}, repeated`, seen, wanted)
      }
      const other = yield* write(later, "memory_add", { ...note, body: "At eight." })
      expect("another request with the key", other.code, "idempotency_conflict")
      const found = yield* later.call("task_get", { id: change.id })
      const { assignee, receipts, version } = { ...found.output?.task, receipts: found.output?.receipts?.length }
      expect("the task", { assignee, receipts, version }, { assignee: "painter", receipts: 1, version: 2 })
      const next = { id: change.id, expected_version: 2, status: "done" }
      expect("the next update", (yield* write(later, "task_update", next)).code, undefined)
      const hits = yield* later.call("memory_search", { query: `when does the ${ferry} leave` })
      expect("the search", hits.output?.entries?.[0]?.id, added.output.entry.id)
    })
})

/** In a page of a list, with a cursor to the next one. */
const halfOfAList: Leave = Effect.fnUntraced(function* (at, project) {
  const agent = yield* connect(at, project)
  const tag = `list-${randomUUID()}`
  for (const n of ["one", "two", "three"]) {
    yield* write(agent, "task_create", { title: n, tags: [tag] })
    yield* write(agent, "memory_add", { kind: "note", body: n, tags: [tag] })
  }
  const lists = [
    ["task_list", { tag, limit: 2 }, "tasks"],
    ["memory_search", { tags: [tag], limit: 2 }, "entries"]
  ] as const
  const begun = yield* Effect.forEach(lists, ([tool, given, items]) =>
    Effect.map(agent.call(tool, given), ({ output }) => ({ tool, given, items, output }))
  )
  return (now, expect) =>
    Effect.forEach(begun, ({ given, items, output, tool }) =>
      Effect.gen(function* () {
        const rest = yield* agent.at(now).call(tool, { ...given, cursor: output.next_cursor })
        const ids = [...output[items], ...(rest.output?.[items] ?? [])].map(({ id }: { readonly id: string }) => id)
        expect(`${tool} from its cursor`, { code: rest.code, items: new Set(ids).size }, { code: undefined, items: 3 })
      })
    )
})

const phone: Leave = Effect.fnUntraced(function* (at, project) {
  const { phone, registered } = yield* registeredPhone(at, project)
  return (now, expect) =>
    Effect.gen(function* () {
      const later = makePhone(now, phone.person, phone.token)
      const found = yield* later.get(registered.device_id)
      const { device_id, preferences: kept } = found.body
      expect("the phone", [device_id, kept?.minimum_priority], [registered.device_id, "low"])
      const again = yield* later.register({ preferences })
      expect("its registration, repeated", [said(again), again.body.device_id], ["200", registered.device_id])
    })
})

const preferences = { kinds: {}, minimum_priority: "low", quiet_hours: null, paused_until: null }

/** A phone of a person who has signed in. */
export const registeredPhone = Effect.fnUntraced(function* (at: At, { app_id, token }: Project) {
  const query = { scope: "mobile:devices" }
  const { access_token } = yield* signIn({ ...at, services: undefined as never }, { client_id: app_id, token, query })
  const person = { bearer: access_token }
  const phone = makePhone(at, person)
  const registered = yield* phone.register({ preferences })
  if (registered.status !== 201) return yield* Effect.die(`${registered.status} ${registered.text}`)
  return { phone: { token: phone.token, person }, registered: registered.body as { readonly device_id: string } }
})

/** What can wait for as long as an upgrade takes. */
export const unfinished: Readonly<Record<string, Leave>> = {
  "a pending rotation that is confirmed": rotation("confirm"),
  "a pending rotation that is aborted": rotation("abort"),
  "an open challenge": openChallenge,
  "a lost answer to a proof": lostProof,
  "a lost answer to a confirm": lostConfirm,
  "a sign-in": signedIn,
  "an open consent page": consent(false),
  "a consent page after the project token": consent(true),
  "lost answers of tools": lostAnswers,
  "half of a list": halfOfAList,
  "a phone": phone
}

/** Leaves each at one service; the result goes on with them at another. */
export const leaveAll = Effect.fnUntraced(function* (
  named: Readonly<Record<string, Leave>>,
  at: At,
  project: Project,
  violations: Array<string>
) {
  const reported = <A, E>(what: string, self: Effect.Effect<A, E>) =>
    Effect.catchCause(self, (cause) => {
      violations.push(`${what}: ${Cause.pretty(cause).slice(0, 400)}`)
      return Effect.undefined
    })
  const left = yield* Effect.forEach(Object.entries(named), ([name, leave]) =>
    Effect.map(reported(`leaving ${name}`, leave(at, project)), (next) => ({ name, next }))
  )
  return (now: At, where: string) =>
    Effect.forEach(
      left,
      ({ name, next }) =>
        next === undefined
          ? Effect.void
          : reported(`${where}, ${name}`, next(now, expecting(violations, `${where}, ${name}`))),
      { discard: true }
    )
})
