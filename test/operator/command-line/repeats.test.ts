/** A repeated command gives the same result and writes no second audit event (spec 1.5). */
import { assert, layer } from "@effect/vitest"
import { Context, Duration, Effect, Option } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { randomUUID } from "node:crypto"
import { ProjectTokens } from "../../../src/signin/access/ProjectTokens.ts"
import { Bridges } from "../../../src/bridges/identity/Bridges.ts"
import { Memory } from "../../../src/agents/memory/Memory.ts"
import { Credentials } from "../../../src/bridges/enrollment/Credentials.ts"
import { Channels } from "../../../src/people/channels/Channels.ts"
import { Devices } from "../../../src/people/mobile/Devices.ts"
import { Clients } from "../../../src/signin/oauth/clients/Clients.ts"
import { Grants } from "../../../src/signin/oauth/grants/Grants.ts"
import { Projects } from "../../../src/operator/projects/Projects.ts"
import { PushAdmin } from "../../../src/push/admin/PushAdmin.ts"
import { Bridge } from "../../support/bridges/Bridge.ts"
import { Agent } from "../../support/agents/McpAgent.ts"
import { makeRegisteredPhone } from "../../support/phones/Phone.ts"
import { Service } from "../../support/service/Service.ts"
import { makePerson } from "../../support/people/SignIn.ts"
import { firstPage } from "../../support/database/Page.ts"

/** A project with a Bridge, a credential, a memory entry, and a person with a phone. */
const world = Effect.gen(function* () {
  const on = yield* Service
  const bridge = yield* Bridge.make(on)
  yield* bridge.enroll(on)
  const person = yield* makePerson(on, bridge)
  const phone = yield* makeRegisteredPhone(on, person)
  const agent = yield* Agent.make(on, bridge)
  const { id: entry } = yield* agent.note("Two doors.")
  const [grant] = yield* Context.get(on.services, Grants).list(bridge.project_id, firstPage)
  const minted = {
    credential: yield* Context.get(on.services, Credentials).mint,
    token: yield* Context.get(on.services, ProjectTokens).mint
  }
  const channel = randomUUID()
  return {
    services: on.services,
    bridge,
    person,
    phone,
    minted,
    channel,
    entry: entry as string,
    grant: grant!.grant_id
  }
})
type World = Effect.Success<typeof world>

const order = { account_references: ["github:octo"], ttl: Duration.hours(1), reenroll_bridge_id: undefined }
const reader = { role: "reader" as const, scopes: [], ttl: Option.none() }

const commands: Readonly<
  Record<string, readonly [action: string, run: (world: World) => Effect.Effect<unknown, unknown>]>
> = {
  "disabled project": [
    "project.disabled",
    ({ bridge, services }) => Context.get(services, Projects).disable(bridge.project_id)
  ],
  "approved reference": [
    "account_reference.approved",
    ({ bridge, services }) =>
      Context.get(services, Projects).approveReference(bridge.project_id, "github:octo", Option.none())
  ],
  "withdrawn reference": [
    "account_reference.withdrawn",
    ({ bridge, services }) => Context.get(services, Projects).withdrawReference(bridge.project_id, "github:octo")
  ],
  "issued credential": [
    "bridge_credential.issued",
    ({ bridge, minted, services }) =>
      Context.get(services, Credentials).issue({ ...order, project_id: bridge.project_id }, [minted.credential])
  ],
  "revoked credential": [
    "bridge_credential.revoked",
    ({ bridge, services }) => Context.get(services, Credentials).revoke(bridge.credential_id)
  ],
  "revoked Bridge": [
    "bridge.revoked",
    ({ bridge, services }) => Context.get(services, Bridges).revoke(bridge.project_id, bridge.bridge_id)
  ],
  "granted access": [
    "bridge.access_granted",
    ({ bridge, services }) => Context.get(services, Bridges).grantAccess(bridge.project_id, bridge.bridge_id, "reader")
  ],
  "wanted new key": [
    "bridge.key_rotation_required",
    ({ bridge, services }) => Context.get(services, Bridges).requireKeyRotation(bridge.project_id, bridge.bridge_id)
  ],
  "issued project token": [
    "project_token.issued",
    ({ bridge, minted, services }) =>
      Context.get(services, ProjectTokens).issue({ ...reader, project_id: bridge.project_id }, minted.token)
  ],
  "revoked project token": [
    "project_token.revoked",
    ({ person, services }) => Context.get(services, ProjectTokens).revoke(person.subject)
  ],
  "disabled client": [
    "oauth_client.disabled",
    ({ person, services }) => Context.get(services, Clients).disable(person.client_id)
  ],
  "revoked grant": ["oauth_grant.revoked", ({ grant, services }) => Context.get(services, Grants).revoke(grant)],
  "archived entry": [
    "memory.archived",
    ({ bridge, entry, services }) => Context.get(services, Memory).archive(bridge.project_id, entry)
  ],
  "created channel": [
    "channel.created",
    ({ bridge, channel, services }) =>
      Context.get(services, Channels).create(
        { project_id: bridge.project_id, kind: "ntfy", url: "https://ntfy.sh/topic", secret: undefined, titles: false },
        channel
      )
  ],
  "revoked device": [
    "mobile_device.revoked",
    ({ phone, services }) => Context.get(services, Devices).end(phone.device_id)
  ]
}

