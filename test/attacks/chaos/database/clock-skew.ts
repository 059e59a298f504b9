/**
 * Three replicas; the clock of one is ten minutes fast, that of another ten minutes slow.
 *
 * Everything that expires is made at one replica and used at another shortly before or after its expiry: a challenge, a
 * Bridge token, a rotation, a code, an access token, a refresh token, a project token. The clock of the database decides:
 * nothing lives longer and nothing ends earlier.
 */
import { Duration, Effect, Option } from "effect"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { exchange, makeToken, obtainCode, refresh, signIn } from "../../../support/agents/Agent.ts"
import { Bridge } from "../../../support/bridges/Bridge.ts"
import type { Answer } from "../../../support/network/Http.ts"
import { Agent } from "../../../support/agents/McpAgent.ts"
import { tokens } from "../../../support/bridges/Tokens.ts"
import { beside, chaos, draw, scratch, server, size } from "../harness.ts"

const skews = { right: 0, ahead: 600_000, behind: -600_000 }
/** How many of each kind each replica makes. */
const each = size(7, 1)
/** How precisely a process knows the database's clock, in milliseconds: half of a busy machine's response time. */
const tolerance = size(300, 1000)

const settings = {
  SERVICE_BASE_URL: "http://127.0.0.1:8787",
  SERVICE_LOG_LEVEL: "Info",
  SERVICE_BRIDGE_CHALLENGE_TTL_SECONDS: "3",
  SERVICE_BRIDGE_TOKEN_TTL_SECONDS: "6",
  SERVICE_BRIDGE_ROTATION_TTL_SECONDS: "3",
  SERVICE_OAUTH_CODE_TTL_SECONDS: "3",
  SERVICE_OAUTH_ACCESS_TTL_SECONDS: "3",
  SERVICE_OAUTH_REFRESH_IDLE_TTL_SECONDS: "3"
}

interface At {
  readonly url: string
}

interface Kind {
  readonly seconds: number
  /** The refusal after the expiry. */
  readonly refusal: string
  /** Makes one at a replica; returns the request that uses it at another replica. */
  readonly make: (at: At) => Effect.Effect<(at: At) => Effect.Effect<Answer>, unknown>
}

let used = 0
let ended = 0

