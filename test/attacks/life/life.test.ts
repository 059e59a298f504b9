/**
 * The protocol of a Bridge's life is explored completely (docs/proof.md, The life of a Bridge): every order of crashes, lost,
 * late and repeated requests, time, and what operator and thief do. And the real Bridge and service do what the model does.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { issueCredential, makeProject } from "../../support/bridges/Bridge.ts"
import { newcomer, process } from "../../support/bridges/BridgeProcess.ts"
import { blocks, read } from "../../support/run/Markdown.ts"
import { Service } from "../../support/service/Service.ts"
import { followed } from "./Accepts.ts"
import { chartOf, explore } from "./Explore.ts"
import { type Bug, shape } from "./Life.ts"

const bounds = { ids: 1, keys: 2, credentials: 2, processes: 1 }

/** Bug -> what has to be seen. */
const bugs: Record<Bug, RegExp> = {
  "a credential opens any project": /a Bridge of another project changes something|belongs to another project/,
  "a rotation is found by its id alone": /a Bridge of another project changes something/,
  "no lock": /a key that the folder does not hold/,
  "no proof": /a thief without the key changes something/,
  "a confirm keeps the predecessor": /two active tokens/,
  "a re-enrollment keeps the token": /two active tokens/,
  "an ended rotation can be confirmed": /an ended token works again/,
  "a revocation of the Bridge keeps its tokens": /a token of a revoked Bridge works/,
  "token and key at once": /token and key are replaced at once/,
  "the successor is not stored before confirm": /does not get home: bridge_token_revoked/,
  "the old key is dropped before confirm": /does not get home: bridge_proof_of_possession_invalid/,
  "the new key is not stored before prepare": /a key that the folder does not hold/,
  "the key is replaced during an enrollment": /a key that the folder does not hold, after proof arrives late/
}

describe("the life of a Bridge", () => {
  it("is safe in every state, and leads home from each that has key and token", { timeout: 60_000 }, () => {
    const explored = explore(bounds)
    assert.isUndefined(explored.violation)
    console.log(`${explored.states} states, ${explored.steps} steps`)
    const page = read("docs/proof.md")
    const charts = blocks(page, "mermaid").map((block) =>
      block
        .trim()
        .split("\n")
        .map((line) => line.trim())
    )
    const chart = charts.find(([first]) => first === "stateDiagram-v2")!
    assert.deepStrictEqual(
      chart.filter((line) => / --> /.test(line) && !line.startsWith("[*]")).toSorted(),
      chartOf(explored)
    )
    for (const code of explored.stranded.keys()) assert.match(page, new RegExp(`^\\| .*\`${code}\`.* \\|`, "m"))
  })

  for (const [bug, expected] of Object.entries(bugs) as Array<[Bug, RegExp]>)
    it(`the exploration finds a bug: ${bug}`, () => {
      const ids = bug === "token and key at once" ? 2 : 1
      const { violation } = explore({ ...bounds, ids, processes: bug === "no lock" ? 2 : 1 }, bug)
      assert.match(violation?.what ?? "nothing", expected)
    })
})

const names: Readonly<Record<string, string>> = {
  "/bridge/v1/enrollment/challenges": "challenge",
  "/bridge/v1/enrollment/proofs": "proof",
  "/bridge/v1/tokens/rotate/prepare": "prepare",
  "/bridge/v1/tokens/rotate/confirm": "confirm",
  "/bridge/v1/tokens/rotate/abort": "abort",
  "/bridge/v1/tokens/revoke": "revoke",
  "/bridge/v1/tokens/self": "self",
  "/bridge/v1/keys/rotate/prepare": "prepareKey",
  "/bridge/v1/keys/rotate/confirm": "confirmKey",
  "/bridge/v1/keys/rotate/abort": "abortKey"
}

/** What the folder shows, in the words of the model. */
const shapeIn = (path: string) => {
  const { enrollment, rotation, token } = JSON.parse(readFileSync(join(path, "state.json"), "utf8"))
  const { next } = JSON.parse(readFileSync(join(path, "key.json"), "utf8"))
  const underWay = rotation?.state === "prepared" || rotation?.state === "stored"
  return shape({
    enrollment,
    token,
    next: next ?? null,
    rotation: underWay ? { id: 0, successor: rotation.state === "stored" ? 0 : null } : null
  })
}

