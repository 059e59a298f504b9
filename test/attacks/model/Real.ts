/** The operations of Model.ts on the real service; keeps the secret behind each name and checks that it stays the same. */
import { assert } from "@effect/vitest"
import { Context, Duration, Effect, type Scope } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { randomUUID } from "node:crypto"
import { Bridges } from "../../../src/bridges/identity/Bridges.ts"
import { generateKeyPair } from "../../../src/client/Crypto.ts"
import { sha256 } from "../../../src/platform/crypto/Sha256.ts"
import { DatabaseClock } from "../../../src/platform/database/Clock.ts"
import { sweepOnce } from "../../../src/platform/database/Sweeper.ts"
import { Settings } from "../../../src/platform/settings/Settings.ts"
import { Credentials } from "../../../src/bridges/enrollment/Credentials.ts"
import { Projects } from "../../../src/operator/projects/Projects.ts"
import { sweeps } from "../../../src/bridges/Wing.ts"
import { Bridge, issueCredential, makeProject } from "../../support/bridges/Bridge.ts"
import type { Answer } from "../../support/network/Http.ts"
import { outcomeOf } from "../../support/attacks/Race.ts"
import { instance } from "../../support/service/Service.ts"
import { tokens } from "../../support/bridges/Tokens.ts"
import { lifetimes, type Op } from "./Model.ts"

export type On = Effect.Success<ReturnType<typeof instance>>

export const settings = {
  SERVICE_BRIDGE_CHALLENGE_TTL_SECONDS: String(lifetimes.challenge),
  SERVICE_BRIDGE_TOKEN_TTL_SECONDS: String(lifetimes.token),
  SERVICE_BRIDGE_ROTATION_TTL_SECONDS: String(lifetimes.rotation),
  SERVICE_BRIDGE_PROOF_REPLAY_SECONDS: String(lifetimes.proofReplay)
}

/** A project, and a Bridge that has sent nothing yet. */
export const makeReal = Effect.fnUntraced(function* (on: On) {
  const project_id = yield* makeProject(on)
  const bridge_id = `bridge-${randomUUID()}`
  const keys = { a: yield* generateKeyPair, b: yield* generateKeyPair }
  const credentials = new Map<string, { readonly credential: string; readonly credential_id: string }>()
  const challenges = new Map<string, { readonly bridge: Bridge; readonly answer: Answer }>()
  const secrets = new Map<string, string>()
  const rotations = new Map<string, string>()

  /** A name keeps its secret: no answer may bring another one. */
  const learn = (names: Map<string, string>, name: string, value: string) => {
    assert.strictEqual(names.get(name) ?? value, value)
    names.set(name, value)
  }

  const bridgeOf = (credential: string, pair: "a" | "b") =>
    new Bridge({ project_id, bridge_id, keys: keys[pair], ...credentials.get(credential)! })

  const request = (on: On, op: Op): Effect.Effect<Answer> | undefined => {
    const at = tokens(on)
    const secret = (name: string) => secrets.get(name)!
    switch (op.op) {
      case "challenge": {
        const bridge = bridgeOf(op.credential, op.keys)
        return Effect.tap(bridge.askChallenge(on, { key: op.key }), (answer) =>
          Effect.sync(() => {
            if (answer.status === 201) challenges.set(`${op.credential}/${op.key}`, { bridge, answer })
          })
        )
      }
      case "prove": {
        const { answer, bridge } = challenges.get(op.challenge)!
        return Effect.tap(bridge.prove(on, answer, { key: op.key }), ({ body, status }) =>
          Effect.sync(() => {
            if (status === 200) learn(secrets, op.challenge, body.access_token)
          })
        )
      }
      case "prepare":
        return Effect.tap(at.prepare(secret(op.token), op.key), ({ body, status }) =>
          Effect.sync(() => {
            if (status !== 201) return
            learn(secrets, op.key, body.successor_token)
            learn(rotations, op.key, body.rotation_id)
          })
        )
      case "confirm":
      case "abort":
        return at[op.op](secret(op.token), rotations.get(op.rotation) ?? randomUUID(), op.key)
      case "revoke":
      case "self":
        return at[op.op](secret(op.token))
      default:
        return undefined
    }
  }

  const command = Effect.fnUntraced(function* (on: On, op: Op) {
    const get = <I, S>(service: Context.Key<I, S>) => Context.getUnsafe(on.services as Context.Context<never>, service)
    switch (op.op) {
      case "issue": {
        const reenroll = op.reenroll ? { reenroll: bridge_id } : {}
        const issued = yield* issueCredential(on, project_id, {
          ttl: Duration.seconds(lifetimes.credential),
          ...reenroll
        })
        credentials.set(op.credential, issued)
        return
      }
      case "revokeCredential":
        return yield* Effect.asVoid(get(Credentials).revoke(credentials.get(op.credential)!.credential_id))
      case "emergency":
        return yield* Effect.asVoid(get(Bridges).revoke(project_id, bridge_id))
      case "disable":
      case "enable":
        return yield* Effect.asVoid(get(Projects)[op.op](project_id))
      case "wait":
        return yield* TestClock.adjust(Duration.seconds(op.seconds))
      case "sweep":
        return yield* Effect.provideContext(sweepOnce(sweeps), Context.pick(DatabaseClock, Settings)(on.services))
    }
  })

  /** The outcome in the model's terms; the pending rotation of `self` by its id. */
  const run = (on: On, op: Op): Effect.Effect<string, never, SqlClient.SqlClient | Scope.Scope> => {
    const asked = request(on, op)
    if (asked !== undefined) {
      return Effect.map(asked, (answer) => {
        if (op.op !== "self" || answer.status !== 200) return outcomeOf(answer)
        return `200 ${answer.body.pending_rotation?.rotation_id ?? "nothing"} pending`
      })
    }
    return command(on, op).pipe(
      Effect.as("done"),
      Effect.catch(({ _tag }) => Effect.succeed(_tag))
    )
  }

  /** Replaces ids by the model's names, also those of rotations whose prepare was never answered. */
  const named = Effect.fnUntraced(function* (outcomes: ReadonlyArray<string>, keys: ReadonlyArray<string>) {
    const sql = yield* SqlClient.SqlClient
    const rows = yield* sql<{ rotation_id: string; key: string }>`
      select rotation_id, encode(prepare_key_hash, 'hex') as key
        from bridge_rotation r
        join bridge_identity i using (identity_id)
       where i.project_id = ${project_id}::uuid`
    const hex = (key: string) => Buffer.from(sha256(key)).toString("hex")
    const names = new Map(rows.map(({ key, rotation_id }) => [rotation_id, keys.find((name) => hex(name) === key)!]))
    return outcomes.map((outcome) => outcome.replace(/[0-9a-f-]{36}/, (id) => names.get(id) ?? id))
  })

  return { project_id, run, named, knows: (name: string) => secrets.has(name) || challenges.has(name) }
})
export type Real = Effect.Success<ReturnType<typeof makeReal>>
