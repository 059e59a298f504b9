/** What an operator elsewhere changes is recorded once, under the name of that operator and not of the service's account. */
import { assert, layer } from "@effect/vitest"
import { Context, Duration, Effect, Option } from "effect"
import { SqlClient } from "effect/sql"
import { randomUUID } from "node:crypto"
import { Documents } from "../../src/agents/documents/Documents.ts"
import { Memory } from "../../src/agents/memory/Memory.ts"
import { Credentials } from "../../src/bridges/enrollment/Credentials.ts"
import { Bridges } from "../../src/bridges/identity/Bridges.ts"
import { Limits } from "../../src/operator/limits/Limits.ts"
import { Projects } from "../../src/operator/projects/Projects.ts"
import { OperatorTokens } from "../../src/operator/tokens/OperatorTokens.ts"
import { Channels } from "../../src/people/channels/Channels.ts"
import { Devices } from "../../src/people/mobile/Devices.ts"
import { CurrentOperator } from "../../src/platform/settings/Operator.ts"
import { PushAdmin } from "../../src/push/admin/PushAdmin.ts"
import { ProjectTokens } from "../../src/signin/access/ProjectTokens.ts"
import { Clients } from "../../src/signin/oauth/clients/Clients.ts"
import { Grants } from "../../src/signin/oauth/grants/Grants.ts"
import { PersonKeys } from "../../src/signin/passkeys/PersonKeys.ts"
import { hasGit, repository } from "../support/agents/Repository.ts"
import { Bridge } from "../support/bridges/Bridge.ts"
import { makeEquippedProject } from "../support/people/Console.ts"
import { Service } from "../support/service/Service.ts"

const mallory = "operator:mallory@token-0123456789ab"

layer(Service.layer)("an operator elsewhere", (it) => {
  it.effect.skipIf(!hasGit)("is named by the audit row of each change", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const sql = yield* SqlClient.SqlClient
      const made = yield* makeEquippedProject(service)
      const { project_id } = made
      const projects = Context.get(service.services, Projects)
      const { bridge_id, ...bridge } = yield* Bridge.make(service, { project_id })
      yield* new Bridge({ ...bridge, bridge_id }).enroll(service)
      yield* sql`update bridge_identity set dpop_required_since = created_at where bridge_id = ${bridge_id}`

      const bridges = Context.get(service.services, Bridges)
      const channels = Context.get(service.services, Channels)
      const clients = Context.get(service.services, Clients)
      const credentials = Context.get(service.services, Credentials)
      const operatorTokens = Context.get(service.services, OperatorTokens)
      const projectTokens = Context.get(service.services, ProjectTokens)
      const documents = Context.get(service.services, Documents)
      const pushAdmin = Context.get(service.services, PushAdmin)
      const credential = yield* credentials.mint
      const operatorToken = yield* operatorTokens.mint
      const projectToken = yield* projectTokens.mint
      const channel_id = randomUUID()
      const channel = {
        project_id,
        kind: "ntfy",
        url: "https://ntfy.example/topic",
        secret: undefined,
        titles: false
      } as const
      const { commit, directory } = yield* repository
      const pinned = { repository: "acme/shop", title: "A", bootstrap: false }
      const place = { ...pinned, project_id, directory, commit: commit({ "a.md": "# A\n" }) }
      const client = {
        name: "Shop",
        redirect_uris: ["https://agent.example/callback"],
        application_type: undefined,
        scopes: []
      }

      const changes: ReadonlyArray<readonly [action: string, change: Effect.Effect<unknown, unknown>]> = [
        ["project.created", projects.create("Elsewhere")],
        ["account_reference.approved", projects.approveReference(project_id, "github:other", Option.none())],
        ["account_reference.withdrawn", projects.withdrawReference(project_id, "github:other")],
        ["project.limits_set", Context.get(service.services, Limits).set(project_id, { tasks: 99 })],
        [
          "operator_token.issued",
          operatorTokens.issue({ label: "Ada", scopes: ["operator:read"], ttl: Duration.days(1) }, operatorToken)
        ],
        ["operator_token.revoked", operatorTokens.revoke(operatorToken.token_id)],
        [
          "bridge_credential.issued",
          credentials.issue(
            { project_id, account_references: ["github:octo"], ttl: Duration.hours(1), reenroll_bridge_id: undefined },
            [credential]
          )
        ],
        ["bridge_credential.revoked", credentials.revoke(credential.credential_id)],
        ["bridge.key_rotation_required", bridges.requireKeyRotation(project_id, bridge_id)],
        ["bridge.dpop_lifted", bridges.liftDpop(project_id, bridge_id)],
        ["bridge.access_granted", bridges.grantAccess(project_id, bridge_id, "reader")],
        ["bridge.access_withdrawn", bridges.withdrawAccess(project_id, bridge_id)],
        ["bridge.revoked", bridges.revoke(project_id, bridge_id)],
        ["push.dead_letters_retried", pushAdmin.retryDead],
        ["push.web_push_key_rotated", pushAdmin.rotateWebPushKey(randomUUID())],
        ["channel.created", channels.create(channel, channel_id)],
        ["channel.secret_rotated", channels.rotate(made.channel_id, undefined)],
        ["channel.revoked", channels.revoke(channel_id)],
        ["mobile_device.revoked", Context.get(service.services, Devices).end(made.device_id)],
        ["person_key.removed", Context.get(service.services, PersonKeys).remove(made.key_id)],
        ["oauth_grant.revoked", Context.get(service.services, Grants).revoke(made.grant_id)],
        ["oauth_client.created", clients.create(client)],
        ["oauth_client.disabled", clients.disable(made.client_id)],
        ["memory.archived", Context.get(service.services, Memory).archive(project_id, made.entry_id)],
        ["document.pinned", documents.pin({ ...place, path: "a.md" })],
        ["document.unpinned", documents.unpin(made.document_id)],
        [
          "project_token.issued",
          projectTokens.issue({ project_id, role: "reader", scopes: [], ttl: Option.none() }, projectToken)
        ],
        ["project_token.revoked", projectTokens.revoke(projectToken.token_id)],
        ["project.disabled", projects.disable(project_id)],
        ["project.enabled", projects.enable(project_id)]
      ]
      const recorded = yield* Effect.forEach(changes, ([action, change]) =>
        Effect.gen(function* () {
          const before = yield* sql<{ readonly event_id: string }>`select event_id from audit_event`
          yield* Effect.provideService(change, CurrentOperator, mallory)
          const known = before.map(({ event_id }) => event_id)
          const rows = yield* sql<{ readonly action: string; readonly actor: string }>`
            select action, actor from audit_event where event_id <> all (${known}::uuid[])`
          return [action, rows]
        })
      )
      assert.deepStrictEqual(
        recorded,
        changes.map(([action]) => [action, [{ action, actor: mallory }]])
      )
    })
  )
})