layer(Service.layer)("recorded lives of the real Bridge at the real service", (it) => {
  const recorded = Effect.fnUntraced(function* () {
    const service = yield* Service
    const project_id = yield* makeProject(service)
    const bridge = yield* newcomer(service, project_id)
    const history: Array<string> = []
    const observe = (event: "write" | "crash" | { readonly path: string; readonly code: string }) => {
      if (event === "crash") history.push("crash")
      else if (event !== "write") history.push(`${names[event.path]} ${event.code}`)
      else if (existsSync(join(bridge.path, "state.json"))) history.push(`write ${shapeIn(bridge.path)}`)
    }
    const run = (work: Parameters<typeof process>[1], fate: object = {}) =>
      Effect.ignore(process(bridge.path, work as never, { ...fate, observe }))
    const reenroll = Effect.gen(function* () {
      const issued = yield* issueCredential(service, project_id, { reenroll: bridge.order.identity.bridge_id })
      history.push("reissued")
      const order = { ...bridge.order, credential: Redacted.make(issued.credential) }
      return (fate?: object) => run((real) => real.enroll(order), fate)
    })
    const enrollElsewhere = Effect.gen(function* () {
      const issued = yield* issueCredential(service, yield* makeProject(service))
      history.push("reissued elsewhere")
      yield* run((real) => real.enroll({ ...bridge.order, credential: Redacted.make(issued.credential) }))
    })
    return { ...bridge, enrollElsewhere, history, reenroll, run }
  })

  it.effect("are lives of the model, with a kill before or after each step", () =>
    Effect.gen(function* () {
      let events = 0
      for (const killAt of [2, 6, 99])
        for (const goal of ["rotate", "rotateKey", "abort", "revoke"] as const) {
          const { enroll, history, run } = yield* recorded()
          yield* run(enroll)
          if (goal === "abort") yield* run((bridge) => bridge.rotateKey, { killAt: 4 })
          yield* run((bridge) => bridge[goal], { killAt })
          yield* run((bridge) => bridge.rotate)
          yield* run((bridge) => bridge.rotateKey)
          assert.strictEqual(followed(history), history.length, history.slice(0, followed(history) + 1).join("\n"))
          events += history.length
        }
      console.log(`${events} recorded events`)
    })
  )

  it.effect(
    "are lives of the model, with lost answers, ends of windows, a re-enrollment and a credential of another project",
    () =>
      Effect.gen(function* () {
        for (const [killAt, loseAt] of [
          [4, 1],
          [6, 2]
        ] as const) {
          const { enroll, enrollElsewhere, history, reenroll, run } = yield* recorded()
          yield* TestClock.withLive(run(enroll, { loseAt }))
          yield* enrollElsewhere
          yield* TestClock.withLive(run((bridge) => bridge.rotateKey, { loseAt }))
          for (const goal of ["rotate", "rotateKey"] as const) {
            yield* run((bridge) => bridge[goal], { killAt: 4 })
            yield* TestClock.adjust("301 seconds")
            history.push("window")
            yield* run((bridge) => bridge[goal])
          }
          yield* run((bridge) => bridge.rotateKey, { killAt })
          const again = yield* reenroll
          yield* again({ killAt })
          yield* run((bridge) => bridge.rotateKey)
          yield* again()
          yield* run((bridge) => bridge.rotateKey)
          assert.strictEqual(followed(history), history.length, history.slice(0, followed(history) + 1).join("\n"))
        }
      })
  )

  it.effect("are not, once an event is changed", () =>
    Effect.gen(function* () {
      const { enroll, history, run } = yield* recorded()
      yield* run(enroll)
      yield* run((bridge) => bridge.rotate)
      yield* run((bridge) => bridge.rotateKey)
      assert.strictEqual(followed(history), history.length)
      for (const [at, event] of history.entries()) {
        if (event.startsWith("write")) continue
        const changed = history.with(at, event.replace(/ ok$/, " bridge_token_revoked"))
        assert.isBelow(followed(changed), history.length, event)
      }
      assert.isBelow(followed(history.filter((event) => !event.startsWith("write ,token,stored"))), history.length)
    })
  )
})
