/**
 * Passkeys in a real Chromium with a virtual authenticator: a person adds one, signs in and consents with it, renames and
 * removes it; and what is refused. SCREENSHOTS=folder saves a picture of each page.
 */
import { assert } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { once } from "node:events"
import { createServer } from "node:http"
import { join } from "node:path"
import type { BrowserContextOptions, Page, Route } from "playwright-core"
import { ProjectTokens } from "../../../../src/signin/access/ProjectTokens.ts"
import { authorizeQuery, callback, makeClient, makeToken, reachable } from "../../../support/agents/Agent.ts"
import { freePort } from "../../../support/network/FreePort.ts"
import { openPage, pageFaults } from "../../../support/people/Chromium.ts"
import { inChromium } from "../../../support/people/InChromium.ts"
import { TestDatabase } from "../../../support/database/TestDatabase.ts"
import { Service } from "../../../support/service/Service.ts"

const screenshots = process.env["SCREENSHOTS"]

const Named = Layer.effect(Service, reachable({}, "localhost")).pipe(Layer.provideMerge(TestDatabase.sql))

/** A page whose browser has an authenticator that verifies its person, with a screen lock. */
const openWithAuthenticator = Effect.fnUntraced(function* (options: BrowserContextOptions = {}) {
  const opened = yield* openPage(options)
  const authenticator = yield* Effect.promise(async () => {
    const cdp = await opened.context.newCDPSession(opened.page)
    await cdp.send("WebAuthn.enable")
    const { authenticatorId } = await cdp.send("WebAuthn.addVirtualAuthenticator", {
      options: {
        protocol: "ctap2",
        transport: "internal",
        hasResidentKey: true,
        hasUserVerification: true,
        isUserVerified: true,
        automaticPresenceSimulation: true
      }
    })
    return {
      credentials: async () => (await cdp.send("WebAuthn.getCredentials", { authenticatorId })).credentials,
      /** As a copy of an authenticator whose last signatures it does not know. */
      countFrom: async (signCount: number) => {
        const { credentials } = await cdp.send("WebAuthn.getCredentials", { authenticatorId })
        await cdp.send("WebAuthn.clearCredentials", { authenticatorId })
        for (const credential of credentials) {
          await cdp.send("WebAuthn.addCredential", { authenticatorId, credential: { ...credential, signCount } })
        }
      },
      withoutVerification: (isBadUV: boolean) =>
        cdp.send("WebAuthn.setResponseOverrideBits", { authenticatorId, isBadUV })
    }
  })
  return { ...opened, authenticator }
})

const signInByToken = async (page: Page, url: string, token: string) => {
  await page.goto(`${url}/console`)
  await page.fill("#project_token", token)
  await page.press("#project_token", "Enter")
  await page.waitForURL(/console\/[0-9a-f-]{36}$/)
}
const addPasskey = async (page: Page, url: string) => {
  await page.goto(`${url}/console/keys`)
  await page.click("text='Add a passkey' >> visible=true >> nth=-1")
  await page.waitForURL(/done=add/)
}
const signOut = async (page: Page) => {
  await page.click(".who summary")
  await page.click("text='Sign out'")
  await page.waitForURL(/sign-in/)
}
const signInByPasskey = (page: Page) => page.click("text=Sign in with a passkey")

/** The audit rows about passkeys of a project, oldest first: what was done, or why it was refused. */
const recorded = (project_id: string) =>
  SqlClient.SqlClient.use((sql) =>
    Effect.map(
      sql<{ row: string }>`
        select substr(action, 12) || coalesce(' ' || code, '') as row from audit_event
         where project_id = ${project_id}::uuid and action like 'person_key.%' order by at, event_id`,
      (rows) => rows.map(({ row }) => row)
    )
  )

