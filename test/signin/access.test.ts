/** Project tokens, OAuth access tokens and the answers to invalid ones (spec 4.12, 5, 7.4). */
import { extractWWWAuthenticateParams as parserOfV2 } from "@modelcontextprotocol/client"
import { extractWWWAuthenticateParams as parserOfV1 } from "@modelcontextprotocol/sdk/client/auth.js"
import { assert, it as test, layer } from "@effect/vitest"
import { Clock, Context, Duration, Effect, Exit, Option, Redacted, Result } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import * as FastCheck from "fast-check"
import { randomUUID } from "node:crypto"
import { customFetch, protectedResourceRequest, type WWWAuthenticateChallengeError } from "oauth4webapi"
import { Access } from "../../src/signin/access/Access.ts"
import { challenges } from "../../src/signin/access/WwwAuthenticate.ts"
import { credentialOf } from "../../src/platform/edge/BearerCredential.ts"
import { ProjectTokens } from "../../src/signin/access/ProjectTokens.ts"
import * as Tokens from "../../src/platform/crypto/Tokens.ts"
import { Clients } from "../../src/signin/oauth/clients/Clients.ts"
import { Grants } from "../../src/signin/oauth/grants/Grants.ts"
import { Projects } from "../../src/operator/projects/Projects.ts"
import { expanded, ofRole, scopes } from "../../src/wire/Scopes.ts"
import { makeClient, makeToken, obtainCode, refresh, signIn } from "../support/agents/Agent.ts"
import { Bridge } from "../support/bridges/Bridge.ts"
import { request } from "../support/network/Raw.ts"
import { instance, Service } from "../support/service/Service.ts"
import { firstPage } from "../support/database/Page.ts"

type Instance = Pick<Service["Service"], "services">

const authorize = ({ services }: Instance, authorization: string | undefined) =>
  Context.get(services, Access).authorize(credentialOf(authorization))

/** The parts of a refusal that a caller sees. */
const refusalOf = (on: Instance, authorization: string | undefined) =>
  Effect.map(Effect.result(authorize(on, authorization)), (result) =>
    Result.isFailure(result)
      ? { code: result.failure._tag, message: result.failure.message, challenge: result.failure.challenge }
      : undefined
  )

const isAuthorized = (on: Instance, token: string) =>
  Effect.map(refusalOf(on, `Bearer ${token}`), (refusal) => refusal === undefined)

