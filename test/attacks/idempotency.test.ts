/**
 * Every mutation that takes an idempotency key, sent again: to a restarted instance, while the first request is in flight,
 * with another body, and with another key.
 */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { Bridge } from "../support/bridges/Bridge.ts"
import type { Answer } from "../support/network/Http.ts"
import { Agent } from "../support/agents/McpAgent.ts"
import { everything, makePhone } from "../support/phones/Phone.ts"
import { unchanged } from "../support/database/Rows.ts"
import { instance, Service } from "../support/service/Service.ts"
import { makePerson } from "../support/people/SignIn.ts"
import { successorOf, tokens } from "../support/bridges/Tokens.ts"

interface At {
  readonly url: string
}
/** The answer, and the part of it that an exact retry must repeat. */
interface Came {
  readonly outcome: string
  readonly result: string
}
interface Send {
  readonly key: string
  /** A body that differs from the usual one. */
  readonly other?: boolean
}

interface Mutation {
  readonly make: Effect.Effect<(at: At, send: Send) => Effect.Effect<Came>, unknown, Service>
  readonly first: string
  readonly again: string
  /** Undefined if the request has no body. */
  readonly otherBody: string | undefined
  readonly otherKey: string
}

const ofHttp = ({ code, headers, status, text }: Answer): Came => ({
  outcome: code ?? `${status}${headers.get("idempotency-replayed") === "true" ? " replayed" : ""}`,
  result: text
})

const rotating = Effect.gen(function* () {
  const service = yield* Service
  const token = yield* (yield* Bridge.make(service)).enroll(service)
  return { token, ...successorOf(yield* tokens(service).prepare(token, "earlier")) }
})

const ending = (how: "confirm" | "abort", otherKey: string): Mutation => ({
  make: Effect.map(
    rotating,
    ({ rotation_id, successor }) =>
      (at, { key }) =>
        Effect.map(tokens(at)[how](successor, rotation_id, key), ofHttp)
  ),
  first: "200",
  again: "200 replayed",
  otherBody: undefined,
  otherKey
})

const tool = (
  name: string,
  prepared: (agent: Agent) => Effect.Effect<(other: boolean) => Readonly<Record<string, unknown>>>,
  otherKey: string
): Mutation => ({
  make: Effect.gen(function* () {
    const agent = yield* Agent.make(yield* Service)
    const given = yield* prepared(agent)
    return (at, { key, other = false }) =>
      Effect.map(agent.at(at).write(name, { ...given(other), idempotency_key: key }), ({ code, output }) => ({
        outcome: code ?? (output.replayed ? "done replayed" : "done"),
        result: JSON.stringify({ ...output, replayed: undefined })
      }))
  }),
  first: "done",
  again: "done replayed",
  otherBody: "idempotency_conflict",
  otherKey
})

const mutations: Readonly<Record<string, Mutation>> = {
  "a challenge": {
    make: Effect.gen(function* () {
      const bridge = yield* Bridge.make(yield* Service)
      return (at, { key, other }) =>
        Effect.map(bridge.askChallenge(at, { key, body: other === true ? { display_name: "Another" } : {} }), ofHttp)
    }),
    first: "201",
    again: "201 replayed",
    otherBody: "idempotency_conflict",
    otherKey: "bridge_enrollment_credential_used"
  },
  "a proof": {
    make: Effect.gen(function* () {
      const service = yield* Service
      const bridge = yield* Bridge.make(service)
      const challenge = yield* bridge.askChallenge(service)
      return (at, { key }) => Effect.map(bridge.prove(at, challenge, { key }), ofHttp)
    }),
    first: "200",
    again: "200 replayed",
    otherBody: undefined,
    otherKey: "enrollment_challenge_consumed"
  },
  "a prepare": {
    make: Effect.gen(function* () {
      const service = yield* Service
      const token = yield* (yield* Bridge.make(service)).enroll(service)
      return (at, { key }) => Effect.map(tokens(at).prepare(token, key), ofHttp)
    }),
    first: "201",
    again: "201 replayed",
    otherBody: undefined,
    otherKey: "bridge_rotation_in_progress"
  },
  "a confirm": ending("confirm", "bridge_rotation_confirmed"),
  "an abort": ending("abort", "bridge_rotation_aborted"),
  memory_add: tool(
    "memory_add",
    () => Effect.succeed((other) => ({ kind: "note", body: other ? "Another" : "A note" })),
    "done"
  ),
  task_create: tool("task_create", () => Effect.succeed((other) => ({ title: other ? "Another" : "A task" })), "done"),
  task_update: tool(
    "task_update",
    (agent) =>
      Effect.map(agent.task("A task"), ({ id, version }) => (other) => ({
        id,
        expected_version: version,
        status: "in_progress",
        assignee: other ? "you" : "me",
        receipt: { session_ref: "s", worker: "w", outcome: "progress", summary: "Begun" }
      })),
    "stale_version"
  ),
  "a registration of a phone": {
    make: Effect.gen(function* () {
      const service = yield* Service
      const person = yield* makePerson(service)
      const { token } = makePhone(service, person)
      return (at, { key, other }) => {
        const body = { preferences: everything, ...(other === true ? { locale: "de" } : {}) }
        return Effect.map(makePhone(at, person, token).register(body, { key }), ofHttp)
      }
    }),
    first: "201",
    again: "201 replayed",
    otherBody: "idempotency_conflict",
    otherKey: "200"
  }
}

layer(Service.layer)("a mutation that is sent again", (it) => {
  for (const [name, { again, first, make, otherBody, otherKey }] of Object.entries(mutations)) {
    it.effect(`gets the original answer from restarted instances and is not done again: ${name}`, () =>
      Effect.gen(function* () {
        const send = yield* make
        const before = yield* Effect.scoped(Effect.flatMap(instance(), (gone) => send(gone, { key: "one-key" })))
        assert.strictEqual(before.outcome, first, before.result)
        for (let retry = 0; retry < 3; retry++) {
          const after = yield* unchanged(Effect.flatMap(instance(), (fresh) => send(fresh, { key: "one-key" })))
          assert.deepStrictEqual(after, { outcome: again, result: before.result })
        }
      })
    )

    it.effect(`is done once while the first request is in flight: ${name}`, () =>
      Effect.gen(function* () {
        const send = yield* make
        const at = [yield* Service, yield* instance()]
        const all = yield* Effect.all(
          Array.from({ length: 8 }, (_, n) => send(at[n % 2]!, { key: "one-key" })),
          { concurrency: "unbounded" }
        )
        const outcomes = all.map(({ outcome }) => outcome).toSorted()
        assert.deepStrictEqual(outcomes, [first, ...Array.from({ length: 7 }, () => again)])
        assert.strictEqual(new Set(all.map(({ result }) => result)).size, 1)
      })
    )

    it.effect(`is a new mutation under another key: ${name}`, () =>
      Effect.gen(function* () {
        const [send, on] = [yield* make, yield* Service]
        yield* send(on, { key: "one-key" })
        assert.strictEqual((yield* send(on, { key: "another-key" })).outcome, otherKey)
      })
    )

    if (otherBody === undefined) continue
    it.effect(`is refused with another body: ${name}`, () =>
      Effect.gen(function* () {
        const [send, on] = [yield* make, yield* Service]
        yield* send(on, { key: "one-key" })
        const refused = yield* unchanged(send(on, { key: "one-key", other: true }))
        assert.strictEqual(refused.outcome, otherBody)
      })
    )
  }
})