inChromium(Named, "in Chromium, a person", (test) => {
  /** Signed in by token, with a passkey. */
  const holder = Effect.fnUntraced(function* (options?: BrowserContextOptions) {
    const service = yield* Service
    const made = yield* makeToken(service, { label: "Ada" })
    const opened = yield* openWithAuthenticator(options)
    yield* Effect.promise(async () => {
      await signInByToken(opened.page, service.url, made.token)
      await addPasskey(opened.page, service.url)
    })
    return { ...made, ...opened, service, home: `${service.url}/console/${made.project_id}` }
  })

  test("adds a passkey, signs in with it by keyboard, renames and removes it", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { project_id, token } = yield* makeToken(service, { label: "Ada", role: "reader" })
      const elsewhere = yield* makeToken(service)
      const { authenticator, consoleErrors, page } = yield* openWithAuthenticator()
      const home = `${service.url}/console/${project_id}`
      yield* Effect.promise(async () => {
        await signInByToken(page, service.url, token)
        await page.click(".who summary")
        await page.click("text=Your passkeys")
        await page.fill("#label", "Blue laptop")
        await page.press("#label", "Enter")
        await page.waitForSelector("text=The passkey is added.")
        assert.lengthOf(await authenticator.credentials(), 1)
        await page.click("text='Add a passkey' >> visible=true >> nth=-1")
        await page.waitForSelector("text=This device already has a passkey")

        await signOut(page)
        await page.goto(`${home}/tasks`)
        await page.getByText("Sign in with a passkey").focus()
        await page.keyboard.press("Enter")
        await page.waitForURL(`${home}/tasks`)
        assert.strictEqual((await page.goto(`${service.url}/console/${elsewhere.project_id}`))?.status(), 404)

        await page.goto(`${service.url}/console/keys`)
        assert.include(await page.innerText("main"), "signed in with it")
        await page.getByText("Rename … Blue laptop").focus()
        await page.keyboard.press("Enter")
        await page.getByLabel("Name").fill("Green laptop")
        await page.keyboard.press("Enter")
        await page.waitForSelector("text=The passkey has its new name.")
        await page.getByText("Remove … Green laptop").focus()
        await page.keyboard.press("Enter")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        // The session was the passkey's.
        await page.waitForURL(/sign-in/)
        await signInByPasskey(page)
        await page.waitForSelector("text=was removed")
      })
      assert.deepEqual(yield* recorded(project_id), ["added", "renamed", "removed", "refused removed"])
      assert.deepEqual(consoleErrors, [])
    }))

  test("allows an app with a passkey, and denies one", () =>
    Effect.gen(function* () {
      const { consoleErrors, page, project_id, service } = yield* holder()
      const client_id = yield* makeClient(service)
      const query = authorizeQuery({ client_id, resource: `${service.url}/mcp` })
      yield* Effect.promise(async () => {
        await signOut(page)
        for (const decision of ["Allow", "Deny"]) {
          await page.goto(`${service.url}/authorize?${query}`)
          await page.route(`${callback}*`, (route) => route.fulfill({ body: "back in the app" }))
          if (decision === "Allow") {
            await page.click("text=Continue with a passkey")
            await page.waitForSelector("text=Allow Lighthouse to use Harbour?")
          }
          await page.click(`text='${decision}'`)
          await page.waitForSelector("text=back in the app")
          assert.strictEqual(new URL(page.url()).searchParams.has("code"), decision === "Allow")
        }
      })
      const sql = yield* SqlClient.SqlClient
      const made = yield* sql<{ key: boolean }>`
        select subject ? 'person_key_id' as key from audit_event
         where project_id = ${project_id}::uuid and action = 'oauth_grant.created'`
      assert.deepEqual(made, [{ key: true }])
      assert.deepEqual(consoleErrors, [])
    }))

  test("is not signed in by a copy of the authenticator, which switches the passkey off", () =>
    Effect.gen(function* () {
      const { authenticator, home, page, project_id } = yield* holder()
      yield* Effect.promise(async () => {
        await signOut(page)
        await signInByPasskey(page)
        await page.waitForURL(/console\/[0-9a-f-]{36}$/)
        const used = await page.context().cookies()
        await signOut(page)
        await authenticator.countFrom(0)
        await signInByPasskey(page)
        await page.waitForSelector("text=so it is switched off now")
        await page.context().addCookies(used)
        await page.goto(home)
        assert.include(page.url(), "sign-in", "nor does a session that the passkey opened last")
      })
      assert.deepEqual(yield* recorded(project_id), ["added", "disabled"])
    }))

  test("is not signed in without user verification, with a late answer, or with the same one again", () =>
    Effect.gen(function* () {
      const { authenticator, page, project_id } = yield* holder()
      yield* Effect.promise(async () => {
        await signOut(page)
        await authenticator.withoutVerification(true)
        await signInByPasskey(page)
        await page.waitForSelector("text=did not check that it was you")
        await authenticator.withoutVerification(false)
      })
      const held = yield* Effect.promise(async () => {
        const sending = new Promise<Route>((resolve) => void page.route("**/console/sign-in", resolve, { times: 1 }))
        await signInByPasskey(page)
        return sending
      })
      yield* TestClock.adjust("5 minutes")
      const form = yield* Effect.promise(async () => {
        await held.continue()
        await page.waitForSelector("text=This took longer than five minutes")
        const sent = page.waitForRequest((request) => request.method() === "POST" && request.url().endsWith("/sign-in"))
        await signInByPasskey(page)
        const body = (await sent).postData()
        await page.waitForURL(/console\/[0-9a-f-]{36}$/)
        return body
      })
      yield* Effect.promise(async () => {
        const again = `fetch("/console/sign-in", { method: "POST", body: new URLSearchParams(${JSON.stringify(form)}) })`
        assert.strictEqual(await page.evaluate(`${again}.then(({ status }) => status)`), 422)
      })
      assert.deepEqual(yield* recorded(project_id), [
        "added",
        "refused not_verified",
        "refused challenge_expired",
        "refused challenge_used"
      ])
    }))

  test("is not signed in by what another local program's page got from the authenticator", () =>
    Effect.gen(function* () {
      const { page, project_id, service } = yield* holder()
      const port = yield* freePort
      const other = yield* Effect.acquireRelease(
        Effect.sync(() =>
          createServer((_, response) => response.end("<!doctype html><title>other</title>")).listen(port, "127.0.0.1")
        ),
        (server) => Effect.sync(() => server.close())
      )
      yield* Effect.promise(() => once(other, "listening"))
      yield* Effect.promise(async () => {
        await signOut(page)
        const options = await page.evaluate<{ challenge: string }>(
          `fetch("/console/sign-in/options", { method: "POST", body: new URLSearchParams() }).then((answer) => answer.json())`
        )
        await page.goto(`http://localhost:${port}`)
        const credential = await page.evaluate<string>(
          `navigator.credentials
            .get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(${JSON.stringify(options)}) })
            .then((credential) => JSON.stringify(credential))`
        )
        await page.goto(`${service.url}/console/sign-in`)
        await page.evaluate(`{
          const form = document.querySelector("form.passkey")
          form.elements.credential.value = ${JSON.stringify(credential)}
          form.submit()
        }`)
        await page.waitForSelector("text=The passkey could not be checked")
      })
      assert.deepEqual(yield* recorded(project_id), ["added", "refused foreign_origin"])
    }))

  test("whose token is revoked is not signed in", () =>
    Effect.gen(function* () {
      const { page, project_id, service, token_id } = yield* holder()
      yield* Effect.promise(() => signOut(page))
      yield* Context.get(service.services, ProjectTokens).revoke(token_id)
      yield* Effect.promise(async () => {
        await signInByPasskey(page)
        await page.waitForSelector("text=The project token of this passkey has ended.")
      })
      assert.deepEqual(yield* recorded(project_id), ["added", "refused token_ended"])
    }))

  test("signs in by token where no script runs, and is told at which address passkeys work", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { token } = yield* makeToken(service)
      const { page } = yield* openPage({ javaScriptEnabled: false })
      const other = yield* openPage()
      yield* Effect.promise(async () => {
        await page.goto(`${service.url}/console/sign-in`)
        assert.isFalse(await page.isVisible("text=Sign in with a passkey"))
        assert.isFalse(await page.isVisible(".or"))
        await signInByToken(page, service.url, token)
        await page.goto(`${service.url}/console/keys`)
        assert.isTrue(await page.isVisible("noscript"))
        await other.page.goto(`${service.url.replace("localhost", "127.0.0.1")}/console/sign-in`)
        await other.page.waitForSelector(`text=Passkeys work at ${service.url}`)
        assert.isFalse(await other.page.isVisible("text=Sign in with a passkey"))
      })
    }))

  for (const [width, colorScheme] of [
    [390, "light"],
    [1280, "dark"]
  ] as const) {
    test(`sees pages that are accessible and fit the screen: ${width}-${colorScheme}`, () =>
      Effect.gen(function* () {
        const viewport = { width, height: 844 }
        const { home, page, service, token } = yield* holder({ viewport, colorScheme, isMobile: width < 600 })
        const client_id = yield* makeClient(service)
        const query = authorizeQuery({ client_id, resource: `${service.url}/mcp` })
        yield* Effect.promise(async () => {
          const check = async (name: string) => {
            if (screenshots !== undefined) {
              await page.screenshot({ path: join(screenshots, `${name}-${width}-${colorScheme}.png`), fullPage: true })
            }
            assert.deepEqual(await pageFaults(page), [], name)
          }
          await page.goto(`${service.url}/console/keys`)
          await check("keys")
          await page.evaluate("for (const opened of document.querySelectorAll('.act')) opened.open = true")
          await check("keys-open")
          await page.goto(`${service.url}/authorize?${query}`)
          await check("consent-session")
          await page.goto(home)
          await signOut(page)
          await check("sign-in")
          await page.fill("#project_token", token.slice(0, -1))
          await page.press("#project_token", "Enter")
          await page.waitForSelector("[role=alert]")
          await check("sign-in-wrong")
          await page.goto(`${service.url}/authorize?${query}`)
          await check("consent")
        })
      }))
  }
})