layer(Service.layer)("a project token", (it) => {
  it.effect("makes the caller an actor of its project", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { project_id, token, token_id } = yield* makeToken(service, { role: "reader" })
      const actor = yield* authorize(service, `Bearer ${token}`)
      assert.strictEqual(actor.project_id, project_id)
      assert.strictEqual(actor.project_name, "Harbour")
      assert.strictEqual(actor.role, "reader")
      assert.deepEqual([...actor.scopes], ["context:read", "memory:read", "tasks:read", "documents:read"])
      assert.deepEqual([actor.credential_id, actor.subject], [token_id, token_id])
      assert.deepEqual([actor.client_id, actor.grant_id], [null, null])
    })
  )

  it.effect("has no write scope as a reader, and mobile:devices in no role", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const reader = yield* Effect.flip(makeToken(service, { role: "reader", scopes: ["tasks:write"] }))
      const phone = yield* Effect.flip(makeToken(service, { scopes: ["mobile:devices"] }))
      assert.deepEqual([reader._tag, phone._tag], ["scope_not_allowed", "scope_not_allowed"])
    })
  )

  it.effect("is issued only for a project that exists and is enabled", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const projects = Context.get(service.services, Projects)
      const tokens = Context.get(service.services, ProjectTokens)
      const issue = Effect.fnUntraced(function* (project_id: string) {
        const request = { project_id, role: "reader", scopes: [], ttl: Option.none() } as const
        return (yield* Effect.flip(tokens.issue(request, yield* tokens.mint)))._tag
      })
      const { project_id } = yield* projects.create("Closed")
      yield* projects.disable(project_id)
      assert.strictEqual(yield* issue(project_id), "project_disabled")
      assert.strictEqual(yield* issue(randomUUID()), "project_not_found")
    })
  )

  it.effect("with a write scope also has the read scope", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { token } = yield* makeToken(service, { scopes: ["memory:write"] })
      const actor = yield* authorize(service, `bearer ${token}`)
      assert.deepEqual([...actor.scopes], ["memory:read", "memory:write"])
    })
  )

  it.effect("records its last use, to the minute", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const tokens = Context.get(service.services, ProjectTokens)
      yield* TestClock.adjust(Duration.hours(1))
      const { project_id, token } = yield* makeToken(service)
      const lastUse = Effect.map(tokens.list(project_id, firstPage), ([only]) => only!.last_used_at?.getTime())
      yield* authorize(service, `Bearer ${token}`)
      const first = yield* lastUse
      yield* TestClock.adjust(Duration.seconds(59))
      yield* authorize(service, `Bearer ${token}`)
      assert.strictEqual(yield* lastUse, first)
      yield* TestClock.adjust(Duration.seconds(1))
      yield* authorize(service, `Bearer ${token}`)
      assert.strictEqual(yield* lastUse, first! + 60_000)
    })
  )

  it.effect("counts consent as a use, and shows how many live grants it has", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { project_id, token } = yield* makeToken(service)
      yield* signIn(service, { token })
      const [only] = yield* Context.get(service.services, ProjectTokens).list(project_id, firstPage)
      assert.isNotNull(only!.last_used_at)
      assert.strictEqual(only!.live_grants, 1)
    })
  )

  it.effect("counts only live grants: exchanged, not ended, not expired", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { project_id, token } = yield* makeToken(service)
      const grants = Context.get(service.services, Grants)
      const list = Context.get(service.services, ProjectTokens).list(project_id, firstPage)
      const liveGrants = Effect.map(list, ([only]) => only!.live_grants)
      yield* obtainCode(service, { token })
      assert.strictEqual(yield* liveGrants, 0)
      yield* signIn(service, { token })
      yield* signIn(service, { token })
      assert.strictEqual(yield* liveGrants, 2)
      const [ended, left] = (yield* grants.list(project_id, firstPage)).filter(({ status }) => status === "active")
      yield* grants.revoke(ended!.grant_id)
      assert.strictEqual(yield* liveGrants, 1)
      yield* TestClock.setTime(left!.expires_at.getTime())
      assert.strictEqual(yield* liveGrants, 0)
    })
  )

  it.effect("is listed as active, expired or revoked, and audited when issued and when revoked", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const tokens = Context.get(service.services, ProjectTokens)
      const sql = yield* SqlClient.SqlClient
      const { project_id, token_id: active } = yield* makeToken(service)
      const { token_id: expired } = yield* makeToken(service, { project_id, ttl: Option.some(Duration.hours(1)) })
      const { token_id: revoked } = yield* makeToken(service, { project_id })
      const audited = sql`
        select action
          from audit_event
         where subject ->> 'project_token_id' = ${revoked}
         order by action`
      const { revoked_at } = yield* tokens.revoke(revoked)
      const once = [{ action: "project_token.issued" }, { action: "project_token.revoked" }]
      assert.deepEqual(yield* audited, once)
      yield* TestClock.adjust(Duration.hours(1))
      assert.deepEqual((yield* tokens.revoke(revoked)).revoked_at, revoked_at)
      const listed = new Map(
        (yield* tokens.list(project_id, firstPage)).map(({ status, token_id }) => [token_id, status])
      )
      assert.deepEqual([listed.get(active), listed.get(expired), listed.get(revoked)], ["active", "expired", "revoked"])
      assert.deepEqual(yield* audited, once)
      const nobody = randomUUID()
      assert.strictEqual((yield* Effect.flip(tokens.list(nobody, firstPage)))._tag, "project_not_found")
      assert.strictEqual((yield* Effect.flip(tokens.revoke(nobody)))._tag, "project_token_not_found")
    })
  )

  it.effect("returns the grants that ended with it, also if the revocation is repeated", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const tokens = Context.get(service.services, ProjectTokens)
      const grants = Context.get(service.services, Grants)
      const { project_id, token, token_id } = yield* makeToken(service)
      const other = yield* makeToken(service, { project_id })
      yield* signIn(service, { token })
      const [earlier] = yield* grants.list(project_id, firstPage)
      const { revoked_at } = yield* grants.revoke(earlier!.grant_id)
      yield* signIn(service, { token })
      yield* signIn(service, { token: other.token })
      yield* TestClock.adjust(Duration.minutes(1))
      const { grant_ids } = yield* tokens.revoke(token_id)
      assert.deepEqual((yield* tokens.revoke(token_id)).grant_ids, grant_ids)
      yield* tokens.revoke(other.token_id)
      assert.deepEqual((yield* tokens.revoke(token_id)).grant_ids, grant_ids)
      yield* grants.revoke(grant_ids[0]!)
      const after = yield* grants.list(project_id, firstPage)
      const endedByIt = after.filter((grant) => grant_ids.includes(grant.grant_id))
      assert.deepEqual(
        endedByIt.map(({ end_reason, project_token_id }) => [project_token_id, end_reason]),
        [[token_id, "project_token_revoked"]]
      )
      assert.deepInclude(
        after.find(({ grant_id }) => grant_id === earlier!.grant_id),
        { end_reason: "revoked_by_operator", revoked_at }
      )
    })
  )

  it.effect("ends its OAuth grants at once when it is revoked", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { token, token_id } = yield* makeToken(service)
      const { access_token, client_id, refresh_token } = yield* signIn(service, { token })
      const againAuthorized = (credential: string) =>
        Effect.exit(Context.get(service.services, Access).authorizeAgain(credentialOf(`Bearer ${credential}`)))
      for (const held of [token, access_token]) assert.isTrue(Exit.isSuccess(yield* againAuthorized(held)))
      const { grant_ids } = yield* Context.get(service.services, ProjectTokens).revoke(token_id)
      assert.lengthOf(grant_ids, 1)
      assert.isFalse(yield* isAuthorized(service, token))
      assert.isFalse(yield* isAuthorized(service, access_token))
      for (const ended of [token, access_token]) assert.isTrue(Exit.isFailure(yield* againAuthorized(ended)))
      const again = yield* refresh(service, { client_id, refresh_token })
      assert.strictEqual(again.body.error, "invalid_grant")
    })
  )
})

