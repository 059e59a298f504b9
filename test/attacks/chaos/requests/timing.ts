/**
 * Whether the time of a refusal tells more than its text: unknown, revoked, expired and foreign credentials at every
 * endpoint, in random order on one connection.
 *
 * Where the protocol gives these states codes of their own (Bridge tokens, bootstrap credentials), time tells nothing new:
 * it is measured and not bounded. Where they share one answer, a difference above 5 % with |t| above 10 is a leak.
 */
import { Context, Duration, Effect, Option, Redacted } from "effect"
import { ProjectTokens } from "../../../../src/signin/access/ProjectTokens.ts"
import * as Tokens from "../../../../src/platform/crypto/Tokens.ts"
import { Credentials } from "../../../../src/bridges/enrollment/Credentials.ts"
import {
  authorizeQuery,
  Browser,
  hiddenFields,
  makeClient,
  makeToken,
  post,
  signIn
} from "../../../support/agents/Agent.ts"
import { Bridge } from "../../../support/bridges/Bridge.ts"
import { rawLine } from "../../../support/network/RawLine.ts"
import { tokens } from "../../../support/bridges/Tokens.ts"
import { compare, differ } from "../../../support/attacks/Welch.ts"
import { beside, chaos, draw, scratch, server, size, sliced } from "../harness.ts"

/** Rounds at each endpoint; at full size as many as fit its share of the time. */
const [most, seconds] = [size(1500, 20), size(7, 60)]
let measured = 0

const minted = (kind: Tokens.TokenKind) => Effect.map(Tokens.mint(kind), Redacted.value)

