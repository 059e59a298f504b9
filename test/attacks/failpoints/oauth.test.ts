/** Registering a client and giving consent, with each statement failing in every way a database fails. */
import { assert, layer } from "@effect/vitest"
import { Context, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { randomUUID } from "node:crypto"
import { Clients } from "../../../src/signin/oauth/clients/Clients.ts"
import { authorizeQuery, Browser, callback, makeClient, makeToken } from "../../support/agents/Agent.ts"
import { command, type On, type Operation, request, type Shape, sweep } from "../../support/attacks/Failpoints.ts"
import { type Answer, send } from "../../support/network/Http.ts"
import { makeRegisteredPhone } from "../../support/phones/Phone.ts"
import { Service } from "../../support/service/Service.ts"
import { masked, rowsOf } from "../../support/attacks/Shape.ts"
import { makePerson } from "../../support/people/SignIn.ts"

/** A person with a project token at the consent page of an app. */
const world = Effect.gen(function* () {
  const service = yield* Service
  const sql = yield* SqlClient.SqlClient
  const { project_id, token } = yield* makeToken(service)
  const client_id = yield* makeClient(service)
  const browser = new Browser(service.url)
  const query = authorizeQuery({ client_id })
  const page = yield* browser.authorize(query)
  yield* sql`alter table audit_event disable trigger user`
  yield* sql`delete from audit_event where project_id is null`
  const shown: Array<Answer> = []
  return { client_id, project_id, token, browser, query, page, shown, name: randomUUID() }
})
type World = Effect.Success<typeof world>

const shapeOf = ({ client_id, name, project_id }: World) =>
  masked(
    [
      rowsOf("oauth_client", "client_id = $1 or name = $2"),
      rowsOf("oauth_request", "client_id = $1"),
      ...["project_token", "oauth_grant", "push_outbox"].map((table) => rowsOf(table, "project_id = $3")),
      rowsOf("oauth_code", "grant_id in (select grant_id from oauth_grant where project_id = $3)"),
      rowsOf("audit_event", "project_id is null or project_id = $3")
    ],
    [client_id, name, project_id]
  )

/** Pages only say that the service cannot answer, not whether the change was made. */
const browsing = (
  again: string,
  run: (browser: Browser, world: World) => Effect.Effect<Answer>,
  more: Pick<Operation<World>, "after" | "settled"> = {}
) =>
  request<World>()(
    again,
    (on, world) =>
      Effect.tap(run(new Browser(on.url, world.browser.cookies), world), ({ text }) =>
        Effect.sync(() => assert.notInclude(text, "Nothing was"))
      ),
    { asks: "503", ...more }
  )

/** When the answer was lost, the retry creates a second one. */
const mayDuplicate = { settled: (shape: Shape) => new Set(shape) }

/** The page with Allow and Deny. */
const shown = {
  after: (_: On, { browser, page, shown, token }: World) =>
    Effect.map(browser.submit(page, { project_token: token }), (bound) => shown.push(bound))
}
const decide =
  (decision: string) =>
  (browser: Browser, { shown }: World) =>
    browser.submit(shown.at(-1)!, { decision })
const withPhone = {
  after: (on: On, world: World) =>
    Effect.all([
      shown.after(on, world),
      Effect.flatMap(makePerson(on, world), (person) => makeRegisteredPhone(on, person))
    ])
}

layer(Service.layer)("when a statement fails", (it) =>
  sweep(
    it,
    world,
    shapeOf,
    {
      "begin an authorization": browsing(
        "303",
        (browser, { query }) => browser.get(`/authorize?${query}`),
        mayDuplicate
      ),
      "show a wrong project token": browsing(
        "422",
        (browser, { page }) => browser.submit(page, { project_token: "spt_wrong" }),
        // Each attempt is counted.
        { settled: ({ length }) => length }
      ),
      "show a project token": browsing("200", (browser, { page, token }) =>
        browser.submit(page, { project_token: token })
      ),
      allow: browsing("303", decide("allow"), withPhone),
      deny: browsing("303", decide("deny"), shown),
      "register a client": request<World>()(
        "201",
        ({ url }, { name }) =>
          send(`${url}/register`, { body: { client_name: name, redirect_uris: ["https://app.example/callback"] } }),
        mayDuplicate
      ),
      "create a client": {
        ...command<World>()((on, { name }) =>
          Context.get(on, Clients).create({ name, redirect_uris: [callback], application_type: undefined, scopes: [] })
        ),
        ...mayDuplicate
      }
    },
    { SERVICE_OAUTH_DYNAMIC_REGISTRATION: "on" }
  )
)