layer(Service.layer)("an OAuth access token", (it) => {
  it.effect("makes the caller an actor with the scopes that were granted", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { project_id, token, token_id } = yield* makeToken(service)
      const query = { scope: "memory:write tasks:read offline_access openid" }
      const { access_token, client_id, scope } = yield* signIn(service, { token, query })
      const actor = yield* authorize(service, `Bearer ${access_token}`)
      assert.strictEqual(scope, "memory:read memory:write tasks:read")
      assert.deepEqual([...actor.scopes].join(" "), scope)
      assert.deepEqual([actor.project_id, actor.subject, actor.client_id], [project_id, token_id, client_id])
      assert.isString(actor.grant_id)
    })
  )

  it.effect("records its last use at its own grant only", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { project_id, token } = yield* makeToken(service)
      const { access_token } = yield* signIn(service, { token })
      yield* signIn(service, { token })
      yield* TestClock.adjust(Duration.minutes(10))
      const now = yield* Clock.currentTimeMillis
      const { grant_id } = yield* authorize(service, `Bearer ${access_token}`)
      const usedNow = (yield* Context.get(service.services, Grants).list(project_id, firstPage))
        .filter(({ last_used_at }) => last_used_at?.getTime() === now)
        .map((grant) => grant.grant_id)
      assert.deepEqual(usedNow, [grant_id])
    })
  )

  it.effect("expires after an hour, and for clients with mobile:devices after 15 minutes", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const phone = yield* makeClient(service, { scopes: ["mobile:devices", "context:read"] })
      const desk = yield* signIn(service)
      const mobile = yield* signIn(service, { client_id: phone, query: { scope: "mobile:devices context:read" } })
      yield* TestClock.adjust(Duration.minutes(15))
      assert.deepEqual(
        [yield* isAuthorized(service, desk.access_token), yield* isAuthorized(service, mobile.access_token)],
        [true, false]
      )
      yield* TestClock.adjust(Duration.minutes(45))
      assert.isFalse(yield* isAuthorized(service, desk.access_token))
    })
  )

  it.effect("stops working with its client, its grant or its project", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { services } = service
      const byClient = yield* signIn(service)
      yield* Context.get(services, Clients).disable(byClient.client_id)
      assert.isFalse(yield* isAuthorized(service, byClient.access_token))

      const byGrant = yield* signIn(service)
      const { grant_id } = yield* authorize(service, `Bearer ${byGrant.access_token}`)
      yield* Context.get(services, Grants).revoke(grant_id!)
      assert.isFalse(yield* isAuthorized(service, byGrant.access_token))

      const { project_id, token } = yield* makeToken(service)
      const byProject = yield* signIn(service, { token })
      yield* Context.get(services, Projects).disable(project_id)
      assert.isFalse(yield* isAuthorized(service, byProject.access_token))
      assert.isFalse(yield* isAuthorized(service, token))
      yield* Context.get(services, Projects).enable(project_id)
      assert.isTrue(yield* isAuthorized(service, byProject.access_token))
    })
  )

  it.effect("stops working with each row that it depends on", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const sql = yield* SqlClient.SqlClient
      const setUp = Effect.gen(function* () {
        const { project_id, token } = yield* makeToken(service)
        const { access_token, client_id } = yield* signIn(service, { token })
        yield* TestClock.adjust("1 second")
        assert.isTrue(yield* isAuthorized(service, access_token))
        return { project_id, client_id, access_token, now: new Date(yield* Clock.currentTimeMillis) }
      })
      type Made = Effect.Success<typeof setUp>
      const ends: Record<string, (made: Made) => Effect.Effect<unknown, unknown>> = {
        client: ({ client_id, now }) =>
          sql`update oauth_client set disabled_at = ${now} where client_id = ${client_id}`,
        "project token": ({ now, project_id }) => sql`
          update project_token set revoked_at = ${now} where project_id = ${project_id}::uuid`,
        "expiry of the project token": ({ now, project_id }) => sql`
          update project_token set expires_at = ${now} where project_id = ${project_id}::uuid`,
        grant: ({ client_id, now }) => sql`
          update oauth_grant set revoked_at = ${now}, end_reason = 'revoked_by_client' where client_id = ${client_id}`,
        "expiry of the grant": ({ client_id, now }) => sql`
          update oauth_grant set expires_at = ${now} where client_id = ${client_id}`,
        project: ({ now, project_id }) => sql`
          update project set disabled_at = ${now} where project_id = ${project_id}::uuid`
      }
      for (const [what, end] of Object.entries(ends)) {
        const signedIn = yield* setUp
        yield* end(signedIn)
        assert.isFalse(yield* isAuthorized(service, signedIn.access_token), what)
      }
    })
  )

  it.effect("is for this base URL and this instance only", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { access_token } = yield* signIn(service)
      const elsewhere = yield* instance({ SERVICE_BASE_URL: "https://other.example" })
      const renamed = yield* instance({ SERVICE_INSTANCE_ID: "another" })
      assert.isFalse(yield* isAuthorized(elsewhere, access_token))
      assert.isFalse(yield* isAuthorized(renamed, access_token))
      const foreign = (on: typeof service) => Context.get(on.services, Access).foreignGrants
      assert.isAbove(yield* foreign(elsewhere), 0)
      assert.strictEqual(yield* foreign(renamed), yield* foreign(elsewhere))
      assert.strictEqual(yield* foreign(service), 0)
    }).pipe(Effect.scoped)
  )

  it.effect("counts as foreign under another base URL while its grant is in force", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { services } = yield* instance({ SERVICE_BASE_URL: "https://other.example" })
      const foreign = Context.get(services, Access).foreignGrants
      const { project_id, token } = yield* makeToken(service)
      const before = yield* foreign
      yield* signIn(service, { token })
      yield* signIn(service, { token })
      assert.strictEqual(yield* foreign, before + 2)
      const grants = Context.get(service.services, Grants)
      const [ended, left] = yield* grants.list(project_id, firstPage)
      yield* grants.revoke(ended!.grant_id)
      assert.strictEqual(yield* foreign, before + 1)
      yield* TestClock.setTime(left!.expires_at.getTime() - 1)
      const last = yield* foreign
      yield* TestClock.adjust("1 millis")
      assert.isBelow(yield* foreign, last)
    }).pipe(Effect.scoped)
  )
})

