/** The audit log: one row for each step of a Bridge (decisions.md, Events). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { b64, Bridge } from "../support/bridges/Bridge.ts"
import { send } from "../support/network/Http.ts"
import { Service } from "../support/service/Service.ts"

layer(Service.layer)("the life of a Bridge", (it) => {
  it.effect("leaves an audit row for every step, none for an exact retry, and one for the refusals of a minute", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const tokens = `${service.url}/bridge/v1/tokens`
      const bridge = yield* Bridge.make(service)
      const challenge = yield* bridge.askChallenge(service)
      const wrong = { signature_b64: b64(new Uint8Array(64)) }
      for (const key of ["1", "2"]) yield* bridge.prove(service, challenge, { key, body: wrong })
      for (const _ of "12") yield* bridge.prove(service, challenge)
      const bearer = (yield* bridge.prove(service, challenge)).body.access_token
      const prepared = yield* send(`${tokens}/rotate/prepare`, { bearer, key: "prepare" })
      const { rotation_id, successor_token } = prepared.body
      const successor = { bearer: successor_token, body: { rotation_id } }
      for (const _ of "12") yield* send(`${tokens}/rotate/confirm`, { ...successor, key: "confirm" })
      yield* send(`${tokens}/revoke`, { bearer: successor_token })
      assert.sameMembers(yield* eventsOf(bridge), [
        "1 bridge_credential.issued by operator",
        "1 bridge.challenge_created by bridge:",
        "2 bridge.proof enrollment_proof_invalid by bridge:",
        "1 bridge.enrolled by bridge:",
        "1 bridge.rotation_prepared by bridge:",
        "1 bridge.rotation_confirmed by bridge:",
        "1 bridge.token_revoked by bridge:"
      ])
    })
  )
})

const eventsOf = ({ bridge_id, credential_id, project_id }: Bridge) =>
  SqlClient.SqlClient.use((sql) =>
    Effect.map(
      sql<{ readonly event: string }>`
        select concat_ws(' ', coalesce(c.count, 1), action, code, 'by', replace(actor, ${bridge_id}, '')) as event
          from audit_event
          left join audit_refusal_count c using (event_id)
         where project_id = ${project_id}::uuid
           and (subject ->> 'bridge_id' = ${bridge_id} or subject ->> 'credential_id' = ${credential_id})`,
      (rows) => rows.map(({ event }) => event)
    )
  )
