/** Passkeys over HTTP, with an authenticator in software: what signs in, what is refused, and the audit row of each. */
import { assert, layer } from "@effect/vitest"
import { Clock, Context, Duration, Effect, Layer, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { randomBytes } from "node:crypto"
import { Projects } from "../../src/operator/projects/Projects.ts"
import { sha256 } from "../../src/platform/crypto/Sha256.ts"
import { operator } from "../../src/platform/settings/Operator.ts"
import { ProjectTokens } from "../../src/signin/access/ProjectTokens.ts"
import { keyOfPasskey, PersonKeys } from "../../src/signin/passkeys/PersonKeys.ts"
import { relyingPartyOf } from "../../src/signin/passkeys/RelyingParty.ts"
import { answerOf, authorizeQuery, Browser, makeClient, makeToken } from "../support/agents/Agent.ts"
import { ask } from "../support/agents/Answers.ts"
import { byCertificate, byOwnKey } from "../support/people/Attestation.ts"
import { Agent } from "../support/agents/McpAgent.ts"
import { csrfOf, Person } from "../support/people/Console.ts"
import {
  addKey,
  Authenticator,
  makeHolder,
  named,
  optionsToAdd,
  optionsToSignIn,
  type Said,
  signInWith
} from "../support/people/Passkey.ts"
import { firstPage } from "../support/database/Page.ts"
import { TestDatabase } from "../support/database/TestDatabase.ts"
import { instance, Service } from "../support/service/Service.ts"

const settings = { SERVICE_BASE_URL: named }
const Named = Layer.effect(Service, instance(settings)).pipe(Layer.provideMerge(TestDatabase.sql))

const holder = (options: Parameters<typeof makeToken>[1] = {}) =>
  Effect.flatMap(Service, (service) => makeHolder(service, options))
const stranger = Effect.map(Service, ({ url }) => new Person(url, named))

/** The audit rows about passkeys of a project, oldest first: what, why it was refused, and by whom if not by a token of it. */
const recorded = (project_id: string) =>
  SqlClient.SqlClient.use((sql) =>
    Effect.map(
      sql<{ event: string }>`
        select concat_ws(' ', replace(action, 'person_key.', ''), code,
                         case when t.token_id is null then 'by ' || actor end) as event
          from audit_event e
          left join project_token t on t.project_id = e.project_id and 'project_token:' || t.token_id = e.actor
         where e.project_id = ${project_id}::uuid and action like 'person_key.%' order by at, event_id`,
      (rows) => rows.map(({ event }) => event)
    )
  )

const keysOf = (project_id: string) =>
  Effect.flatMap(Service, ({ services }) => Context.get(services, PersonKeys).list(project_id, firstPage))

const locationOf = ({ headers, status }: { readonly headers: Headers; readonly status: number }) => [
  status,
  headers.get("location")
]

layer(Named)("a passkey", (it) => {
  it.effect("is added with a session by project token, and opens that token's project from then on", () =>
    Effect.gen(function* () {
      const { added, authenticator, home, project_id, token_id } = yield* holder({ role: "reader", label: "Ada" })
      assert.deepEqual(locationOf(added), [303, "/console/keys?done=add"])
      const person = yield* stranger
      assert.deepEqual(locationOf(yield* signInWith(person, authenticator, {}, `${home}/tasks`)), [
        303,
        `${home}/tasks`
      ])
      assert.strictEqual((yield* person.get(home)).status, 200)
      assert.strictEqual((yield* person.get("/console/01990000-0000-7000-8000-000000000000")).status, 404)
      const sql = yield* SqlClient.SqlClient
      const [opened] = yield* sql<{ actor: string; subject: any }>`
        select actor, subject from audit_event
         where project_id = ${project_id}::uuid and action = 'console_session.opened' order by at desc, event_id desc limit 1`
      const [key] = yield* keysOf(project_id)
      assert.strictEqual(opened!.actor, `project_token:${token_id}`)
      assert.strictEqual(opened!.subject.person_key_id, key!.person_key_id)
      assert.deepEqual(yield* recorded(project_id), ["added"])
    })
  )

  it.effect("is asked for with a challenge of 32 bytes, user verification and a discoverable credential", () =>
    Effect.gen(function* () {
      const { authenticator, person, token_id } = yield* holder({ label: "Ada" })
      const { answer } = yield* optionsToAdd(person)
      assert.strictEqual(Buffer.from(answer.body.challenge, "base64url").length, 32)
      assert.deepInclude(answer.body, {
        rp: { id: "localhost", name: "Bridge Service" },
        attestation: "none",
        timeout: 300_000,
        pubKeyCredParams: [-8, -7, -257].map((alg) => ({ type: "public-key", alg })),
        authenticatorSelection: { residentKey: "required", requireResidentKey: true, userVerification: "required" },
        excludeCredentials: [{ type: "public-key", id: authenticator.id }],
        user: {
          id: Buffer.from(token_id.replaceAll("-", ""), "hex").toString("base64url"),
          name: "Ada · Harbour",
          displayName: "Ada · Harbour"
        }
      })
      const asked = yield* (yield* stranger).post("/console/sign-in/options", {})
      assert.match(
        asked.headers.get("set-cookie")!,
        /^console_presession_8787=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax; Max-Age=300$/
      )
      assert.strictEqual(Buffer.from(asked.body.challenge, "base64url").length, 32)
      assert.deepInclude(asked.body, {
        rpId: "localhost",
        allowCredentials: [],
        userVerification: "required",
        timeout: 300_000
      })
      for (const { headers } of [answer, asked]) assert.strictEqual(headers.get("cache-control"), "no-store")
    })
  )

  it.effect("is stored without its challenge", () =>
    Effect.gen(function* () {
      const person = yield* stranger
      const { challenge } = yield* optionsToSignIn(person)
      const sql = yield* SqlClient.SqlClient
      const rows = yield* sql<{ text: string }>`select c::text as text from person_key_challenge c`
      const hex = Buffer.from(challenge, "base64url").toString("hex")
      assert.isNotEmpty(rows)
      for (const { text } of rows) {
        assert.notInclude(text, hex)
        assert.notInclude(text, person.cookie.split("=")[1]!)
      }
    })
  )

  const refused: ReadonlyArray<readonly [what: string, said: Said, code: string]> = [
    ["made at another origin", { origin: "https://evil.example" }, "foreign_origin"],
    ["made at another port of this host", { origin: "http://localhost:8788" }, "foreign_origin"],
    ["made in a page inside another site's", { crossOrigin: true }, "foreign_origin"],
    ["made for another site", { rpId: "evil.example" }, "foreign_relying_party"],
    ["made without user verification", { userVerified: false }, "not_verified"],
    ["of the wrong type", { type: "webauthn.create" }, "invalid"],
    ["for another person", { userHandle: "AAAA" }, "invalid"]
  ]
  for (const [what, said, code] of refused) {
    it.effect(`signs in with no answer ${what}, and leaves an audit row`, () =>
      Effect.gen(function* () {
        const { authenticator, project_id } = yield* holder()
        const person = yield* stranger
        const answer = yield* signInWith(person, authenticator, said)
        assert.strictEqual(answer.status, 422)
        assert.notInclude(person.cookie, "scs_")
        assert.deepEqual(yield* recorded(project_id), ["added", `refused ${code}`])
        assert.strictEqual(
          (yield* signInWith(person, authenticator)).status,
          303,
          "the passkey itself is as good as before"
        )
      })
    )
  }

  it.effect("signs in with no answer of another key, and leaves an audit row", () =>
    Effect.gen(function* () {
      const { authenticator, project_id } = yield* holder()
      authenticator.privateKey = new Authenticator().privateKey
      assert.strictEqual((yield* signInWith(yield* stranger, authenticator, { count: 0 })).status, 422)
      assert.deepEqual(
        yield* recorded(project_id),
        ["added", "refused invalid"],
        "nor does a wrong signature switch it off"
      )
    })
  )

  const attested: ReadonlyArray<readonly [what: string, said: Said, code: string]> = [
    ["made at another origin", { origin: "https://evil.example" }, "foreign_origin"],
    ["made in a page inside another site's", { crossOrigin: true }, "foreign_origin"],
    ["made for another site", { rpId: "evil.example" }, "foreign_relying_party"],
    ["made without user verification", { userVerified: false }, "not_verified"],
    ["of the wrong type", { type: "webauthn.get" }, "invalid"],
    ["with an attestation by certificate", { attestation: byCertificate }, "invalid"],
    // ML-DSA-44, which the library accepts by default.
    ["with a key of an algorithm that was not offered", { algorithm: -48 }, "invalid"],
    ["with a key of RSA of more than 4,096 bits", { rsa: [513, 3] }, "invalid"],
    ["with a key of RSA whose exponent has more than 32 bits", { rsa: [384, 5] }, "invalid"],
    ["under another id", { id: "A".repeat(43) }, "invalid"],
    ["with an id that is too short", { credentialId: Buffer.alloc(15, 1) }, "invalid"],
    ["with an id that is too long", { credentialId: Buffer.alloc(1024, 1) }, "invalid"],
    ["with an attestation of another form", { attestation: () => ["apple", Buffer.from([0xa0])] }, "invalid"]
  ]
  for (const [what, said, code] of attested) {
    it.effect(`is not added by an answer ${what}, which leaves an audit row`, () =>
      Effect.gen(function* () {
        const { person, project_id } = yield* holder()
        const answer = yield* addKey(person, new Authenticator(), said)
        assert.strictEqual(answer.status, 422)
        assert.include(answer.text, "The passkey could not be checked.")
        assert.deepEqual(yield* recorded(project_id), ["added", `not_added ${code}`])
      })
    )
  }

  it.effect(
    "is not added without the value of the session, from another site, or with another session's challenge",
    () =>
      Effect.gen(function* () {
        const { person, project_id } = yield* holder()
        const other = yield* holder()
        const { answer, csrf } = yield* optionsToAdd(person)
        const credential = new Authenticator().create(answer.body)
        const fields = { label: "Phone", credential, action: "add" }
        assert.strictEqual((yield* person.post("/console/keys", fields)).status, 403)
        assert.strictEqual(
          (yield* person.post("/console/keys", { ...fields, csrf }, { origin: "http://evil.example" })).status,
          403
        )
        const theirs = csrfOf(yield* other.person.get("/console/keys"))
        assert.strictEqual((yield* other.person.post("/console/keys", { ...fields, csrf: theirs })).status, 422)
        const sent = yield* Effect.forEach([{}, { csrf: theirs }], (body) => person.post("/console/keys/options", body))
        assert.deepEqual(
          sent.map(({ code, status }) => [status, code]),
          sent.map(() => [403, "token_session_required"])
        )
        assert.lengthOf([...(yield* keysOf(project_id)), ...(yield* keysOf(other.project_id))], 2)
        const made = yield* person.post("/console/keys", { ...fields, csrf })
        assert.strictEqual(made.status, 303, "the challenge was not used up by others")
      })
  )

  it.effect("may be attested by its own key", () =>
    Effect.gen(function* () {
      const { person, project_id } = yield* holder()
      assert.strictEqual((yield* addKey(person, new Authenticator(), { attestation: byOwnKey })).status, 303)
      assert.lengthOf(yield* keysOf(project_id), 2)
    })
  )

  it.effect("may have a key of RSA with 4,096 bits", () =>
    Effect.gen(function* () {
      const { person, project_id } = yield* holder()
      assert.strictEqual((yield* addKey(person, new Authenticator(), { rsa: [512, 4] })).status, 303)
      assert.lengthOf(yield* keysOf(project_id), 2)
    })
  )

  it.effect("is added once, however often the form is sent; by nobody else, and not after its removal", () =>
    Effect.gen(function* () {
      const { person, project_id, token_id } = yield* holder()
      const colleague = yield* holder({ project_id })
      const { answer, csrf } = yield* optionsToAdd(person)
      const authenticator = new Authenticator()
      const form = { csrf, label: "Phone", action: "add", credential: authenticator.create(answer.body) }
      for (const _ of [1, 2]) assert.strictEqual((yield* person.post("/console/keys", form)).status, 303)
      assert.lengthOf(yield* keysOf(project_id), 3)
      const theirs = { ...form, csrf: csrfOf(yield* colleague.person.get("/console/keys")) }
      assert.strictEqual((yield* colleague.person.post("/console/keys", theirs)).status, 422)
      assert.strictEqual((yield* addKey(colleague.person, authenticator)).status, 422, "with a challenge of their own")
      const key = (yield* keysOf(project_id)).find((own) => own.label === "Phone" && own.project_token_id === token_id)!
      yield* person.post("/console/keys", { csrf, action: "remove", key: key.person_key_id })
      assert.strictEqual((yield* person.post("/console/keys", form)).status, 422)
      assert.deepEqual(yield* recorded(project_id), [
        "added",
        "added",
        "added",
        "not_added challenge_unknown",
        "removed",
        "not_added challenge_used"
      ])
    })
  )

  it.effect("is not added with a passkey's session, nor by an operator", () =>
    Effect.gen(function* () {
      const { authenticator, project_id } = yield* holder()
      const person = yield* stranger
      yield* signInWith(person, authenticator)
      const { answer, csrf } = yield* optionsToAdd(person)
      assert.deepEqual([answer.status, answer.code], [403, "token_session_required"])
      assert.include((yield* person.get("/console/keys")).text, "sign in with the project token")
      const form = {
        csrf,
        label: "Phone",
        action: "add",
        credential: new Authenticator().create({ ...answer.body, user: {} })
      }
      assert.strictEqual((yield* person.post("/console/keys", form)).status, 403)
      assert.lengthOf(yield* keysOf(project_id), 1)
    })
  )

  it.effect("is one of ten of its project token at most, also if many are added at once", () =>
    Effect.gen(function* () {
      const { person, project_id } = yield* holder()
      const { csrf } = yield* optionsToAdd(person)
      const made = yield* Effect.forEach(
        Array.from({ length: 12 }),
        Effect.fnUntraced(function* () {
          const { body } = yield* person.post("/console/keys/options", { csrf })
          const credential = new Authenticator().create(body)
          return () => person.post("/console/keys", { csrf, label: "Phone", credential, action: "add" })
        })
      ).pipe(Effect.flatMap((all) => Effect.forEach(all, (add) => add(), { concurrency: 12 })))
      assert.strictEqual(made.filter(({ status }) => status === 303).length, 9)
      assert.lengthOf(yield* keysOf(project_id), 10)
      const { answer } = yield* optionsToAdd(person)
      assert.deepEqual([answer.status, answer.code], [409, "person_key_limit"])
      const offered = Effect.map(person.get("/console/keys"), ({ text }) => text.includes('data-passkey="create"'))
      assert.include((yield* person.get("/console/keys")).text, "Remove one to add another.")
      assert.isFalse(yield* offered)
      const [first] = yield* keysOf(project_id)
      yield* person.post("/console/keys", { csrf, action: "remove", key: first!.person_key_id })
      assert.isTrue(yield* offered)
    })
  )

  it.effect("has a challenge that works once, in the browser that asked, for five minutes", () =>
    Effect.gen(function* () {
      const { authenticator, project_id } = yield* holder()
      const [person, other] = [yield* stranger, yield* stranger]
      yield* optionsToSignIn(other)
      const credential = authenticator.get(yield* optionsToSignIn(person))
      const sign = (by: Person, credential: string) => by.post("/console/sign-in", { credential })
      const again = "or was sent twice"
      const elsewhere = yield* sign(other, credential)
      assert.deepEqual([elsewhere.status, elsewhere.text.includes(again)], [422, true])
      const nowhere = yield* sign(yield* stranger, credential)
      assert.strictEqual(nowhere.status, 422)
      assert.strictEqual((yield* sign(person, credential)).status, 303)
      const replayed = yield* sign(person, credential)
      assert.deepEqual([replayed.status, replayed.text.includes(again)], [422, true])
      const late = authenticator.get(yield* optionsToSignIn(person))
      yield* TestClock.adjust("5 minutes")
      assert.strictEqual((yield* sign(person, late)).status, 422)
      const invented = authenticator.get({ challenge: randomBytes(32).toString("base64url") })
      assert.strictEqual((yield* sign(person, invented)).status, 422)
      assert.deepEqual(yield* recorded(project_id), [
        "added",
        "refused challenge_unknown",
        "refused challenge_used",
        "refused challenge_expired",
        "refused challenge_unknown"
      ])
    })
  )

  it.effect("is used up by an answer that is refused", () =>
    Effect.gen(function* () {
      const { authenticator, project_id } = yield* holder()
      const person = yield* stranger
      const options = yield* optionsToSignIn(person)
      for (const said of [{ userVerified: false }, {}]) {
        const credential = authenticator.get(options, said)
        assert.strictEqual((yield* person.post("/console/sign-in", { credential })).status, 422)
      }
      assert.deepEqual(yield* recorded(project_id), ["added", "refused not_verified", "refused challenge_used"])
    })
  )

  it.effect("whose count falls or stays is switched off, with every session that it opened", () =>
    Effect.gen(function* () {
      const { authenticator, home, person, project_id } = yield* holder()
      const used = yield* stranger
      assert.strictEqual((yield* signInWith(used, authenticator, { count: 9 })).status, 303)
      assert.strictEqual((yield* used.get(home)).status, 200)
      const copied = yield* signInWith(yield* stranger, authenticator, { count: 9 })
      assert.deepEqual([copied.status, copied.text.includes("so it is switched off now")], [422, true])
      assert.strictEqual((yield* used.get(home)).status, 303)
      const later = yield* signInWith(yield* stranger, authenticator, { count: 10 })
      assert.deepEqual([later.status, later.text.includes("This passkey is switched off")], [422, true])
      assert.deepEqual(yield* recorded(project_id), ["added", "disabled", "refused disabled"])
      assert.include((yield* person.get("/console/keys")).text, "switched off", "the token's own session lasts")
      assert.strictEqual((yield* keysOf(project_id))[0]!.status, "disabled")
    })
  )

  it.effect("of an authenticator that does not count signs in again and again", () =>
    Effect.gen(function* () {
      const made = yield* makeToken(yield* Service)
      const person = yield* stranger
      yield* person.signIn(made.token)
      const authenticator = new Authenticator()
      yield* addKey(person, authenticator, { count: 0 })
      for (const _ of [1, 2]) {
        assert.strictEqual((yield* signInWith(yield* stranger, authenticator, { count: 0 })).status, 303)
      }
      assert.strictEqual((yield* signInWith(yield* stranger, authenticator, { count: 1 })).status, 303)
      assert.strictEqual((yield* signInWith(yield* stranger, authenticator, { count: 0 })).status, 422)
      assert.deepEqual(yield* recorded(made.project_id), ["added", "disabled"])
    })
  )

  const ends: ReadonlyArray<
    readonly [
      why: string,
      end: (of: { project_id: string; token_id: string }) => Effect.Effect<unknown, unknown, Service>
    ]
  > = [
    [
      "was revoked",
      ({ token_id }) => Effect.flatMap(Service, ({ services }) => Context.get(services, ProjectTokens).revoke(token_id))
    ],
    ["has expired", () => TestClock.adjust("1 hour")],
    [
      "is of a disabled project",
      ({ project_id }) => Effect.flatMap(Service, ({ services }) => Context.get(services, Projects).disable(project_id))
    ]
  ]
  for (const [why, end] of ends) {
    it.effect(`whose project token ${why} signs in no more, and neither do its sessions last`, () =>
      Effect.gen(function* () {
        const made = yield* holder({ ttl: Option.some(Duration.hours(1)) })
        const person = yield* stranger
        yield* signInWith(person, made.authenticator)
        yield* end(made)
        assert.strictEqual((yield* person.get(made.home)).status, 303)
        const answer = yield* signInWith(yield* stranger, made.authenticator)
        assert.deepEqual(
          [answer.status, answer.text.includes("The project token of this passkey has ended")],
          [422, true]
        )
        assert.deepEqual(yield* recorded(made.project_id), ["added", "refused token_ended"])
        const statuses = (yield* keysOf(made.project_id)).map(({ status }) => status)
        assert.deepEqual(statuses, why === "was revoked" ? [] : ["ended"], "a revocation removes the passkey")
      })
    )
  }

  it.effect("that its person or the operator removes ends every session that it opened, and no other", () =>
    Effect.gen(function* () {
      const { services } = yield* Service
      for (const byOperator of [false, true]) {
        const { authenticator, home, person, project_id } = yield* holder()
        const used = yield* stranger
        yield* signInWith(used, authenticator)
        const [key] = yield* keysOf(project_id)
        const id = key!.person_key_id
        for (const _ of [1, 2]) {
          if (byOperator) yield* Context.get(services, PersonKeys).remove(id)
          else {
            const csrf = csrfOf(yield* person.get("/console/keys"))
            const answer = yield* person.post("/console/keys", { csrf, action: "remove", key: id })
            assert.deepEqual(locationOf(answer), [303, "/console/keys?done=remove"])
          }
        }
        assert.strictEqual((yield* used.get(home)).status, 303)
        assert.strictEqual((yield* person.get(home)).status, 200)
        const answer = yield* signInWith(yield* stranger, authenticator)
        assert.deepEqual([answer.status, answer.text.includes("was removed")], [422, true])
        const removed = byOperator ? `removed by ${operator}` : "removed"
        assert.deepEqual(yield* recorded(project_id), ["added", removed, "refused removed"])
        assert.deepEqual(yield* keysOf(project_id), [])
      }
    })
  )

  it.effect("of a project that does not exist is not listed as none", () =>
    Effect.gen(function* () {
      const failed = yield* Effect.flip(keysOf("01990000-0000-7000-8000-000000000000"))
      assert.strictEqual(failed._tag, "project_not_found")
    })
  )

  it.effect("is renamed and removed by its own person only", () =>
    Effect.gen(function* () {
      const { person, project_id } = yield* holder({ role: "reader" })
      const colleague = yield* holder({ project_id })
      const csrf = csrfOf(yield* person.get("/console/keys"))
      const theirs = (yield* keysOf(project_id)).find(
        ({ project_token_id }) => project_token_id === colleague.token_id
      )!
      const mine = (yield* keysOf(project_id)).find(({ project_token_id }) => project_token_id !== colleague.token_id)!
      assert.notInclude((yield* person.get("/console/keys")).text, theirs.person_key_id)
      for (const action of ["rename", "remove"]) {
        const answer = yield* person.post("/console/keys", { csrf, action, key: theirs.person_key_id, label: "Mine" })
        assert.strictEqual(answer.status, 404)
      }
      const rename = (label: string) =>
        person.post("/console/keys", { csrf, action: "rename", key: mine.person_key_id, label })
      for (const _ of [1, 2]) assert.strictEqual((yield* rename("Blue phone")).status, 303)
      assert.include((yield* person.get("/console/keys")).text, "Blue phone")
      for (const label of ["", " ", "a\nb", "x".repeat(81), colleague.token]) {
        assert.strictEqual((yield* rename(label)).status, 422, label)
      }
      assert.deepEqual(yield* recorded(project_id), ["added", "added", "renamed"])
    })
  )

  it.effect("of an unknown authenticator is refused without an audit row", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const count = sql`select count(*)::int as count from audit_event`
      const before = yield* count
      const authenticator = new Authenticator()
      authenticator.userHandle = "AAAA"
      const answer = yield* signInWith(yield* stranger, authenticator)
      assert.deepEqual([answer.status, answer.text.includes("This passkey is not known here")], [422, true])
      assert.deepEqual(yield* count, before)
    })
  )

  it.effect("answers a sign-in that is not one with the page, whatever was sent", () =>
    Effect.gen(function* () {
      const person = yield* stranger
      const nested = `${"[".repeat(2400)}${"]".repeat(2400)}`
      for (const credential of [
        "",
        "{}",
        "null",
        nested,
        JSON.stringify({ id: "é", type: "public-key", response: {} })
      ]) {
        assert.strictEqual(
          (yield* person.post("/console/sign-in", { credential })).status,
          422,
          credential.slice(0, 20)
        )
      }
    })
  )

  it.effect("is asked for by pages of this service only", () =>
    Effect.gen(function* () {
      const person = yield* stranger
      for (const headers of [
        {},
        { origin: "http://evil.example" },
        { origin: named, "sec-fetch-site": "cross-site" }
      ]) {
        const answer = yield* person.post("/console/sign-in/options", {}, headers)
        assert.deepEqual([answer.status, answer.code, answer.headers.get("set-cookie")], [403, "foreign_form", null])
      }
    })
  )

  it.effect("leaves 50 open challenges of one address, and none of a session gives way to them", () =>
    Effect.gen(function* () {
      const { person, project_id } = yield* holder()
      const { answer, csrf } = yield* optionsToAdd(person)
      yield* Effect.forEach(Array.from({ length: 60 }), () => Effect.flatMap(stranger, optionsToSignIn))
      const sql = yield* SqlClient.SqlClient
      const [open] = yield* sql<{ count: number }>`
        select count(*)::int as count from person_key_challenge where used_at is null and asked_by like '127.%'`
      assert.strictEqual(open!.count, 50)
      const form = { csrf, label: "Phone", action: "add", credential: new Authenticator().create(answer.body) }
      assert.strictEqual((yield* person.post("/console/keys", form)).status, 303)
      assert.lengthOf(yield* keysOf(project_id), 2)
    })
  )

  it.effect("leaves 20,000 open challenges of all addresses together, also those of whoever has one", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* sql`delete from person_key_challenge`
      const early = yield* stranger
      const { challenge } = (yield* optionsToSignIn(early)) as { readonly challenge: string }
      yield* TestClock.adjust("1 second")
      const now = new Date(yield* Clock.currentTimeMillis)
      yield* sql`
        insert into person_key_challenge (challenge_hash, browser_hash, asked_by, site, created_at, expires_at)
        select sha256(('flood ' || n)::bytea), sha256('browser'), '2001:db8:' || n % 400 || '::/64',
               '2001:db8:' || n % 40 || '::/48', ${now}::timestamptz, ${now}::timestamptz + interval '5 minutes'
          from generate_series(1, 20100) n`
      // The first challenge of a process makes it look at all of them.
      const late = new Person((yield* instance(settings)).url, named)
      yield* optionsToSignIn(late)
      const [open] = yield* sql<{ readonly count: number; readonly early: boolean }>`
        select count(*)::int as count,
               bool_or(challenge_hash = ${sha256(Buffer.from(challenge, "base64url"))}) as early
          from person_key_challenge
         where site is not null and used_at is null`
      assert.deepStrictEqual(open, { count: 20_000, early: true })
      yield* sql`delete from person_key_challenge`
    })
  )

  it.effect("opens one session with one answer, whoever of 50 sends it, at two replicas", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const replica = yield* instance(settings)
      const { authenticator, project_id, token_id } = yield* holder()
      const person = yield* stranger
      const credential = authenticator.get(yield* optionsToSignIn(person))
      const answers = yield* Effect.forEach(
        Array.from({ length: 50 }),
        (_, index) => {
          const caller = new Person(index % 2 === 0 ? service.url : replica.url, named)
          caller.cookie = person.cookie
          return caller.post("/console/sign-in", { credential })
        },
        { concurrency: "unbounded" }
      )
      const statuses = answers.map(({ status }) => status).toSorted()
      assert.deepEqual(statuses, [303, ...Array(49).fill(422)])
      const sql = yield* SqlClient.SqlClient
      const opened = yield* sql`
        select from console_session where project_token_id = ${token_id}::uuid and person_key_id is not null`
      assert.lengthOf(opened, 1)
      assert.include(yield* recorded(project_id), "refused challenge_used")
    })
  )

  it.effect("does not exist where the console is off, and none is made at an IP address", () =>
    Effect.gen(function* () {
      const off = yield* instance({ ...settings, SERVICE_CONSOLE: "off" })
      assert.strictEqual((yield* new Person(off.url, named).post("/console/sign-in/options", {})).status, 404)
      const origin = "http://127.0.0.1:8787"
      const numbered = yield* instance({ SERVICE_BASE_URL: origin })
      const { token } = yield* makeToken(numbered)
      const person = new Person(numbered.url, origin)
      const answer = yield* person.post("/console/sign-in/options", {})
      assert.deepEqual([answer.status, answer.code], [409, "person_key_unavailable"])
      assert.notInclude((yield* person.get("/console/sign-in")).text, "data-passkey=")
      yield* person.signIn(token)
      const page = yield* person.get("/console/keys")
      assert.include(page.text, "open http://localhost:8787/console instead")
      assert.notInclude(page.text, "data-passkey=")
      const { answer: refused } = yield* optionsToAdd(person)
      assert.deepEqual([refused.status, refused.code], [409, "person_key_unavailable"])
    })
  )

  it.effect(
    "answers an agent's question as a person; the answer is marked if the agent has the same project token",
    () =>
      Effect.gen(function* () {
        const service = yield* Service
        const { authenticator, home, project_id, token } = yield* holder({ label: "Ada" })
        const agent = yield* Agent.connect({ url: service.url, token, project_id })
        const task = yield* ask(agent)
        const person = yield* stranger
        yield* signInWith(person, authenticator)
        const csrf = csrfOf(yield* person.get(`${home}/tasks/${task.id}`))
        const answered = { csrf, action: "answer", version: String(task.version), choice: "UBL", text: "" }
        assert.strictEqual((yield* person.post(`${home}/tasks/${task.id}`, answered)).status, 303)
        const { output } = yield* agent.call("task_get", { id: task.id })
        const [key] = yield* keysOf(project_id)
        assert.deepInclude(output.task.answer, {
          by: { kind: "passkey", id: key!.person_key_id, label: "Ada" },
          same_credential: true
        })
        assert.include((yield* person.get(`${home}/tasks/${task.id}`)).text, "with a passkey")
      })
  )

  it("is known to limits by a hash of its id, however the id is spelled, and by nothing if the id is too long", () => {
    const named = (id: string) =>
      Redacted.make(
        JSON.stringify({
          id,
          type: "public-key",
          response: { clientDataJSON: "AA", authenticatorData: "AA", signature: "AA", userHandle: "AA" }
        })
      )
    const key = keyOfPasskey(named("AA"))
    assert.lengthOf(key, 43)
    assert.strictEqual(keyOfPasskey(named("AB")), key)
    assert.notStrictEqual(keyOfPasskey(named("AQ")), key)
    assert.lengthOf(keyOfPasskey(named("A".repeat(1364))), 43)
    assert.strictEqual(keyOfPasskey(named("A".repeat(1365))), "")
  })

  it.effect("is not used up by those who know its id, from whatever address they try it", () =>
    Effect.gen(function* () {
      const limited = yield* instance({
        ...settings,
        SERVICE_RATE_LIMITS: "on",
        SERVICE_TRUSTED_PROXIES: "127.0.0.1"
      })
      const { authenticator } = yield* makeHolder(limited)
      const thief = new Authenticator()
      thief.credentialId = authenticator.credentialId
      const tries = yield* Effect.forEach(Array.from({ length: 61 }).keys(), (n) =>
        new Person(limited.url, named).post(
          "/console/sign-in",
          { credential: thief.get({ challenge: "AA" }) },
          { origin: named, "x-forwarded-for": `198.51.100.${n}` }
        )
      )
      assert.isTrue(tries.every(({ status }) => status === 422))
      assert.strictEqual((yield* signInWith(new Person(limited.url, named), authenticator)).status, 303)
    })
  )

  it.effect("is tried 20 times at once by an address", () =>
    Effect.gen(function* () {
      const limited = yield* instance({ ...settings, SERVICE_RATE_LIMITS: "on" })
      const answers = yield* Effect.forEach(
        Array.from({ length: 40 }),
        () => new Person(limited.url, named).post("/console/sign-in", { project_token: "wrong" }),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(
        [422, 429].map((status) => answers.filter((answer) => answer.status === status).length),
        [20, 20]
      )
    })
  )

  it.effect("signs in beside a neighbour who tries two wrong ones a second", () =>
    Effect.gen(function* () {
      const limited = yield* instance({ ...settings, SERVICE_RATE_LIMITS: "on" })
      const { authenticator } = yield* makeHolder(limited)
      const wrong = new Person(limited.url, named).post("/console/sign-in", { credential: "{}" })
      yield* Effect.replicateEffect(wrong, 30)
      for (let second = 0; second < 2; second += 1) {
        yield* TestClock.adjust("1 second")
        assert.deepStrictEqual([(yield* wrong).status, (yield* wrong).status], [429, 429])
        assert.strictEqual((yield* signInWith(new Person(limited.url, named), authenticator)).status, 303)
      }
    })
  )

  it.effect("is asked for 200 times at once by an address", () =>
    Effect.gen(function* () {
      const limited = yield* instance({ ...settings, SERVICE_RATE_LIMITS: "on" })
      const answers = yield* Effect.forEach(
        Array.from({ length: 210 }),
        () => new Person(limited.url, named).post("/console/sign-in/options", {}, { origin: "http://evil.example" }),
        { concurrency: 20 }
      )
      assert.deepEqual(Object.keys(Object.groupBy(answers, ({ code }) => code ?? "")).toSorted(), [
        "foreign_form",
        "rate_limited"
      ])
    })
  )

  it.effect("belongs to a cookie of this host alone, if the service has TLS", () =>
    Effect.gen(function* () {
      const base = "https://bridge.example"
      const { url } = yield* instance({ SERVICE_BASE_URL: base })
      const { headers } = yield* new Person(url, base).post("/console/sign-in/options", {})
      assert.match(
        headers.get("set-cookie")!,
        /^__Host-console_presession=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax; Secure; Max-Age=300$/
      )
    })
  )

  it.effect("is of the base URL's host, if that is a name", () =>
    Effect.sync(() => {
      const of = (url: string) => relyingPartyOf(new URL(url))?.id
      assert.deepEqual(
        [
          "https://bridge.example.com:8443",
          "http://localhost:1",
          "http://127.0.0.1:1",
          "http://[::1]:1",
          "https://203.0.113.7"
        ].map(of),
        ["bridge.example.com", "localhost", undefined, undefined, undefined]
      )
    })
  )
})