chaos(
  "timing",
  () => ({ measured }),
  Effect.gen(function* () {
    const folder = yield* scratch
    const on = yield* beside(folder, yield* server(folder))
    const { sql, url } = on
    const expire = (table: string, column: string, token: string) =>
      sql`
        update ${sql(table)} set expires_at = clock_timestamp() - interval '1 second'
         where ${sql(column)} = ${Buffer.from(Tokens.hash(Redacted.make(token)))}`

    const made = Effect.gen(function* () {
      const client_id = yield* makeClient(on)
      const project = yield* makeToken(on)
      const signed = Effect.suspend(() => signIn(on, { client_id, token: project.token }))
      const [revoked, expired, foreign] = [yield* signed, yield* signed, yield* signIn(on)]
      yield* post(`${url}/revoke`, { client_id, token: revoked.refresh_token })
      yield* expire("oauth_access_token", "token_hash", expired.access_token)
      yield* expire("oauth_refresh_token", "token_hash", expired.refresh_token)

      const projects = Context.get(on.services, ProjectTokens)
      const [gone, over] = [yield* makeToken(on), yield* makeToken(on, { ttl: Option.some(Duration.seconds(1)) })]
      yield* projects.revoke(gone.token_id)
      yield* expire("project_token", "token_hash", over.token)

      const [ended, late] = [yield* (yield* Bridge.make(on)).enroll(on), yield* (yield* Bridge.make(on)).enroll(on)]
      yield* tokens(on).revoke(ended)
      yield* expire("bridge_token", "token_hash", late)

      const bridge = yield* Bridge.make(on)
      const [taken, stale] = [yield* Bridge.make(on), yield* Bridge.make(on)]
      yield* Context.get(on.services, Credentials).revoke(taken.credential_id)
      yield* expire("bridge_enrollment_credential", "credential_hash", stale.credential)

      const browser = new Browser(url)
      const page = yield* browser.authorize(authorizeQuery({ client_id }))
      return {
        mcp: {
          unknown: yield* minted("sat"),
          revoked: revoked.access_token,
          expired: expired.access_token
        },
        project: { unknown: yield* minted("spt"), revoked: gone.token, expired: over.token },
        refresh: {
          client_id,
          unknown: yield* minted("srt"),
          revoked: revoked.refresh_token,
          expired: expired.refresh_token,
          "another client's": foreign.refresh_token
        },
        bridge: { unknown: yield* minted("sbt"), revoked: ended, expired: late },
        bootstrap: {
          body: bridge.challengeBody,
          unknown: yield* minted("sbe"),
          revoked: taken.credential,
          expired: stale.credential,
          "another project's": (yield* Bridge.make(on)).credential
        },
        consent: { browser, page }
      }
    }).pipe(Effect.orDie)
    const { bootstrap, bridge, consent, mcp, project, refresh } = yield* made

    const bytes = (method: string, path: string, headers: Readonly<Record<string, string>>, body = "") => {
      const lines = Object.entries({ host: "localhost", ...headers, "content-length": String(Buffer.byteLength(body)) })
      return Buffer.from(
        `${method} ${path} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n${body}`
      )
    }
    const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
    const json = { "content-type": "application/json" }
    const form = { "content-type": "application/x-www-form-urlencoded" }
    const list = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" })
    const states = (given: Readonly<Record<string, string>>, request: (token: string) => Buffer) =>
      Object.fromEntries(Object.entries(given).map(([state, token]) => [state, request(token)]))

    const { client_id, ...refreshTokens } = refresh
    const { body: challengeBody, ...credentials } = bootstrap
    /** By endpoint: the request for each state, and whether all states get one answer. */
    const endpoints: Record<string, readonly [Readonly<Record<string, Buffer>>, boolean]> = {
      "access token": [states(mcp, (token) => bytes("POST", "/mcp", { ...json, ...bearer(token) }, list)), true],
      "project token": [states(project, (token) => bytes("POST", "/mcp", { ...json, ...bearer(token) }, list)), true],
      "refresh token": [
        states(refreshTokens, (refresh_token) => {
          const fields = { grant_type: "refresh_token", client_id, refresh_token }
          return bytes("POST", "/token", form, new URLSearchParams(fields).toString())
        }),
        true
      ],
      "project token at the consent page": [
        states(project, (project_token) => {
          const fields = { ...hiddenFields(consent.page), project_token }
          const headers = { ...form, cookie: consent.browser.cookie, origin: url }
          return bytes("POST", "/oauth/consent", headers, new URLSearchParams(fields).toString())
        }),
        true
      ],
      "Bridge token": [states(bridge, (token) => bytes("GET", "/bridge/v1/tokens/self", bearer(token))), false],
      "bootstrap credential": [
        states(credentials, (token) =>
          bytes(
            "POST",
            "/bridge/v1/enrollment/challenges",
            { ...json, ...bearer(token), "idempotency-key": "k" },
            JSON.stringify(challengeBody)
          )
        ),
        false
      ]
    }

    const violations: Array<string> = []
    const figures: Record<string, string> = {}
    const line = rawLine(url)
    for (const [endpoint, [requests, same]] of Object.entries(endpoints)) {
      const names = Object.keys(requests)
      const micros: Record<string, Array<number>> = Object.fromEntries(names.map((name) => [name, []]))
      const answers = new Set<string>()
      const until = performance.now() + seconds * 1000
      for (let round = 0; round < most && performance.now() < until; round++) {
        // Wrong tokens are counted, and a request ends after too many.
        if (endpoint.endsWith("page")) yield* Effect.orDie(sql`update oauth_request set wrong_tokens = 0`)
        for (const name of names.toSorted(() => draw() - 0.5)) {
          const from = performance.now()
          const [got] = (yield* Effect.promise(() => line.send(requests[name]!, [false]))) ?? []
          micros[name]!.push((performance.now() - from) * 1000)
          measured++
          if (!(got !== undefined && got.status >= 400 && got.status < 500)) {
            violations.push(`${endpoint}, ${name}: ${got?.status} ${got?.text.slice(0, 200)}`)
            break
          }
          answers.add(`${got.status} ${got.text}`)
        }
        if (violations.length > 3) break
      }
      if (same && answers.size !== 1) violations.push(`${endpoint}: ${answers.size} answers`)
      for (const name of names.slice(1)) {
        const compared = compare(micros["unknown"]!, micros[name]!)
        figures[`${endpoint}, ${name}`] =
          `${Math.round(compared.delta)} us, ${(compared.share * 100).toFixed(1)} %, t ${compared.t.toFixed(1)}`
        if (!sliced && same && differ(compared)) violations.push(`${endpoint}: the time tells ${name}`)
      }
      // A leak of a fifth must be detected; otherwise the measurement was too coarse to prove anything.
      const planted = compare(
        micros["unknown"]!,
        micros["unknown"]!.map((value) => value * 1.2)
      )
      if (!sliced && same && !differ(planted)) violations.push(`${endpoint}: a planted leak was not detected`)
    }
    line.close()
    return { figures: { measured, ...figures }, violations }
  })
)
