/** The commands under "Stop one thing, or everything" of docs/emergencies.md stop what they name, and nothing else. */
import { assert, layer } from "@effect/vitest"
import { Context, Effect } from "effect"
import { Projects } from "../../../src/operator/projects/Projects.ts"
import { makeToken, refresh, signIn } from "../../support/agents/Agent.ts"
import { Bridge } from "../../support/bridges/Bridge.ts"
import { Agent } from "../../support/agents/McpAgent.ts"
import { operator, patience, procedure } from "../../support/service/Procedure.ts"
import { Service } from "../../support/service/Service.ts"
import { tokens } from "../../support/bridges/Tokens.ts"

const { everything, forGood, oneAgent, oneBridge, oneProject } = procedure(
  "emergencies",
  "Stop one thing, or everything",
  "oneBridge",
  "oneAgent",
  "oneProject",
  "everything",
  "forGood"
)

/** A project with Bridges, an unused credential and an agent, and probes that tell whether each still has access. */
const project = Effect.fnUntraced(function* (otherBridges = 1) {
  const service = yield* Service
  const bridge = yield* Bridge.make(service)
  const { project_id } = bridge
  const bridgeTokens = [yield* bridge.enroll(service)]
  for (let i = 0; i < otherBridges; i++) {
    bridgeTokens.push(yield* (yield* Bridge.make(service, { project_id })).enroll(service))
  }
  const unused = yield* Bridge.make(service, { project_id })
  const agent = yield* Agent.make(service, { project_id })
  return {
    project_id,
    bridge_id: bridge.bridge_id,
    bridges: Effect.forEach(bridgeTokens, (token) => Effect.map(tokens(service).self(token), codeOrStatus)),
    credential: Effect.map(unused.askChallenge(service, { key: "late" }), codeOrStatus),
    agent: Effect.map(agent.call("server_identity"), ({ answer }) => codeOrStatus(answer))
  }
})

const codeOrStatus = ({ code, status }: { readonly status: number; readonly code: string | undefined }) =>
  code ?? status

layer(Service.layer, { excludeTestServices: true })("in an emergency", (it) => {
  it.effect(
    "one Bridge is revoked, and no other",
    () =>
      Effect.gen(function* () {
        const { agent, bridge_id, bridges, project_id } = yield* project()
        const { type } = yield* operator()
        yield* type(oneBridge, { PROJECT: project_id, BRIDGE: bridge_id })
        assert.deepStrictEqual(yield* bridges, ["bridge_revoked", 200])
        assert.strictEqual(yield* agent, 200)
      }),
    { timeout: patience }
  )

  it.effect(
    "one sign-in ends, and then the project token with every grant it gave",
    () =>
      Effect.gen(function* () {
        const service = yield* Service
        const { type } = yield* operator()
        const { project_id, token, token_id } = yield* makeToken(service)
        const [first, second] = [yield* signIn(service, { token }), yield* signIn(service, { token })]
        const listed = yield* type(`npx service-admin list-oauth-grants --project ${project_id} --json`)
        const { grant_id } = JSON.parse(listed).items.find(
          ({ client_id }: { readonly client_id: string }) => client_id === first.client_id
        )
        const [endGrant, endToken] = oneAgent.trim().split("\n") as [string, string]
        const status = ({ client_id, refresh_token }: typeof first) =>
          Effect.map(refresh(service, { client_id, refresh_token }), ({ body, status }) => body.error ?? status)
        yield* type(endGrant, { GRANT: grant_id })
        assert.deepStrictEqual([yield* status(first), yield* status(second)], ["invalid_grant", 200])
        yield* type(endToken, { TOKEN_ID: token_id })
        assert.strictEqual(yield* status(second), "invalid_grant")
      }),
    { timeout: patience }
  )

  it.effect(
    "one project stops until it is enabled again, and no other",
    () =>
      Effect.gen(function* () {
        const [mine, theirs] = [yield* project(), yield* project()]
        const { type } = yield* operator()
        yield* type(oneProject, { PROJECT: mine.project_id })
        assert.deepStrictEqual(yield* mine.bridges, ["bridge_revoked", "bridge_revoked"])
        assert.deepStrictEqual(
          [yield* mine.agent, yield* mine.credential],
          ["unauthorized", "bridge_enrollment_credential_revoked"]
        )
        assert.deepStrictEqual([yield* theirs.bridges, yield* theirs.agent], [[200, 200], 200])
        yield* type(`npx service-admin enable-project --project ${mine.project_id}`)
        assert.deepStrictEqual([yield* mine.bridges, yield* mine.agent], [[200, 200], 200])
      }),
    { timeout: patience }
  )

  it.effect(
    "everything in one project ends for good, and the project itself stays",
    () =>
      Effect.gen(function* () {
        const { services } = yield* Service
        const [mine, theirs] = [yield* project(0), yield* project()]
        const { type } = yield* operator()
        yield* type(forGood, { PROJECT: mine.project_id })
        yield* Context.get(services, Projects).enable(mine.project_id)
        assert.deepStrictEqual(yield* mine.bridges, ["bridge_revoked"])
        assert.deepStrictEqual(
          [yield* mine.agent, yield* mine.credential],
          ["unauthorized", "bridge_enrollment_credential_revoked"]
        )
        assert.deepStrictEqual([yield* theirs.bridges, yield* theirs.agent], [[200, 200], 200])
      }),
    { timeout: patience }
  )
})

layer(Service.layer, { excludeTestServices: true })("in the worst emergency", (it) => {
  it.effect(
    "all projects stop",
    () =>
      Effect.gen(function* () {
        const all = [yield* project(), yield* project()]
        const { type } = yield* operator()
        yield* type(everything)
        for (const { agent, bridges, credential } of all) {
          assert.deepStrictEqual(yield* bridges, ["bridge_revoked", "bridge_revoked"])
          assert.deepStrictEqual(
            [yield* agent, yield* credential],
            ["unauthorized", "bridge_enrollment_credential_revoked"]
          )
        }
      }),
    { timeout: patience }
  )
})
