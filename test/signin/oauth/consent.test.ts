/** What a person decides at consent, besides yes or no: whether the app may write, and what the sign-in is called. */
import { assert, layer } from "@effect/vitest"
import { Context, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { ProjectTokens } from "../../../src/signin/access/ProjectTokens.ts"
import { Grants } from "../../../src/signin/oauth/grants/Grants.ts"
import { ofRole } from "../../../src/wire/Scopes.ts"
import { answerOf, authorizeQuery, Browser, exchange, makeClient, makeToken, pkce } from "../../support/agents/Agent.ts"
import { send } from "../../support/network/Http.ts"
import { Service } from "../../support/service/Service.ts"

const reads = ofRole("reader").join(" ")
const writes = ofRole("contributor").join(" ")

/** Opens the consent page of a request for these scopes, with a token entered. */
const opened = Effect.fnUntraced(function* (
  scope: string | undefined = writes,
  options: Parameters<typeof makeToken>[1] = {}
) {
  const service = yield* Service
  const issued = yield* makeToken(service, options)
  const client_id = yield* makeClient(service)
  const { challenge, verifier } = pkce()
  const browser = new Browser(service.url)
  const query = authorizeQuery({ client_id, code_challenge: challenge, scope })
  const page = yield* browser.submit(yield* browser.authorize(query), { project_token: issued.token })
  const decide = (fields: Readonly<Record<string, string>>) => browser.submit(page, { decision: "allow", ...fields })
  const scopeOf = (answer: Effect.Success<ReturnType<typeof decide>>) =>
    Effect.map(
      exchange(service, { client_id, code: answerOf(answer)["code"]!, code_verifier: verifier }),
      ({ body }) => body.scope as string
    )
  const { services } = yield* Service
  const grants = Context.get(services, Grants).list(issued.project_id, { limit: 10 } as never)
  return { ...issued, client_id, page, decide, scopeOf, grants, service }
})

layer(Service.layer)("a sign-in", (it) => {
  it.effect("asks for what a contributor may have, because challenge and metadata name it", () =>
    Effect.gen(function* () {
      const { url } = yield* Service
      const metadata = yield* send(`${url}/.well-known/oauth-protected-resource/mcp`, { method: "GET" })
      assert.strictEqual(metadata.body.scopes_supported.join(" "), writes)
      const challenge = (yield* send(`${url}/mcp`, { body: "{}" })).headers.get("www-authenticate")
      assert.include(challenge, `scope="${writes}"`)
    })
  )

  it.effect("can write if it asked to and the person leaves the choice as it is", () =>
    Effect.gen(function* () {
      const { decide, page, scopeOf } = yield* opened()
      assert.match(page.text, /name="access" value="write" checked/)
      assert.strictEqual(yield* scopeOf(yield* decide({ access: "write" })), writes)
    })
  )

  it.effect("can only read if the person takes writing away", () =>
    Effect.gen(function* () {
      const { decide, scopeOf } = yield* opened()
      assert.strictEqual(yield* scopeOf(yield* decide({ access: "read" })), reads)
    })
  )

  it.effect("offers no choice if nothing was asked that a person could take away", () =>
    Effect.gen(function* () {
      const { decide, page, scopeOf } = yield* opened(reads)
      assert.notInclude(page.text, 'name="access"')
      assert.strictEqual(
        yield* scopeOf(yield* decide({ access: "write" })),
        reads,
        "nor can a form add to what was asked"
      )
    })
  )

  it.effect("with a reader's token can only read, whatever it asked", () =>
    Effect.gen(function* () {
      const { decide, page, scopeOf } = yield* opened(writes, { role: "reader" })
      assert.notInclude(page.text, 'name="access"')
      assert.strictEqual(yield* scopeOf(yield* decide({ access: "write" })), reads)
    })
  )

  it.effect("holds what the last press of Allow chose", () =>
    Effect.gen(function* () {
      const { decide, grants, scopeOf } = yield* opened()
      yield* decide({ access: "write", label: "laptop" })
      assert.strictEqual(yield* scopeOf(yield* decide({ access: "read", label: "tablet" })), reads)
      const [grant, ...more] = yield* grants
      assert.deepEqual([grant!.label, grant!.scopes.join(" "), more], ["tablet", reads, []])
    })
  )

  it.effect("keeps what it holds once its code was exchanged", () =>
    Effect.gen(function* () {
      const { decide, grants, scopeOf } = yield* opened()
      yield* scopeOf(yield* decide({ access: "read", label: "laptop" }))
      assert.strictEqual((yield* decide({ access: "write", label: "other" })).status, 410)
      const [grant] = yield* grants
      assert.deepEqual([grant!.label, grant!.scopes.join(" ")], ["laptop", reads])
    })
  )

  it.effect("carries the name that the person gave it, in lists and wherever its actions are shown", () =>
    Effect.gen(function* () {
      const { decide, grants, project_id, service } = yield* opened()
      yield* decide({ label: "  Ada's\u202e laptop\n" })
      const [grant] = yield* grants
      assert.strictEqual(grant!.label, "Ada's laptop")
      const actor = `oauth_grant:${grant!.grant_id}`
      const names = yield* Context.get(service.services, ProjectTokens).names(project_id, [actor])
      assert.strictEqual(names.get(actor), "Lighthouse (Ada's laptop)")
    })
  )

  it.effect("without a name is called after its app", () =>
    Effect.gen(function* () {
      const { decide, grants, project_id, service } = yield* opened()
      yield* decide({ label: " " })
      const [grant] = yield* grants
      assert.isNull(grant!.label)
      const actor = `oauth_grant:${grant!.grant_id}`
      assert.strictEqual(
        (yield* Context.get(service.services, ProjectTokens).names(project_id, [actor])).get(actor),
        "Lighthouse"
      )
    })
  )

  it.effect("keeps no token that was entered as its name, and keeps the choice beside it", () =>
    Effect.gen(function* () {
      const { decide, grants, token } = yield* opened()
      const again = yield* decide({ access: "read", label: `mine ${token}` })
      assert.strictEqual(again.status, 422)
      assert.include(again.text, "This is a token, not a name.")
      assert.match(again.text, /name="access" value="read" checked/)
      assert.notInclude(again.text, token)
      assert.deepEqual(yield* grants, [])
      const sql = yield* SqlClient.SqlClient
      assert.deepEqual(yield* sql`select 1 from oauth_grant where label like '%spt\\_%'`, [])
    })
  )
})