chaos(
  "clock-skew",
  () => ({ used, ended }),
  Effect.gen(function* () {
    const folder = yield* scratch
    const replicas = yield* Effect.forEach(Object.entries(skews), ([name, by]) =>
      Effect.map(
        server(folder, {
          ...settings,
          NODE_OPTIONS: `--import ${pathToFileURL(join(import.meta.dirname, "../parts/Skew.mjs"))}`,
          CHAOS_SKEW_MS: String(by)
        }),
        (one) => ({ name, by, ...one })
      )
    )
    const on = yield* beside(folder, replicas[0]!, settings)
    const violations: Array<string> = []

    const databaseTime = Effect.map(
      on.sql<{ readonly at: number }>`select extract(epoch from clock_timestamp())::float8 * 1000 as at`,
      ([row]) => row!.at
    ).pipe(Effect.orDie)

    const enrolled = (at: At) => Effect.flatMap(Bridge.make(on), (bridge) => bridge.enroll(at))
    const listTools = (token: string) => (at: At) =>
      new Agent({ url: at.url, token, project_id: "", write_context: undefined as never }).post("tools/list")
    const kinds: Readonly<Record<string, Kind>> = {
      challenge: {
        seconds: 3,
        refusal: "enrollment_challenge_expired",
        make: Effect.fnUntraced(function* (at) {
          const bridge = yield* Bridge.make(on)
          const challenge = yield* bridge.askChallenge(at)
          return (at) => bridge.prove(at, challenge)
        })
      },
      "Bridge token": {
        seconds: 6,
        refusal: "bridge_token_expired",
        make: (at) => Effect.map(enrolled(at), (token) => (at) => tokens(at).self(token))
      },
      rotation: {
        seconds: 3,
        refusal: "bridge_rotation_expired",
        make: Effect.fnUntraced(function* (at) {
          const { body } = yield* tokens(at).prepare(yield* enrolled(at))
          return (at) => tokens(at).confirm(body.successor_token, body.rotation_id)
        })
      },
      code: {
        seconds: 3,
        refusal: "invalid_grant",
        make: Effect.fnUntraced(function* (at) {
          const { client_id, code, verifier } = yield* obtainCode({ ...on, ...at })
          return (at) => exchange(at, { client_id, code, code_verifier: verifier })
        })
      },
      "access token": {
        seconds: 3,
        refusal: "401",
        make: (at) => Effect.map(signIn({ ...on, ...at }), ({ access_token }) => listTools(access_token))
      },
      "refresh token": {
        seconds: 3,
        refusal: "invalid_grant",
        make: (at) =>
          Effect.map(
            signIn({ ...on, ...at }),
            ({ client_id, refresh_token }) =>
              (at) =>
                refresh(at, { client_id, refresh_token })
          )
      },
      "project token": {
        seconds: 3,
        refusal: "401",
        make: () =>
          Effect.map(makeToken(on, { ttl: Option.some(Duration.seconds(3)) }), ({ token }) => listTools(token))
      }
    }

    /** The expiry is known as precisely as the duration of the request that made it. */
    const one = Effect.fnUntraced(function* (
      name: string,
      { make, refusal, seconds }: Kind,
      made: number,
      turn: number
    ) {
      const [here, there] = [replicas[made]!, replicas[(made + turn + 1) % 3]!]
      const earliest = (yield* databaseTime) + seconds * 1000
      const use = yield* make(here)
      const latest = (yield* databaseTime) + seconds * 1000
      // As close to the expiry as can be judged, alternately before and after it.
      const near = 100 + draw() * 400
      const due = turn % 2 === 0 ? earliest - tolerance - near : latest + tolerance + near
      yield* Effect.sleep(Math.max(0, due - (yield* databaseTime)))
      const before = yield* databaseTime
      const { body, code, headers, status } = yield* use(there)
      const after = yield* databaseTime
      used++
      const outcome = status < 300 ? "good" : (code ?? (typeof body?.error === "string" ? body.error : `${status}`))
      const which = `a ${name}, made ${here.name}, used ${there.name}`
      if (after < earliest - tolerance && outcome !== "good") violations.push(`${which}: ${outcome}, before its expiry`)
      if (before > latest + tolerance) {
        ended++
        if (outcome !== refusal && `${status}` !== refusal) violations.push(`${which}: ${outcome}, after its expiry`)
      }
      const date = Date.parse(headers.get("date") ?? "")
      if (!(date >= before - 1000 - tolerance && date <= after + tolerance))
        violations.push(`${there.name}: Date is ${date - after} ms off`)
    })
    const all = Object.entries(kinds).flatMap(([name, kind]) =>
      replicas.flatMap((_, made) => Array.from({ length: 2 * each }, (_, turn) => one(name, kind, made, turn)))
    )
    yield* Effect.all(all, { concurrency: 24, discard: true }).pipe(Effect.orDie)

    for (const { by, name, output } of replicas) {
      const timestamps = output
        .flatMap((line) => /"timestamp":"([^"]+)"/.exec(line)?.slice(1) ?? [])
        .map((at) => Date.parse(at))
      const off = timestamps.at(-1)! - Date.now()
      if (!(Math.abs(off - by) < 300_000))
        violations.push(`the clock of replica ${name} is off by ${off} ms, not by ${by}`)
    }
    if (ended === 0 || ended === used) violations.push("only one side of the expiries was tested")

    return { figures: { kinds: Object.keys(kinds).length, used, after_the_end: ended, skews, tolerance }, violations }
  })
)