const count = (action: string) =>
  SqlClient.SqlClient.use((sql) =>
    Effect.map(
      sql<{ readonly count: number }>`
        select count(*)::int as count
          from audit_event
         where action = ${action}`,
      ([row]) => row!.count
    )
  )

layer(Service.layer)("a repeated command", (it) => {
  for (const [name, [action, run]] of Object.entries(commands)) {
    it.effect(`changes nothing and writes no audit event: ${name}`, () =>
      Effect.gen(function* () {
        const given = yield* world
        const first = yield* run(given)
        const before = yield* count(action)
        assert.isAbove(before, 0)
        yield* TestClock.adjust("1 second")
        const again = yield* run(given)
        assert.strictEqual(yield* count(action), before)
        // Revoking returns the grants that it ended; the second time there are none left.
        const settled = (answer: unknown) => JSON.stringify(answer, (key, value) => (key === "grant_ids" ? [] : value))
        assert.strictEqual(settled(again), settled(first))
      })
    )
  }

  it.effect("writes an audit event if it changes something: disabled after enabled; approved with another label", () =>
    Effect.gen(function* () {
      const { bridge, services } = yield* world
      const projects = Context.get(services, Projects)
      const before = [yield* count("project.disabled"), yield* count("account_reference.approved")]
      yield* projects.disable(bridge.project_id)
      yield* projects.enable(bridge.project_id)
      yield* projects.disable(bridge.project_id)
      yield* projects.approveReference(bridge.project_id, "github:octo", Option.some("Octo"))
      const after = [yield* count("project.disabled"), yield* count("account_reference.approved")]
      assert.deepStrictEqual(after, [before[0]! + 2, before[1]! + 1])
    })
  )

  it.effect("that creates a project with an id that exists returns that one, under its own name", () =>
    Effect.gen(function* () {
      const projects = Context.get((yield* Service).services, Projects)
      const first = yield* projects.create("Harbour", randomUUID())
      const before = yield* count("project.created")
      assert.deepStrictEqual(yield* projects.create("Another", first.project_id), first)
      assert.strictEqual(yield* count("project.created"), before)
    })
  )

  it.effect("that approves a reference keeps its label, unless another is given", () =>
    Effect.gen(function* () {
      const { services } = yield* Service
      const projects = Context.get(services, Projects)
      const { project_id } = yield* projects.create("Labels")
      const labels = yield* Effect.forEach([Option.some("Pat"), Option.none(), Option.some("Sam")], (label) =>
        Effect.map(projects.approveReference(project_id, "gitlab:pat", label), ({ label }) => label)
      )
      assert.deepStrictEqual(labels, ["Pat", "Pat", "Sam"])
      yield* projects.withdrawReference(project_id, "gitlab:pat")
      const again = yield* projects.approveReference(project_id, "gitlab:pat", Option.none())
      assert.deepInclude(again, { label: "Sam", withdrawn_at: null })
    })
  )

  it.effect("writes an audit event for rekeying only if a push token was resealed", () =>
    Effect.gen(function* () {
      const { services } = yield* Service
      const sql = yield* SqlClient.SqlClient
      yield* sql`delete from mobile_device`
      assert.strictEqual((yield* Context.get(services, PushAdmin).rekey).resealed, 0)
      assert.strictEqual(yield* count("push.tokens_rekeyed"), 0)
    })
  )
})
