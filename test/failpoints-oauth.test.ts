/** How an app becomes a client and gets its consent, with each statement failing in each way a database fails. */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { randomUUID } from "node:crypto"
import { Clients } from "../src/oauth/Clients.ts"
import { authorizeQuery, Browser, callback, makeClient } from "./support/Agent.ts"
import { command, type On, type Operation, request, sweep } from "./support/Failpoints.ts"
import { type Answer, send } from "./support/Http.ts"
import { makeRegisteredPhone } from "./support/Phone.ts"
import { Service } from "./support/Service.ts"
import { masked, rowsOf } from "./support/Shape.ts"
import { makePerson } from "./support/SignIn.ts"

/** Somebody with a phone, in front of an app's question for a project token, and of another that has seen one. */
const world = Effect.gen(function* () {
  const service = yield* Service
  const sql = yield* SqlClient.SqlClient
  const person = yield* makePerson(service)
  yield* makeRegisteredPhone(service, person)
  const client_id = yield* makeClient(service)
  const project_token = Redacted.value(person.project_token)
  const browser = new Browser(service.url)
  const query = authorizeQuery({ client_id })
  const asked = yield* browser.authorize(query)
  const shown = yield* Effect.flatMap(browser.authorize(query), (page) => browser.submit(page, { project_token }))
  yield* sql`delete from audit_event where project_id is null`
  return { client_id, project_id: person.project_id, project_token, browser, query, asked, shown, name: randomUUID() }
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

const operator = command<World>()

/** Pages tell people only that the service cannot answer: whether something happened is not known there. */
const page = (again: string, run: (browser: Browser, world: World) => Effect.Effect<Answer>, more = {}) =>
  request<World>()(
    again,
    (on, world) =>
      Effect.tap(run(Object.assign(new Browser(on.url), { cookie: world.browser.cookie }), world), ({ text }) =>
        Effect.sync(() => assert.notInclude(text, "Nothing was"))
      ),
    { asks: "503", ...more }
  )

/** Nobody can tell a client that its answer was lost: asked again, it is made again, and the first is swept. */
const madeAgain = { settled: (shape: ReadonlyArray<string>) => new Set(shape) }

layer(Service.layer)("when a statement fails", (it) =>
  sweep(
    it,
    world,
    shapeOf,
    {
      "begin an authorization": page("303", (browser, { query }) => browser.get(`/authorize?${query}`), madeAgain),
      "show a wrong project token": page(
        "422",
        (browser, { asked }) => browser.submit(asked, { project_token: "spt_wrong" }),
        // A second try counts as one.
        { settled: ({ length }: ReadonlyArray<string>) => length }
      ),
      "show a project token": page("200", (browser, { asked, project_token }) =>
        browser.submit(asked, { project_token })
      ),
      allow: page("303", (browser, { shown }) => browser.submit(shown, { decision: "allow" })),
      deny: page("303", (browser, { shown }) => browser.submit(shown, { decision: "deny" })),
      "register a client": request<World>()(
        "201",
        ({ url }: On, { name }) =>
          send(`${url}/register`, { body: { client_name: name, redirect_uris: ["https://app.example/callback"] } }),
        madeAgain
      ),
      "create a client": {
        ...operator((on, { name }) =>
          Context.get(on, Clients).create({
            name,
            redirect_uris: [callback],
            application_type: undefined,
            scopes: []
          })
        ),
        ...madeAgain
      }
    } satisfies Readonly<Record<string, Operation<World>>>,
    { SERVICE_OAUTH_DYNAMIC_REGISTRATION: "on" }
  )
)
