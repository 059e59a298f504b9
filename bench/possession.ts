/**
 * The verification of a Bridge's DPoP proof, without the statement that remembers it: parsing, every check of RFC 9449 4.3, and
 * the signature, in one process and measured alternately with
 *   - the bare signature: node:crypto with an imported key;
 *   - `jose`, which verifies signature and type of the same proofs but checks no claim.
 */
import { NodeRuntime } from "@effect/platform-node"
import { Effect } from "effect"
import { EmbeddedJWK, jwtVerify } from "jose"
import { createPublicKey, verify } from "node:crypto"
import { generateKeyPair } from "../src/client/Crypto.ts"
import { dpopProof } from "../src/client/Dpop.ts"
import { Ed25519 } from "../src/platform/crypto/Ed25519.ts"
import { accepted as ofBridges } from "../src/bridges/possession/Possession.ts"
import * as Tokens from "../src/platform/crypto/Tokens.ts"
import { verifyWith } from "../src/platform/proofs/DpopProof.ts"
import * as harness from "./support/harness.ts"
import { figure, ratio, report } from "./support/report.ts"

const count = 4000
const most = 120
const baseUrl = new URL("https://bridge.example.com")
const request = { method: "GET", path: "/bridge/v1/tokens/self" }

const main = Effect.gen(function* () {
  const check = verifyWith(yield* Ed25519, ofBridges)
  const token = yield* Tokens.mint("sbt")
  const about = { ...request, baseUrl, tokenHash: Tokens.hash(token), now: new Date() }
  const prove = (keys: Effect.Success<typeof generateKeyPair>) =>
    dpopProof(keys, { ...request, url: `${baseUrl.origin}${request.path}` }, token, about.now.getTime())

  const keys = yield* generateKeyPair
  const proofs = yield* Effect.replicateEffect(prove(keys), count)
  /** More Bridges than the service keeps imported keys. */
  const others = yield* Effect.replicateEffect(Effect.flatMap(generateKeyPair, prove), count)

  const x = Buffer.from(keys.publicKey).toString("base64url")
  const key = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" })
  const parts = proofs.map((proof) => {
    const end = proof.lastIndexOf(".")
    return { message: Buffer.from(proof.slice(0, end)), signature: Buffer.from(proof.slice(end + 1), "base64url") }
  })

  const timed = <A>(all: ReadonlyArray<A>, accepts: (one: A) => Effect.Effect<boolean>) =>
    Effect.gen(function* () {
      const before = process.cpuUsage()
      for (const one of all) if (!(yield* accepts(one))) return yield* Effect.die("A valid proof was refused.")
      const { system, user } = process.cpuUsage(before)
      return { cpu_us: (user + system) / all.length }
    })
  const accepted = (proof: string) => Effect.as(Effect.orDie(check(proof, about)), true)
  const contestants = {
    service: () => timed(proofs, accepted),
    bare: () => timed(parts, ({ message, signature }) => Effect.sync(() => verify(null, message, key, signature))),
    jose: () =>
      timed(proofs, (proof) =>
        Effect.promise(() => jwtVerify(proof, EmbeddedJWK, { typ: "dpop+jwt" }).then(() => true))
      ),
    strangers: () => timed(others, accepted)
  }
  for (const warm of Object.values(contestants)) yield* warm()
  const { bare, jose, service, strangers } = yield* harness.inTurns(contestants)

  const aimed = (name: string, rounds: typeof service) => {
    const { cpu_us } = figure(name, rounds)
    return figure(name, rounds, { note: `aim: at most ${most} µs of CPU: ${cpu_us! <= most ? "met" : "missed"}` })
  }
  report("possession", [
    aimed("a proof by a Bridge that comes again", service),
    figure("node:crypto, its signature alone", bare, { ratio: ratio("CPU", service, bare) }),
    figure("jose, signature and type alone", jose, { ratio: ratio("CPU", service, jose, { most: 1 }) }),
    aimed("a proof by a key that is not imported yet", strangers)
  ])
}).pipe(Effect.provide(Ed25519.layerNode))

NodeRuntime.runMain(main)
