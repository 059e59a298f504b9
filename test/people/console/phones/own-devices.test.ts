/** A person's own devices on the page of phones: whose they are, who may change them, and what a form must carry. */
import { assert, it as plain, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { runInNewContext } from "node:vm"
import { worker } from "../../../../src/people/console/app/Worker.ts"
import { ownDone, browserOf } from "../../../../src/people/console/phones/OwnDevices.ts"
import { preferencesIn } from "../../../../src/people/console/phones/PreferenceForm.ts"
import type { Preferences } from "../../../../src/wire/mobile/Notifications.ts"
import { makeToken } from "../../../support/agents/Agent.ts"
import { csrfOf, makeOperator, Person } from "../../../support/people/Console.ts"
import { makeSubscription } from "../../../support/phones/Browser.ts"
import { Service } from "../../../support/service/Service.ts"

const signedIn = Effect.fnUntraced(function* (given: Parameters<typeof makeToken>[1] = {}) {
  const on = yield* Service
  const { project_id, token, token_id } = yield* makeToken(on, given)
  const person = new Person(on.url)
  yield* person.signIn(token)
  const phones = `/console/${project_id}/phones`
  const page = person.get(phones)
  const csrf = csrfOf(yield* page)
  const { push } = yield* Effect.promise(() => makeSubscription())
  const { endpoint, keys } = push
  const public_key = /data-key="([^"]+)"/.exec((yield* page).text)?.[1] ?? ""
  const fields = { csrf, action: "ring-this-device", endpoint, ...keys, public_key, locale: "de-AT" }
  return { on, project_id, token_id, person, phones, page, csrf, fields }
})

const rowsOf = (project_id: string) =>
  SqlClient.SqlClient.use(
    (sql) => sql<{ device_id: string; state: string; subject: string; grant_id: null; locale: string }>`
      select device_id, state, subject, grant_id, locale from mobile_device where project_id = ${project_id}::uuid`
  )

plain("a form leaves the preferences that it does not show as they were", () => {
  const night = { enabled: true, start: "20:00", end: "08:00", time_zone: "UTC", allow_urgent: true }
  const before: Preferences = {
    kinds: {},
    minimum_priority: "high",
    quiet_hours: { ...night, days: ["sat", "sun"] },
    paused_until: null
  }
  const fields = new URLSearchParams({ start: "22:00", end: "07:00", time_zone: "Europe/Vienna" })
  const { minimum_priority, quiet_hours } = preferencesIn(fields, before)!
  assert.strictEqual(minimum_priority, "high")
  const changed = { enabled: false, start: "22:00", end: "07:00", time_zone: "Europe/Vienna", allow_urgent: false }
  assert.deepStrictEqual(quiet_hours, { ...changed, days: ["sat", "sun"] })
})

plain("a notification that comes twice rings once, and a newer one about the same rings again", async () => {
  const shown: Array<{ tag: string; data: { n: string }; renotify: boolean }> = []
  const listeners: Record<string, (event: object) => void> = {}
  const self = {
    location: { origin: "https://bridge.example.com" },
    addEventListener: (name: string, listener: (event: object) => void) => (listeners[name] = listener),
    registration: {
      getNotifications: async ({ tag }: { tag: string }) => shown.filter((one) => one.tag === tag).slice(-1),
      showNotification: async (_title: string, options: (typeof shown)[number]) => void shown.push(options)
    }
  }
  runInNewContext(worker, { self, navigator: { language: "en" } })
  const about = { k: "task.blocked", r: "task-1", url: "/console" }
  for (const message of [{ n: "1", ...about }, { n: "1", ...about }, { n: "2", ...about }, { n: "3" }, {}])
    await new Promise((resolve) => listeners["push"]!({ data: { json: () => message }, waitUntil: resolve }))
  assert.deepStrictEqual(
    shown.map(({ renotify, tag }) => [tag, renotify]),
    [
      ["task-1", true],
      ["task-1", false],
      ["task-1", true],
      ["3", true],
      ["other", true]
    ]
  )
})

