/**
 * Callers whose answers a failover could take back, beside those of Load.ts: newcomers who enroll and revoke, a client that
 * refreshes, an agent that notifies, and reference Bridges. Each has turns for `during`, and says what is wrong at the end.
 */
import { Context, Duration, Effect, Redacted, Schedule } from "effect"
import { join } from "node:path"
import { Credentials } from "../../../../src/bridges/enrollment/Credentials.ts"
import { isTransient } from "../../../../src/client/bridge/Client.ts"
import { generateKeyPair } from "../../../../src/client/Crypto.ts"
import { Agent } from "../../../support/agents/McpAgent.ts"
import { makePerson } from "../../../support/people/SignIn.ts"
import { Bridge } from "../../../support/bridges/Bridge.ts"
import { tokens } from "../../../support/bridges/Tokens.ts"
import { type Answer, send } from "../../../support/network/Http.ts"
import { type beside, bridge } from "../harness.ts"
import { makeHistory } from "./History.ts"
import { httpOutcome, type Load, toolOutcome } from "./Load.ts"

interface Given {
  readonly on: Effect.Success<ReturnType<typeof beside>>
  readonly load: Load
  readonly project_id: string
  /** Milliseconds between two turns. */
  readonly rest: number
}

const credentialsOf = (project_id: string) => ({
  project_id,
  account_references: ["github:octo"],
  ttl: Duration.hours(24),
  reenroll_bridge_id: undefined
})
const revokedCode = "401 bridge_token_revoked"

/** At most `most` newcomers enroll one after the other, and every other one revokes its token. */
export const newcomers = Effect.fnUntraced(function* ({
  load,
  most,
  on,
  project_id,
  replicas,
  rest
}: Given & { readonly most: number; readonly replicas: ReadonlyArray<{ readonly url: string }> }) {
  const { url } = on
  const violations: Array<string> = []
  const credentials = Context.get(on.services, Credentials)
  const secrets = yield* Effect.replicateEffect(credentials.mint, most)
  for (let n = 0; n < most; n += 100) yield* credentials.issue(credentialsOf(project_id), secrets.slice(n, n + 100))
  const living: Array<string> = []
  const revoked: Array<string> = []

  const turn = (n: number) =>
    Effect.gen(function* () {
      if (n >= most) return yield* load.rest(1000)
      const { credential, credential_id } = secrets[n]!
      const fields = { project_id, bridge_id: `newcomer-${n}`, credential: Redacted.value(credential), credential_id }
      const newcomer = new Bridge({ ...fields, keys: yield* generateKeyPair })
      const challenge = yield* load.mutate(`challenge n ${n}`, newcomer.askChallenge({ url }), httpOutcome, () => "")
      if (challenge === undefined) return
      const proof = yield* load.mutate(`proof n ${n}`, newcomer.prove({ url }, challenge), httpOutcome, () => "")
      if (proof === undefined) return
      const token: string = proof.body.access_token
      yield* load.rest(rest)
      if (n % 2 === 0) return void living.push(token)
      yield* load.mutate(`revoke n ${n}`, tokens({ url }).revoke(token), ended, () => "")
      revoked.push(token)
    })

  /** What was revoked is refused at each replica, and what was not works. A loss of either is a violation. */
  const probe = (which: ReadonlyArray<string>, expected: string) =>
    Effect.forEach(
      which,
      (token) =>
        Effect.forEach(replicas, (replica) =>
          tokens(replica)
            .self(token)
            .pipe(
              // Many tokens that are refused reach the limit of their address.
              Effect.repeat({
                until: ({ status }) => status !== 503 && status !== 429,
                schedule: Schedule.spaced("200 millis"),
                times: 600
              }),
              Effect.map((answer) => {
                if (httpOutcome(answer) !== expected)
                  violations.push(`a newcomer's token was answered ${httpOutcome(answer)} instead of ${expected}`)
              })
            )
        ),
      { concurrency: 8, discard: true }
    )
  return {
    turns: [load.again(turn)],
    violations,
    secrets: () => [...living, ...revoked, ...secrets.map(({ credential }) => Redacted.value(credential))],
    probeRevoked: Effect.suspend(() => probe(revoked.slice(-20), revokedCode)),
    settled: Effect.suspend(() => Effect.andThen(probe(revoked, revokedCode), probe(living, "200")))
  }
})

