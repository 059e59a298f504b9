/** The service that check-bridge plays answers like the service: the same requests get the same statuses and codes. */
import { assert, layer } from "@effect/vitest"
import { Clock, Context, Duration, Effect, Redacted } from "effect"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import { Bridges } from "../../../src/bridges/identity/Bridges.ts"
import { makeService, type Operation, operations } from "../../../src/client/check/Service.ts"
import { fingerprint, generateKeyPair, sign } from "../../../src/client/Crypto.ts"
import { mint } from "../../../src/platform/crypto/Tokens.ts"
import { Bridge, makeProject } from "../../support/bridges/Bridge.ts"
import { type Endpoint, proofFor } from "../../support/bridges/signatures/DpopProofs.ts"
import { confirmBody } from "../../support/bridges/KeyRotations.ts"
import { revokeCredential, revokeIdentity } from "../../support/bridges/Steps.ts"
import { send } from "../../support/network/Http.ts"
import { forAll } from "../../support/run/Property.ts"
import { Service } from "../../support/service/Service.ts"

const lifetimes = { token: 86_400, challenge: 600, confirmation: 300 }

/** What is sent. Tokens, challenges and rotations are named by the order in which they were answered. */
type Step =
  | { readonly do: "challenge"; readonly key: number; readonly device: number; readonly pair: number }
  | { readonly do: "proof"; readonly key: number; readonly of: number; readonly pair: number }
  | {
      readonly do: "prepare" | "revoke" | "self"
      readonly key: number
      readonly token: number
      readonly signer: Signer
    }
  | {
      readonly do: "confirm" | "abort"
      readonly key: number
      readonly token: number
      readonly of: number
      readonly signer: Signer
    }
  | {
      readonly do: "prepareKey"
      readonly key: number
      readonly token: number
      readonly pair: number
      readonly signer: Signer
    }
  | {
      readonly do: "confirmKey" | "abortKey"
      readonly key: number
      readonly token: number
      readonly of: number
      /** The new key, and who signs as the old one. */
      readonly pair: number
      readonly old: number
      readonly signer: Signer
    }
  | { readonly do: "wait"; readonly seconds: number }
  | { readonly do: "require a new key" }
  | { readonly do: "revoke the Bridge" | "revoke the credential" }

/** Whose key proves the request: one of two, or none. */
type Signer = 0 | 1 | undefined
const signer = fc.constantFrom<Signer>(0, 1, undefined, undefined, undefined)
const prover = fc.constantFrom<Signer>(0, 0, 0, 1, 1, undefined)
const small = fc.nat(2)
const pair = fc.nat(1)
const keySteps = [
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant("prepareKey" as const), key: small, token: fc.nat(4), pair, signer: prover })
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom("confirmKey" as const, "confirmKey" as const, "abortKey" as const),
      key: small,
      token: fc.nat(4),
      of: fc.nat(2),
      pair,
      old: pair,
      signer: prover
    })
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("require a new key" as const) }) }
]
const steps = fc.array(
  fc.oneof(
    {
      weight: 2,
      arbitrary: fc.record({ do: fc.constant("challenge" as const), key: small, device: fc.nat(1), pair: fc.nat(1) })
    },
    {
      weight: 2,
      arbitrary: fc.record({ do: fc.constant("proof" as const), key: small, of: fc.nat(1), pair: fc.nat(1) })
    },
    { weight: 4, arbitrary: fc.record({ do: fc.constant("prepare" as const), key: small, token: fc.nat(4), signer }) },
    {
      weight: 4,
      arbitrary: fc.record({
        do: fc.constantFrom("confirm" as const, "abort" as const),
        key: small,
        token: fc.nat(4),
        of: fc.nat(2),
        signer
      })
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("self" as const), key: small, token: fc.nat(4), signer }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("revoke" as const), key: small, token: fc.nat(4), signer }) },
    {
      weight: 2,
      arbitrary: fc.record({ do: fc.constant("wait" as const), seconds: fc.constantFrom(1, 301, 601, 3601, 86_401) })
    },
    ...keySteps,
    {
      weight: 1,
      arbitrary: fc.record({ do: fc.constantFrom("revoke the Bridge" as const, "revoke the credential" as const) })
    }
  ),
  { minLength: 5, maxLength: 25 }
)

const enrolls: ReadonlyArray<Step> = [
  { do: "challenge", key: 0, device: 0, pair: 0 },
  { do: "proof", key: 0, of: 0, pair: 0 }
]
const announcesKey: Step = { do: "prepareKey", key: 0, token: 0, pair: 1, signer: 0 }
const replacesKey: Step = { do: "confirmKey", key: 0, token: 0, of: 0, pair: 1, old: 0, signer: 0 }
/** Random steps alone seldom get that far. */
const beginnings: ReadonlyArray<ReadonlyArray<Step>> = [
  [],
  enrolls,
  [...enrolls, announcesKey],
  [...enrolls, announcesKey, replacesKey]
]