layer(Service.layer)("the generic 401", (it) => {
  it.effect("is the same, byte for byte, for every bad credential", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { services } = service
      const expired = yield* makeToken(service, { ttl: Option.some(Duration.seconds(1)) })
      yield* TestClock.adjust(Duration.seconds(1))
      const revoked = yield* makeToken(service)
      yield* Context.get(services, ProjectTokens).revoke(revoked.token_id)
      const oauth = yield* signIn(service)
      const elsewhere = yield* instance({ SERVICE_BASE_URL: "http://127.0.0.1:9999" })
      const foreign = yield* signIn(elsewhere)
      const bridge = yield* Bridge.make(service)
      const bridgeToken = yield* bridge.enroll(service)
      const unknown = Redacted.value(yield* Tokens.mint("sat"))

      const bad = [
        expired.token,
        revoked.token,
        oauth.refresh_token,
        foreign.access_token,
        bridgeToken,
        bridge.credential,
        unknown,
        unknown.slice(0, -1),
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "github_pat_11ABCDEFG0123456789_abcdefghijklmnopqrstuvwxyz",
        "ghs_16C7e42F292c6912E7710c838347Ae178B4a",
        "glpat-abcdefghijklmnopqrst",
        "x".repeat(5000),
        "with spaces in it"
      ]
      const refusals = yield* Effect.forEach(bad, (token) => refusalOf(service, `Bearer ${token}`))
      assert.strictEqual(new Set(refusals.map((refusal) => JSON.stringify(refusal))).size, 1)
      assert.strictEqual(refusals[0]!.code, "unauthorized")
      assert.include(refusals[0]!.challenge, 'error="invalid_token"')
    }).pipe(Effect.scoped)
  )

  it.effect("names no error if the credential is missing", () =>
    Effect.gen(function* () {
      const service = yield* Service
      for (const none of [undefined, "", "Bearer", "Bearer ", "Basic eDp5"]) {
        const refusal = yield* refusalOf(service, none)
        assert.strictEqual(
          refusal?.challenge,
          'Bearer resource_metadata="http://127.0.0.1:8787/.well-known/oauth-protected-resource/mcp", ' +
            'scope="context:read memory:read memory:write tasks:read tasks:write documents:read"'
        )
      }
    })
  )

  it.effect("gives way to a 403 with the scopes held and those of the operation if one is missing", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { token } = yield* makeToken(service, { role: "reader" })
      const actor = yield* authorize(service, `Bearer ${token}`)
      const refusal = yield* Effect.flip(
        Context.get(service.services, Access).require(actor, "tasks:read", "tasks:write")
      )
      assert.strictEqual(refusal.status, 403)
      assert.include(refusal.challenge, 'error="insufficient_scope"')
      assert.include(refusal.challenge, 'scope="context:read memory:read tasks:read tasks:write documents:read"')
    })
  )
})

