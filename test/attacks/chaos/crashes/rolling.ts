/**
 * Stops and starts two replicas in turn, as an upgrade does, behind nginx where nginx is installed.
 *
 * Meanwhile clients enroll, rotate, read tokens/self and call tools, half of them with DPoP proofs. Each call may be retried
 * once, and none fails. Each stop takes at most 5 s and exits with code 0, and nothing is logged as an error.
 */
import { Cause, Effect, Exit, Redacted } from "effect"
import { randomUUID } from "node:crypto"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { generateKeyPair, type KeyPair } from "../../../../src/client/Crypto.ts"
import { dpopProof } from "../../../../src/client/Dpop.ts"
import { Bridge } from "../../../support/bridges/Bridge.ts"
import { type Answer, type Ask, send } from "../../../support/network/Http.ts"
import { Agent } from "../../../support/agents/McpAgent.ts"
import { type Tokens, tokens } from "../../../support/bridges/Tokens.ts"
import { admin, chaos, makeFrontend, operator, percentile, scratch, server, size } from "../harness.ts"

const restarts = size(200, 2)
/** Both replicas restart at least once; no restart begins later than this after the start of the run. */
const seconds = 42
const clients = 4

const stops: Array<number> = []
const starts: Array<number> = []
const calls = { answered: 0, repeated: 0 }

chaos(
  "rolling",
  () => ({ restarts: starts.length, calls }),
  Effect.gen(function* () {
    const folder = yield* scratch
    const frontend = yield* makeFrontend(folder)
    const settings = { SERVICE_BASE_URL: frontend.url, SERVICE_TRUSTED_PROXIES: "127.0.0.1" }
    const replicas = yield* Effect.all([server(folder, settings), server(folder, settings)], { concurrency: 2 })
    yield* frontend.open(replicas.map(({ port }) => port))
    const { credentials, project_id } = yield* operator(folder, size(400, 20))
    const out = join(folder, "token")
    yield* admin(folder, "create-project-token", "--project", project_id, "--role", "contributor", "--out", out)
    const violations: Array<string> = []

    /** One call as its client sees it: the service answers on the first attempt, or when it is repeated. */
    const call = Effect.fnUntraced(function* (
      what: string,
      status: number,
      attempt: Effect.Effect<Answer>,
      mostRepeats = 1
    ) {
      let exit = yield* Effect.exit(attempt)
      for (let repeats = 0; repeats < mostRepeats && !isAnswer(exit); repeats++) {
        calls.repeated++
        yield* Effect.sleep("1 second")
        exit = yield* Effect.exit(attempt)
      }
      if (Exit.isFailure(exit)) return yield* failed(`${what}: no answer, ${Cause.squash(exit.cause)}`)
      const { status: answered, text } = exit.value
      if (answered !== status) return yield* failed(`${what}: ${answered} instead of ${status}: ${text.slice(0, 200)}`)
      calls.answered++
      return exit.value
    })
    const failed = (violation: string) =>
      Effect.andThen(
        Effect.sync(() => violations.push(violation)),
        Effect.fail("failed" as const)
      )

    const enroll = Effect.fnUntraced(function* (credential: Redacted.Redacted<string>) {
      const keys = yield* generateKeyPair
      const identity = { project_id, bridge_id: `bridge-${randomUUID()}`, keys }
      const bridge = new Bridge({ ...identity, credential: Redacted.value(credential), credential_id: "" })
      const challenge = yield* call("challenge", 201, bridge.askChallenge(frontend))
      const proof = yield* call("proof", 200, bridge.prove(frontend, challenge))
      return { keys, token: proof.body.access_token as string }
    })
    /** The same with a proof of its own for each attempt. */
    const proven = (keys: KeyPair): Pick<Tokens, "confirm" | "prepare" | "self"> => {
      const at = (path: string, { bearer, method = "POST", ...ask }: Ask & { readonly bearer: string }) => {
        const url = `${frontend.url}/bridge/v1/tokens/${path}`
        return Effect.suspend(() => dpopProof(keys, { method, url }, Redacted.make(bearer), Date.now())).pipe(
          Effect.flatMap((dpop) => send(url, { ...ask, bearer, method, headers: { dpop } }))
        )
      }
      return {
        self: (bearer) => at("self", { method: "GET", bearer }),
        prepare: (bearer, key) => at("rotate/prepare", { bearer, key }),
        confirm: (bearer, rotation_id, key) => at("rotate/confirm", { bearer, key, body: { rotation_id } })
      }
    }

    const agent = new Agent({
      url: frontend.url,
      token: readFileSync(out, "utf8").trim(),
      project_id,
      write_context: undefined as never
    })
    const identity = yield* call("server_identity", 200, tool(agent, "server_identity")).pipe(Effect.orDie)
    const { write_context } = identity.body.result.structuredContent

    const late = () => starts.length >= 2 && performance.now() >= seconds * 1000
    const rolled = () => starts.length >= restarts || late() || violations.length > 0
    const client = Effect.fnUntraced(
      function* (number: number) {
        let { keys, token } = yield* enroll(credentials.pop()!)
        for (let round = 1; !rolled(); round++) {
          if (round % 10 === 0 && credentials.length > clients) ({ keys, token } = yield* enroll(credentials.pop()!))
          const { confirm, prepare, self } = number % 2 === 0 ? proven(keys) : tokens(frontend)
          // nginx passes a read with a proof to one replica only, which may be the one that restarts.
          yield* call("self", 200, self(token), number % 2 === 0 ? 5 : 1)
          const prepared = yield* call("prepare", 201, prepare(token, randomUUID()))
          const { rotation_id, successor_token } = prepared.body
          yield* call("confirm", 200, confirm(successor_token, rotation_id, randomUUID()))
          token = successor_token
          const note = { kind: "note", body: "A note.", idempotency_key: randomUUID(), write_context }
          const noted = yield* call("memory_add", 200, tool(agent, "memory_add", note))
          if (noted.body.result.isError) return yield* failed(`memory_add: ${noted.text.slice(0, 200)}`)
          yield* Effect.sleep("5 millis")
        }
      },
      (self) => Effect.ignore(self)
    )

    const rolling = Effect.gen(function* () {
      while (!rolled()) {
        const replica = replicas[starts.length % 2]!
        const { code, millis } = yield* replica.stop
        stops.push(millis)
        if (code !== 0) violations.push(`a stop ended with ${code}`)
        if (millis > 5000) violations.push(`a stop took ${millis} ms`)
        starts.push(yield* replica.start)
      }
    })
    const work = [rolling, ...Array.from({ length: clients }, (_, number) => client(number))]
    yield* Effect.all(work, { concurrency: "unbounded" })
    for (const line of replicas.flatMap(({ output }) => output)) {
      if (/"level":"(ERROR|FATAL)"/.test(line)) violations.push(`logged: ${line.slice(0, 300)}`)
    }

    return {
      figures: {
        by: frontend.by,
        restarts: starts.length,
        calls: calls.answered,
        repeated_once: calls.repeated,
        slowest_stop_ms: Math.max(...stops),
        median_start_ms: percentile(starts, 0.5),
        slowest_start_ms: Math.max(...starts)
      },
      violations
    }
  })
)

/** A call may be retried if the proxy found no replica, or the replica was not ready. */
const isAnswer = (exit: Exit.Exit<Answer>) => Exit.isSuccess(exit) && ![502, 503, 504].includes(exit.value.status)

const tool = (agent: Agent, name: string, given: Readonly<Record<string, unknown>> = {}) =>
  Effect.map(agent.call(name, given), ({ answer }) => answer)