/** A signed-in person's client refreshes. */
export const refreshing = Effect.fnUntraced(function* ({ load, on, project_id, rest }: Given) {
  const person = yield* makePerson(on as never, { project_id })
  let refresh_token = Redacted.value(person.refresh_token)
  const turn = (n: number) => {
    const body = new URLSearchParams({ grant_type: "refresh_token", refresh_token, client_id: person.client_id })
    const headers = { "content-type": "application/x-www-form-urlencoded" }
    return load
      .mutate(`renewal n ${n}`, send(`${on.url}/token`, { headers, body: `${body}` }), oauthOutcome, () => "")
      .pipe(
        Effect.tap((answer) =>
          Effect.sync(() => {
            refresh_token = answer?.body.refresh_token ?? refresh_token
          })
        ),
        Effect.andThen(load.rest(rest))
      )
  }
  return { turns: [load.again(turn)], person, secrets: () => [refresh_token] }
})

/** An agent whose tasks become blocked; `blocked` has their ids. */
export const notifying = Effect.fnUntraced(function* ({ load, on, project_id, rest }: Given) {
  const agent = yield* Agent.make(on, { project_id })
  const blocked = new Set<string>()
  const turn = (n: number) =>
    Effect.gen(function* () {
      const write = (tool: string, what: string, given: Readonly<Record<string, unknown>>) =>
        load.mutate(
          what,
          agent.write(tool, { ...given, idempotency_key: what.replaceAll(" ", "-") }),
          toolOutcome,
          ({ output }) => output.task.id
        )
      const created = yield* write("task_create", `task n ${n}`, { title: `task n ${n}` })
      if (created === undefined) return
      const { id, version } = created.output.task
      const reason = { status: "blocked", blocked_reason: "x", blocked_kind: "decision" }
      if ((yield* write("task_update", `block n ${n}`, { id, expected_version: version, ...reason })) !== undefined)
        blocked.add(id)
      yield* load.rest(rest)
    })
  return { turns: [load.again(turn)], blocked, secrets: () => [agent.token] }
})

/** Reference Bridges that rotate, each with the history of its requests. */
export const rotatingFolders = Effect.fnUntraced(function* ({
  count,
  folder,
  load,
  on,
  project_id,
  rest
}: Given & { readonly count: number; readonly folder: string }) {
  const violations: Array<string> = []
  const credentials = Context.get(on.services, Credentials)
  const histories = Array.from({ length: count }, () => makeHistory())
  const stranded = new Set<number>()
  const fleet = yield* Effect.forEach(histories, ({ begin, watch }, index) =>
    Effect.gen(function* () {
      const identity = { project_id, bridge_id: `folder-${index}`, device_id: "chaos", display_name: "chaos" }
      const one = yield* bridge(join(folder, "states", `${index}`), watch)
      const secret = yield* credentials.mint
      yield* credentials.issue(credentialsOf(project_id), [secret])
      yield* one.enroll({ base_url: on.url, identity, credential: secret.credential })
      begin(yield* one.token)
      return one
    })
  )
  const strands = (index: number) => (failure: { readonly _tag: string }) =>
    Effect.sync(() => {
      if (isTransient(failure as never)) return
      violations.push(`Bridge ${index} is stranded: ${failure._tag}`)
      stranded.add(index)
    })
  const turns = fleet.map((one, index) =>
    load.again(() =>
      stranded.has(index)
        ? load.rest(1000)
        : one.rotate.pipe(Effect.catch(strands(index)), Effect.andThen(load.rest(rest)))
    )
  )
  const settled = Effect.gen(function* () {
    yield* Effect.forEach(fleet, ({ status }, index) => status.pipe(Effect.asVoid, Effect.catch(strands(index))))
    for (const [index, history] of histories.entries()) {
      violations.push(...history.violations)
      if (!history.isLinearizable()) violations.push(`the history of Bridge ${index} is not linearizable`)
    }
  })
  return { turns, violations, settled, calls: () => histories.flatMap((history) => history.calls).length }
})

/** A token that had already ended when its revocation was repeated is revoked. */
const ended = (answer: Answer) => (answer.code === "bridge_token_revoked" ? "200" : httpOutcome(answer))

/** OAuth has codes of its own: the error is a text. */
export const oauthOutcome = ({ body, headers, status }: Answer) => {
  if (status === 503 && headers.get("retry-after") !== null) return "503 bridge_persistence_error"
  return status === 200 ? "200" : `${status} ${body?.error}`
}