layer(Service.layer)("the service that check-bridge plays", (it) => {
  it.effect(
    "answers like the service",
    () =>
      forAll(
        fc.tuple(steps, fc.constantFrom(...beginnings)),
        ([random, begun]) =>
          Effect.gen(function* () {
            const service = yield* Service
            const clock = yield* Clock.Clock
            const bridge = yield* Bridge.make(service, { project_id: yield* makeProject(service) })
            const played = makeService({
              mint: (kind) => Redacted.value(Effect.runSync(mint(kind))),
              now: () => clock.currentTimeMillisUnsafe(),
              lifetimes
            })
            const pairs = [yield* generateKeyPair, yield* generateKeyPair]
            /** What each of the two has answered so far. */
            const known = [
              { project_id: bridge.project_id, credential: bridge.credential },
              { project_id: played.project_id, credential: played.credential }
            ].map((of) => ({
              ...of,
              challenges: [] as Array<any>,
              keyRotations: [] as Array<any>,
              rotations: [] as Array<any>,
              tokens: [] as Array<string>
            }))

            const requestOf = Effect.fnUntraced(function* (
              step: Step,
              { challenges, credential, keyRotations, project_id, rotations, tokens }: (typeof known)[number]
            ) {
              const token = "token" in step ? tokens[step.token % tokens.length] : undefined
              if (step.do === "challenge") {
                const body = {
                  project_id,
                  bridge_id: bridge.bridge_id,
                  device_id: `device-${step.device}`,
                  display_name: "A Bridge",
                  public_key_fingerprint: fingerprint(pairs[step.pair]!.publicKey)
                }
                return { operation: "challenge", bearer: credential, key: `challenge-${step.key}`, body } as const
              }
              if (step.do === "proof") {
                const found = challenges[step.of % challenges.length]
                if (found === undefined) return undefined
                const { privateKey, publicKey } = pairs[step.pair]!
                const body = {
                  project_id,
                  bridge_id: bridge.bridge_id,
                  challenge_id: found.challenge_id,
                  nonce_b64: found.nonce_b64,
                  signature_b64: Buffer.from(
                    yield* sign(privateKey, Buffer.from(found.nonce_b64, "base64url"))
                  ).toString("base64url"),
                  public_key_b64: Buffer.from(publicKey).toString("base64url")
                }
                return { operation: "proof", bearer: undefined, key: `proof-${step.key}`, body } as const
              }
              if (token === undefined) return undefined
              if (step.do === "confirm" || step.do === "abort") {
                const rotation_id = rotations[step.of % rotations.length]?.rotation_id
                if (rotation_id === undefined) return undefined
                return { operation: step.do, bearer: token, key: `end-${step.key}`, body: { rotation_id } } as const
              }
              if (step.do === "prepareKey") {
                const body = { public_key_fingerprint: fingerprint(pairs[step.pair]!.publicKey) }
                return { operation: step.do, bearer: token, key: `prepare-key-${step.key}`, body } as const
              }
              if (step.do === "confirmKey" || step.do === "abortKey") {
                const prepared = keyRotations[step.of % keyRotations.length]
                if (prepared === undefined) return undefined
                const { key_rotation_id } = prepared
                const body =
                  step.do === "abortKey"
                    ? { key_rotation_id }
                    : yield* confirmBody(prepared, pairs[step.old]!, pairs[step.pair]!)
                return { operation: step.do, bearer: token, key: `end-key-${step.key}`, body } as const
              }
              if (step.do === "prepare")
                return { operation: step.do, bearer: token, key: `prepare-${step.key}`, body: undefined } as const
              return { operation: step.do as Operation, bearer: token, key: undefined, body: undefined } as const
            })

            const ask = Effect.fnUntraced(function* (step: Step, at: 0 | 1) {
              const asked = yield* requestOf(step, known[at]!)
              if (asked === undefined) return undefined
              const { bearer, body, key, operation } = asked
              const keys = "signer" in step && step.signer !== undefined ? pairs[step.signer] : undefined
              const proof = keys && (yield* proofFor(keys, operation as Endpoint, bearer!))
              if (at === 1) {
                const text = body === undefined ? "" : JSON.stringify(body)
                return played.handle(operation, { bearer, key, proof, contentType: "application/json", body: text })
              }
              const [method, path] = operations[operation].split(" ") as ["GET" | "POST", string]
              return yield* send(`${service.url}${path}`, {
                method,
                bearer,
                key,
                body,
                headers: proof === undefined ? {} : { dpop: proof }
              })
            })

            for (const step of [...begun, ...random]) {
              if (step.do === "wait") {
                yield* TestClock.adjust(Duration.seconds(step.seconds))
                continue
              }
              if (step.do === "revoke the Bridge") {
                if (known[0]!.tokens.length === 0) continue
                yield* revokeIdentity(bridge)
                played.revokeIdentity()
                continue
              }
              if (step.do === "require a new key") {
                if (known[0]!.tokens.length === 0) continue
                yield* Effect.ignore(
                  Context.get(service.services, Bridges).requireKeyRotation(bridge.project_id, bridge.bridge_id)
                )
                played.requireNewKey()
                continue
              }
              if (step.do === "revoke the credential") {
                yield* revokeCredential(bridge)
                played.revokeCredential()
                continue
              }
              const [real, mimed] = [yield* ask(step, 0), yield* ask(step, 1)]
              const replayed = (headers: unknown) =>
                new Headers(headers as Record<string, string>).get("idempotency-replayed")
              const seen = (answer: typeof mimed | typeof real) => {
                if (answer === undefined) return undefined
                const body: any = answer.body
                const { code, headers, status } = answer
                return [status, code, replayed(headers), Object.keys(body).toSorted(), body.key?.rotation_required]
              }
              assert.deepStrictEqual(seen(mimed), seen(real), JSON.stringify(step))
              for (const [index, answer] of [real, mimed].entries()) {
                const { challenges, keyRotations, rotations, tokens } = known[index]!
                if (answer === undefined || answer.status >= 300 || replayed(answer.headers) !== null) continue
                const body: any = answer.body
                if (step.do === "challenge") challenges.push(body)
                if (step.do === "proof") tokens.push(body.access_token)
                if (step.do === "prepareKey") keyRotations.push(body)
                if (step.do === "prepare") {
                  rotations.push(body)
                  tokens.push(body.successor_token)
                }
              }
            }
          }),
        { numRuns: 40 }
      ),
    300_000
  )
})