layer(Service.layer)("a person", (it) => {
  it.effect.each(["reader", "contributor"] as const)("with the role %s makes a browser ring, and ends it", (role) =>
    Effect.gen(function* () {
      const { csrf, fields, page, person, phones, project_id, token_id } = yield* signedIn({ role })
      const registered = yield* person.post(phones, fields)
      assert.strictEqual(registered.status, 303, registered.text)
      const [row] = yield* rowsOf(project_id)
      const { device_id } = row!
      assert.deepStrictEqual(row, { device_id, state: "active", subject: token_id, grant_id: null, locale: "de-AT" })
      assert.strictEqual(registered.headers.get("location"), `${phones}?done=ring-this-device&device=${device_id}`)
      const { text } = yield* page
      assert.include(text, `data-devices="${device_id}"`)
      assert.include(text, "at fcm.googleapis.com")
      for (const secret of [fields.endpoint, fields.auth, fields.p256dh]) assert.notInclude(text, secret)
      assert.strictEqual((yield* person.post(phones, fields)).status, 303, "again")
      assert.lengthOf(yield* rowsOf(project_id), 1)
      yield* person.post(phones, { csrf, action: "end-own-device", device: device_id })
      assert.strictEqual((yield* rowsOf(project_id))[0]!.state, "revoked")
      assert.include((yield* page).text, `data-devices=""`)
    })
  )

  it.effect("changes nothing without the value of the session, from another site, or in another project", () =>
    Effect.gen(function* () {
      const { fields, person, phones, project_id } = yield* signedIn()
      const other = yield* signedIn()
      const tries = [
        yield* person.post(phones, { ...fields, csrf: "x" }),
        yield* person.post(phones, fields, { origin: "https://evil.example" }),
        yield* person.post(other.phones, fields)
      ]
      assert.deepStrictEqual(
        tries.map(({ status }) => status),
        [403, 403, 404]
      )
      assert.deepStrictEqual([yield* rowsOf(project_id), yield* rowsOf(other.project_id)], [[], []])
    })
  )

  it.effect("is told why a browser cannot ring", () =>
    Effect.gen(function* () {
      const { fields, person, phones, project_id } = yield* signedIn()
      const cases = [
        [{ endpoint: "https://push.elsewhere.example/1" }, "This service does not deliver to that push service."],
        [{ public_key: `B${"B".repeat(86)}` }, "The browser subscribed with another key"],
        [{ auth: "short" }, "missing or malformed"],
        [{ endpoint: "" }, "missing or malformed"]
      ] as const
      for (const [change, says] of cases) {
        const answer = yield* person.post(phones, { ...fields, ...change })
        assert.deepStrictEqual([answer.status, answer.text.includes(says)], [409, true], says)
      }
      assert.deepStrictEqual(yield* rowsOf(project_id), [])
    })
  )

  it.effect("chooses what a device rings for, at the version that was seen", () =>
    Effect.gen(function* () {
      const { csrf, fields, page, person, phones, project_id } = yield* signedIn({ role: "reader" })
      yield* person.post(phones, fields)
      const { device_id } = (yield* rowsOf(project_id))[0]!
      const quiet = { quiet: "on", start: "21:30", end: "06:45", time_zone: "Europe/Vienna" }
      const chosen = { csrf, action: "set-preferences", device: device_id, version: "1", "kind:task.completed": "on" }
      // An app may pause it; the form does not show that.
      const paused_until = "1970-01-02T00:00:00.000Z"
      yield* SqlClient.SqlClient.use(
        (sql) => sql`
          update mobile_device
             set preferences = jsonb_set(preferences, '{paused_until}', to_jsonb(${paused_until}::text))
           where device_id = ${device_id}::uuid`
      )
      assert.strictEqual((yield* person.post(phones, { ...chosen, ...quiet })).status, 303)
      const preferences = SqlClient.SqlClient.use(
        (sql) => sql<{ preferences: any }>`
          select preferences from mobile_device where device_id = ${device_id}::uuid`
      )
      const saved = (yield* preferences)[0]!
      assert.deepStrictEqual(saved.preferences, {
        kinds: {
          "task.blocked": false,
          "task.needs_decision": false,
          "task.completed": true,
          "bridge.enrolled": false,
          "bridge.revoked": false,
          "bridge.rotation_failed": false,
          "security.client_authorized": false
        },
        minimum_priority: "low",
        quiet_hours: {
          enabled: true,
          start: "21:30",
          end: "06:45",
          time_zone: "Europe/Vienna",
          days: ["mon", "tue", "wed", "thu", "fri", "sat", "sun"],
          allow_urgent: false
        },
        paused_until
      })
      assert.include((yield* page).text, 'value="Europe/Vienna"')
      const stale = yield* person.post(phones, { ...chosen, ...quiet })
      assert.include(stale.text, "The preferences were changed meanwhile")
      const wrong = yield* person.post(phones, { ...chosen, ...quiet, version: "2", time_zone: "Atlantis" })
      assert.include(wrong.text, "missing or malformed")
      assert.deepStrictEqual(yield* preferences, [saved])
    })
  )

  it.effect("neither ends nor tests the device of another person", () =>
    Effect.gen(function* () {
      const mine = yield* signedIn()
      yield* mine.person.post(mine.phones, mine.fields)
      const { device_id } = (yield* rowsOf(mine.project_id))[0]!
      const theirs = yield* signedIn({ project_id: mine.project_id })
      assert.notInclude((yield* theirs.page).text, 'value="end-own-device"')
      for (const action of ["end-own-device", "test-device", "set-preferences"]) {
        const answer = yield* theirs.person.post(theirs.phones, { csrf: theirs.csrf, action, device: device_id })
        assert.include(answer.text, "There is no such device.")
      }
      assert.strictEqual((yield* rowsOf(mine.project_id))[0]!.state, "active")
    })
  )

  it.effect("who is the operator has no device of their own, and ends anybody's", () =>
    Effect.gen(function* () {
      const { fields, on, person, phones, project_id } = yield* signedIn()
      yield* person.post(phones, fields)
      const { device_id } = (yield* rowsOf(project_id))[0]!
      const operator = yield* makeOperator(on)
      yield* operator.person.post("/console/enter", { code: operator.code })
      const page = yield* operator.person.get(phones)
      assert.notInclude(page.text, "data-ring\n")
      assert.notInclude(page.text, 'data-key="')
      const csrf = csrfOf(page)
      assert.strictEqual((yield* operator.person.post(phones, { ...fields, csrf })).status, 422)
      yield* operator.person.post(phones, { csrf, action: "revoke-device", device: device_id })
      assert.strictEqual((yield* rowsOf(project_id))[0]!.state, "revoked")
    })
  )

  it("reads the names of browsers as people call them", () => {
    const called = {
      "Mozilla/5.0 (Linux; Android 15) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Mobile Safari/537.36":
        "Chrome on Android",
      "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148":
        "Safari on iPhone",
      "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/140.0 Safari/537.36 Edg/140.0":
        "Edge on Windows",
      "Mozilla/5.0 (X11; Linux x86_64; rv:142.0) Gecko/20100101 Firefox/142.0": "Firefox on Linux",
      "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/18.5 Safari/605.1.15":
        "Safari on macOS",
      "Mozilla/5.0 (iPad; CPU OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148":
        "Safari on iPad",
      "Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/140.0 Safari/537.36 OPR/121.0": "Opera on Windows",
      "Mozilla/5.0 (Linux; Android 15) SamsungBrowser/28.0 Chrome/130.0 Mobile Safari/537.36":
        "Samsung Internet on Android",
      "": "Browser"
    }
    for (const [userAgent, name] of Object.entries(called)) assert.strictEqual(browserOf(userAgent), name)
  })

  it("reads what was done from nothing but known words", () => {
    const said = (query: string) => ownDone(new URLSearchParams(query))
    assert.isUndefined(said("done=else"))
    assert.isUndefined(said("done=test-device&outcome=else"))
    assert.strictEqual(
      said("done=test-device&outcome=refused&status=4000&reason=<b>"),
      "The push service refused the test, and it is not tried again."
    )
    assert.match(
      said("done=test-device&outcome=gone&status=410&reason=subscription_gone")!,
      /^The push service says that this browser is not subscribed any more, .*\. \(410, subscription gone\)$/
    )
    assert.notInclude(said("done=test-device&outcome=accepted&status=201")!, "201")
    assert.include(said("done=test-device&outcome=waiting")!, "waits for its turn")
  })
})