test("a write scope implies the read scope of the same noun, and no other", () => {
  assert.deepEqual(expanded(["tasks:write"]), ["tasks:read", "tasks:write"])
  assert.deepEqual(expanded(scopes), scopes)
  assert.deepEqual(expanded(["mobile:devices"]), ["mobile:devices"])
})

test("three independent parsers read the same from every challenge", async () => {
  const origin = FastCheck.constantFrom(
    "https://bridge.example",
    "http://127.0.0.1:8787",
    "https://xn--bcher-kva.test:84"
  )
  const needed = FastCheck.subarray([...scopes], { minLength: 1 })
  const held = FastCheck.subarray([...scopes])
  await FastCheck.assert(
    FastCheck.asyncProperty(origin, needed, held, async (base_url, operation, has) => {
      const { insufficient, invalid, missing } = challenges(base_url)
      const contributor = ofRole("contributor").join(" ")
      for (const [challenge, error, scope] of [
        [missing, undefined, contributor],
        [invalid, "invalid_token", contributor],
        [insufficient(operation, has, false), "insufficient_scope", expanded([...operation, ...has]).join(" ")]
      ] as const) {
        // The parsers accept more than the grammar allows (RFC 9110 11.6.1).
        assert.match(challenge, /^Bearer [a-z_]+="[^"\\]*"(, [a-z_]+="[^"\\]*")*$/)
        const resource_metadata = `${base_url}/.well-known/oauth-protected-resource/mcp`
        const response = () => new Response(null, { status: 401, headers: { "www-authenticate": challenge } })
        const parsed = await protectedResourceRequest("t", "GET", new URL("https://a.test"), undefined, undefined, {
          [customFetch]: async () => response()
        }).then(
          () => assert.fail("no challenge was seen"),
          (thrown: WWWAuthenticateChallengeError) => thrown.cause
        )
        assert.lengthOf(parsed, 1)
        const { error_description, ...parameters } = parsed[0]!.parameters
        assert.strictEqual(parsed[0]!.scheme, "bearer")
        assert.deepEqual(parameters, { ...(error !== undefined && { error }), resource_metadata, scope } as object)
        assert.strictEqual(error_description === undefined, error === undefined)
        for (const read of [parserOfV1, parserOfV2]) {
          const found = read(response())
          assert.deepEqual(
            [found.resourceMetadataUrl?.href, found.scope, found.error],
            [resource_metadata, scope, error]
          )
        }
      }
    }),
    { numRuns: 30 }
  )
})

