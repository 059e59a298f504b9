/** OAuth sign-in by the reference client, then tool calls with the access token (spec 4.8, 4.10, 5). */
import { assert, layer } from "@effect/vitest"
import { Context, Duration, Effect, Layer, Option, Redacted } from "effect"
import { FetchHttpClient } from "effect/http"
import * as OAuthClient from "../../../src/client/OAuthClient.ts"
import { Grants } from "../../../src/signin/oauth/grants/Grants.ts"
import { Browser, callback, makeClient, makeToken, reachable } from "../../support/agents/Agent.ts"
import { Agent } from "../../support/agents/McpAgent.ts"
import { Service } from "../../support/service/Service.ts"
import { TestDatabase } from "../../support/database/TestDatabase.ts"

const Reachable = Layer.merge(Layer.effect(Service, reachable()), FetchHttpClient.layer).pipe(
  Layer.provideMerge(TestDatabase.sql)
)

/** An agent that a person signed in and granted these scopes. */
const signedIn = Effect.fnUntraced(function* (...scopes: ReadonlyArray<string>) {
  const service = yield* Service
  const { project_id, token } = yield* makeToken(service)
  let kept: Option.Option<OAuthClient.Tokens> = Option.none()
  const client = yield* OAuthClient.make<never>({
    resource: `${service.url}/mcp`,
    client_id: yield* makeClient(service),
    redirect_uri: callback,
    scopes,
    leeway: Duration.seconds(30),
    browser: ({ search }) =>
      Effect.map(
        new Browser(service.url).consent(search.slice(1), token),
        ({ headers }) => new URL(headers.get("location")!)
      ),
    storage: { load: Effect.sync(() => kept), save: (tokens) => Effect.sync(() => void (kept = tokens)) }
  })
  const { access_token } = yield* client.signIn
  const given = { url: service.url, token: Redacted.value(access_token), project_id }
  const agent = yield* Agent.connect(given)
  const { output: identity } = yield* agent.call("server_identity")
  return { client, identity, agent }
})

layer(Reachable)("an agent that a person has signed in", (it) => {
  it.effect("works in the project of the person's token", () =>
    Effect.gen(function* () {
      const { agent, identity } = yield* signedIn("memory:write")
      assert.deepStrictEqual(identity.project.id, agent.project_id)
      const { id, provenance } = yield* agent.note("ostriches run")
      assert.match(provenance.actor, /^oauth_grant:/)
      assert.strictEqual((yield* agent.call("memory_get", { id })).output.entry.body, "ostriches run")
    })
  )

  it.effect(
    "gets 403 with the missing scope and those held when it calls a tool that the person's grant does not cover",
    () =>
      Effect.gen(function* () {
        const { agent } = yield* signedIn("tasks:read")
        const { answer, code } = yield* agent.write("task_create", { title: "T" })
        assert.deepStrictEqual([answer.status, code], [403, "insufficient_scope"])
        const challenge = answer.headers.get("www-authenticate")
        assert.include(challenge, 'error="insufficient_scope"')
        assert.include(challenge, 'scope="tasks:read tasks:write"')
      })
  )

  it.effect("is refused with 401 once the person has signed out", () =>
    Effect.gen(function* () {
      const { agent, client } = yield* signedIn("tasks:write")
      yield* agent.task("T")
      yield* client.signOut
      const { answer, code } = yield* agent.call("task_list")
      assert.deepStrictEqual([answer.status, code], [401, "unauthorized"])
      assert.include(answer.headers.get("www-authenticate"), 'error="invalid_token"')
    })
  )

  it.effect("is refused with 401 once the operator has revoked the grant, and can sign in again", () =>
    Effect.gen(function* () {
      const { services } = yield* Service
      const { agent, client } = yield* signedIn("tasks:write")
      const { created_by } = yield* agent.task("T")
      yield* Context.get(services, Grants).revoke(created_by.replace("oauth_grant:", ""))
      assert.strictEqual((yield* agent.call("task_list")).answer.status, 401)
      const { access_token } = yield* client.signIn
      const again = new Agent({ ...agent, token: Redacted.value(access_token) })
      assert.lengthOf((yield* again.call("task_list")).output.tasks, 1)
    })
  )
})