layer(Named)("at consent, a passkey", (it) => {
  /** The consent page of a browser that is signed in to nothing. */
  const asked = Effect.gen(function* () {
    const service = yield* Service
    const client_id = yield* makeClient(service)
    const browser = new Browser(service.url)
    return { browser, page: yield* browser.authorize(authorizeQuery({ client_id })) }
  })
  const answered = Effect.fnUntraced(function* (browser: Browser, authenticator: Authenticator, said: Said = {}) {
    const person = yield* stranger
    const credential = authenticator.get(yield* optionsToSignIn(person), said)
    const [name = "", value = ""] = person.cookie.split("=")
    browser.cookies.set(name, value)
    return credential
  })

  it.effect("picks project and role, and opens no session; Allow is pressed as ever", () =>
    Effect.gen(function* () {
      const { authenticator, project_id, token_id } = yield* holder()
      const { browser, page } = yield* asked
      assert.include(page.text, "Continue with a passkey")
      const credential = yield* answered(browser, authenticator)
      const shown = yield* browser.submit(page, { credential })
      assert.include(shown.text, "to use Harbour?")
      assert.notInclude(browser.cookie, "scs_")
      const allowed = yield* browser.submit(shown, { decision: "allow" })
      assert.property(answerOf(allowed), "code")
      const sql = yield* SqlClient.SqlClient
      const [row] = yield* sql<{ actor: string; subject: any }>`
        select actor, subject from audit_event where project_id = ${project_id}::uuid and action = 'oauth_grant.created'`
      assert.strictEqual(row!.actor, `project_token:${token_id}`)
      assert.strictEqual(row!.subject.person_key_id, (yield* keysOf(project_id))[0]!.person_key_id)
    })
  )

  it.effect("works once: the same form again shows the same page, and another request refuses it", () =>
    Effect.gen(function* () {
      const { authenticator, project_id } = yield* holder()
      const { browser, page } = yield* asked
      const credential = yield* answered(browser, authenticator)
      const before = new Map(browser.cookies)
      for (const _ of [1, 2]) {
        browser.cookies.clear()
        for (const [name, value] of before) browser.cookies.set(name, value)
        assert.include((yield* browser.submit(page, { credential })).text, "to use Harbour?")
      }
      const other = yield* asked
      for (const [name, value] of before)
        if (name.startsWith("console_presession")) other.browser.cookies.set(name, value)
      const refused = yield* other.browser.submit(other.page, { credential })
      assert.deepEqual([refused.status, refused.text.includes("or was sent twice")], [422, true])
      assert.deepEqual(yield* recorded(project_id), ["added", "refused challenge_used"])
    })
  )

  it.effect("that is removed or whose token ends before Allow is pressed allows nothing", () =>
    Effect.gen(function* () {
      const { services } = yield* Service
      for (const end of ["remove", "revoke"]) {
        const { authenticator, project_id, token_id } = yield* holder()
        const { browser, page } = yield* asked
        const shown = yield* browser.submit(page, { credential: yield* answered(browser, authenticator) })
        const [key] = yield* keysOf(project_id)
        yield* end === "remove"
          ? Context.get(services, PersonKeys).remove(key!.person_key_id)
          : Context.get(services, ProjectTokens).revoke(token_id)
        const refused = yield* browser.submit(shown, { decision: "allow" })
        assert.strictEqual(refused.status, 410)
        const again = yield* asked
        const answer = yield* again.browser.submit(again.page, {
          credential: yield* answered(again.browser, authenticator)
        })
        assert.strictEqual(answer.status, 422)
      }
    })
  )

  it.effect("gives nothing to whoever planted the browser's cookies before", () =>
    Effect.gen(function* () {
      const { authenticator } = yield* holder()
      const { browser, page } = yield* asked
      const credential = yield* answered(browser, authenticator)
      const attacker = new Browser(browser.url, browser.cookies)
      const shown = yield* browser.submit(page, { credential })
      const pressed = yield* attacker.submit(shown, { decision: "allow" })
      assert.strictEqual(pressed.status, 403)
    })
  )

  it.effect("is tried 20 times at once by an address", () =>
    Effect.gen(function* () {
      const on = yield* instance({ ...settings, SERVICE_RATE_LIMITS: "on" })
      const browser = new Browser(on.url)
      const page = yield* browser.authorize(authorizeQuery({ client_id: yield* makeClient(on) }))
      const answers = yield* Effect.replicateEffect(browser.submit(page, { credential: "{}" }), 21)
      assert.deepStrictEqual(
        answers.map(({ status }) => status),
        [...Array.from({ length: 20 }, () => 422), 429]
      )
    })
  )

  it.effect("is not offered, nor taken, where people sign in at another address or the console is off", () =>
    Effect.gen(function* () {
      const { authenticator } = yield* holder()
      for (const [extra, origin] of [
        [{ SERVICE_AUTH_URL: "http://localhost:8788" }, "http://localhost:8788"],
        [{ SERVICE_CONSOLE: "off" }, named]
      ] as const) {
        const service = yield* instance({ ...settings, ...extra })
        const client_id = yield* makeClient(service)
        const browser = new Browser(service.url)
        const page = yield* browser.authorize(authorizeQuery({ client_id }))
        assert.notInclude(page.text, "data-passkey=")
        assert.notInclude(page.headers.get("content-security-policy")!, "script-src")
        const credential = yield* answered(browser, authenticator)
        const refused = yield* browser.submit(page, { credential }, { origin })
        assert.deepEqual([refused.status, refused.text.includes("This token is not valid")], [422, true])
      }
    })
  )
})