test("a credential is the text after Bearer and one space; nothing but a whole token is accepted", () => {
  FastCheck.assert(
    FastCheck.property(FastCheck.string(), (text) => {
      const found = Option.map(credentialOf(`bEaReR ${text}`), Redacted.value)
      assert.strictEqual(Option.getOrUndefined(found), text.trim() === "" ? undefined : text)
    })
  )
})

layer(Service.layer)("every route", (it) => {
  it.effect("reads Authorization alike", () =>
    Effect.gen(function* () {
      const { url } = yield* Service
      const project = (yield* makeToken(yield* Service)).token
      const headers = [
        undefined,
        "",
        "Bearer",
        "Bearer    ",
        `Basic ${project}`,
        project,
        `Bearer\t${project}`,
        `Bearers ${project}`,
        `Bearer  ${project}`,
        `Bearer ${project} x`,
        `Bearer ${project}=`,
        `Bearer ${project}, Bearer ${project}`,
        "Bearer x"
      ]
      const absent = 8
      const codesAt = (method: string, path: string) =>
        Effect.forEach(headers, (authorization) =>
          Effect.map(
            request(url, method, path, { ...(authorization !== undefined && { authorization }) }),
            ({ code, headers: answered, status }) => [status, code, answered.get("www-authenticate")].join(" ")
          )
        )
      for (const [method, path] of [
        ["POST", "/mcp"],
        ["GET", "/bridge/v1/mobile/devices/7b8f1c1e-0f4e-4d0c-9a5e-111111111111"]
      ] as const) {
        const answers = yield* codesAt(method, path)
        assert.strictEqual(new Set(answers.slice(0, absent)).size, 1)
        assert.strictEqual(new Set(answers.slice(absent)).size, 1)
        assert.notInclude(answers[0], "invalid_token")
        assert.include(answers[absent], "invalid_token")
      }
      const [self] = [...new Set(yield* codesAt("GET", "/bridge/v1/tokens/self"))]
      assert.strictEqual(self, "401 bridge_token_invalid Bearer")
    })
  )
})
