/**
 * The consent pages in a real Chromium, which finds what handwritten requests cannot, such as a policy that blocks a
 * redirect. SCREENSHOTS=folder saves a picture of every page, in both colour schemes and at two sizes.
 */
import { assert } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { createServer, type RequestListener, type Server } from "node:http"
import { createServer as createSecureServer } from "node:https"
import { join } from "node:path"
import type { Page } from "playwright-core"
import { vi } from "vitest"
import { Clients } from "../../../src/signin/oauth/clients/Clients.ts"
import { authorizeQuery, makeClient, makeToken, reachable } from "../../support/agents/Agent.ts"
import { openPage, pageFaults, viewports } from "../../support/people/Chromium.ts"
import { inChromium } from "../../support/people/InChromium.ts"
import { Service } from "../../support/service/Service.ts"
import { TestDatabase } from "../../support/database/TestDatabase.ts"
import { throwAwayCertificate } from "../../support/phones/ThrowAwayCertificate.ts"

const screenshots = process.env["SCREENSHOTS"]

const Reachable = Layer.effect(Service, reachable()).pipe(Layer.provideMerge(TestDatabase.sql))

/** A client's callback server, over https at `localhost` if secure; `redirect` sends the browser on to another address. */
const callbackServer = (options: { readonly secure?: boolean; readonly redirect?: string } = {}) =>
  Effect.acquireRelease(
    Effect.callback<{ readonly uri: string; readonly seen: Array<string>; readonly server: Server }>((resume) => {
      const seen: Array<string> = []
      const respond: RequestListener = (request, response) => {
        if (request.url!.startsWith("/callback")) seen.push(request.url!)
        if (options.redirect === undefined) response.end("<title>Back in the app</title>")
        else response.writeHead(302, { location: options.redirect }).end()
      }
      const secure = options.secure === true
      const server = secure ? createSecureServer(throwAwayCertificate(), respond) : createServer(respond)
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        const port = typeof address === "object" && address !== null ? address.port : 0
        const origin = secure ? `https://localhost:${port}` : `http://127.0.0.1:${port}`
        resume(Effect.succeed({ uri: `${origin}/callback`, seen, server }))
      })
    }),
    ({ server }) => Effect.sync(() => server.close().closeAllConnections())
  )

const authorizeUrl = Effect.fnUntraced(function* (given: Readonly<Record<string, string>>) {
  return `${(yield* Service).url}/authorize?${authorizeQuery(given)}`
})

const enterToken = async (page: Page, token: string) => {
  await page.fill("#project_token", token)
  await page.press("#project_token", "Enter")
}
const press = (page: Page, name: string) => page.getByRole("button", { name, exact: true }).click()

inChromium(Reachable, "in Chromium", (test) => {
  const prepare = Effect.fnUntraced(function* (given: Readonly<Record<string, string>> = {}) {
    const service = yield* Service
    const back = yield* callbackServer()
    const { token } = yield* makeToken(service)
    const client_id = yield* makeClient(service, { redirect_uris: [back.uri] })
    const url = yield* authorizeUrl({ client_id, redirect_uri: back.uri, ...given })
    return { service, back, token, url }
  })

  test("a person allows, and the code arrives at a loopback port", () =>
    Effect.gen(function* () {
      const { back, token, url } = yield* prepare()
      const { consoleErrors, page } = yield* openPage()
      yield* Effect.promise(async () => {
        await page.goto(url)
        await enterToken(page, token)
        await page.waitForSelector("text=Allow Lighthouse to use Harbour?")
        await press(page, "Allow")
        await page.waitForURL(`${back.uri}?**`)
      })
      assert.match(back.seen[0]!, /^\/callback\?code=sac_\w+&state=state-1&iss=/)
      assert.deepEqual(consoleErrors, [])
    }))

  test("a person denies", () =>
    Effect.gen(function* () {
      const { back, token, url } = yield* prepare()
      const { page } = yield* openPage()
      yield* Effect.promise(async () => {
        await page.goto(url)
        await enterToken(page, token)
        await page.waitForSelector("text=It will be able to")
        await press(page, "Deny")
        await page.waitForURL(`${back.uri}?**`)
      })
      assert.include(back.seen[0]!, "error=access_denied")
    }))

  test("Deny needs no token", () =>
    Effect.gen(function* () {
      const { back, url } = yield* prepare()
      const { page } = yield* openPage()
      yield* Effect.promise(async () => {
        await page.goto(url)
        await press(page, "Deny")
        await page.waitForURL(`${back.uri}?**`)
      })
      assert.include(back.seen[0]!, "error=access_denied")
    }))

  test("a wrong token is reported beside the field and is not repeated in the page", () =>
    Effect.gen(function* () {
      const { token, url } = yield* prepare()
      const { page } = yield* openPage({ viewport: { width: 320, height: 480 } })
      yield* Effect.promise(async () => {
        await page.goto(url)
        await enterToken(page, "spt_wrong")
        const { height, y } = (await (await page.waitForSelector('[role="alert"]')).boundingBox())!
        assert.isTrue(y >= 0 && y + height <= 480, "on the screen, with the field that has the focus")
        assert.strictEqual(await page.inputValue("#project_token"), "")
        assert.strictEqual(await page.evaluate<string>("document.activeElement.id"), "project_token")
        await enterToken(page, token)
        await page.waitForSelector("text=It will be able to")
        assert.notInclude(await page.content(), token)
        assert.notInclude(page.url(), token)
      })
    }))

  test("a double click on Allow returns a code", () =>
    Effect.gen(function* () {
      const { back, token, url } = yield* prepare()
      const { page } = yield* openPage()
      yield* Effect.promise(async () => {
        await page.goto(url)
        await enterToken(page, token)
        await page.getByRole("button", { name: "Allow", exact: true }).dblclick()
        // The second click may break off the navigation of the first, which waitForURL would take for a failure.
        await vi.waitUntil(() => page.url().startsWith(`${back.uri}?`), 10_000)
      })
      assert.include(back.seen.at(-1)!, "code=sac_")
    }))

  test("two tabs decide two requests", () =>
    Effect.gen(function* () {
      const { back, token, url } = yield* prepare()
      const { context, page } = yield* openPage()
      yield* Effect.promise(async () => {
        const other = await context.newPage()
        await page.goto(url)
        await other.goto(url.replace("state-1", "state-2"))
        await enterToken(page, token)
        await enterToken(other, token)
        await press(page, "Allow")
        await page.waitForURL(`${back.uri}?**`)
        await press(other, "Deny")
        await other.waitForURL(`${back.uri}?**`)
      })
      assert.lengthOf(back.seen, 2)
      assert.include(back.seen[0]!, "state=state-1")
      assert.include(back.seen[1]!, "state=state-2")
    }))

  test("a page that expired in an open tab says so", () =>
    Effect.gen(function* () {
      const { service, token, url } = yield* prepare()
      const { page } = yield* openPage()
      yield* Effect.promise(async () => {
        await page.goto(url)
      })
      const sql = yield* SqlClient.SqlClient
      yield* sql`update oauth_request set expires_at = created_at`
      yield* Effect.promise(async () => {
        await enterToken(page, token)
        await page.waitForSelector("text=This page has expired")
        assert.isTrue(page.url().startsWith(service.url))
      })
    }))

  test("the page's policy lets an https callback redirect to a third origin and on to an app", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const app = yield* callbackServer()
      const landing = yield* callbackServer({ secure: true, redirect: app.uri })
      const site = yield* callbackServer({ secure: true, redirect: landing.uri })
      const { token } = yield* makeToken(service)
      const client_id = yield* makeClient(service, { redirect_uris: [site.uri], application_type: "web" })
      const url = yield* authorizeUrl({ client_id, redirect_uri: site.uri })
      const { consoleErrors, page } = yield* openPage({ ignoreHTTPSErrors: true })
      yield* Effect.promise(async () => {
        await page.goto(url)
        await enterToken(page, token)
        await press(page, "Allow")
        await page.waitForURL(app.uri)
      })
      assert.match(site.seen[0]!, /^\/callback\?code=sac_/)
      assert.deepEqual([landing.seen, app.seen], [["/callback"], ["/callback"]])
      assert.deepEqual(consoleErrors, [])
    }))

  test("a private-use scheme is handed to the system", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const redirect_uri = "com.example.app:/oauth/callback"
      const { token } = yield* makeToken(service)
      const client_id = yield* makeClient(service, { redirect_uris: [redirect_uri] })
      const url = yield* authorizeUrl({ client_id, redirect_uri })
      const { consoleErrors, page } = yield* openPage()
      const location = yield* Effect.promise(async () => {
        await page.goto(url)
        await enterToken(page, token)
        await page.waitForSelector("text=com.example.app")
        const [response] = await Promise.all([
          page.waitForResponse((answer) => answer.request().method() === "POST"),
          press(page, "Allow")
        ])
        return response.headerValue("location")
      })
      assert.match(location!, /^com\.example\.app:\/oauth\/callback\?code=sac_/)
      assert.deepEqual(
        consoleErrors.filter((text) => text.includes("Content Security Policy")),
        []
      )
    }))

  for (const [viewport, options] of viewports) {
    test(`every page is accessible and fits (${viewport})`, () =>
      Effect.gen(function* () {
        const service = yield* Service
        const back = yield* callbackServer()
        const { token } = yield* makeToken(service)
        const reader = yield* makeToken(service, { scopes: ["context:read"] })
        const { client_id } = yield* Context.get(service.services, Clients).register({
          client_name: "Aurora Desktop",
          redirect_uris: [back.uri]
        })
        const scope = "context:read memory:write tasks:write documents:read"
        const url = yield* authorizeUrl({ client_id, redirect_uri: back.uri, scope })
        const { page } = yield* openPage(options)
        const check = async (name: string) => {
          if (screenshots !== undefined)
            await page.screenshot({ path: join(screenshots, `${viewport}-${name}.png`), fullPage: true })
          assert.deepEqual(await pageFaults(page), [], name)
        }
        yield* Effect.promise(async () => {
          await page.goto(url)
          await check("1-token")
          await enterToken(page, "spt_wrong")
          await page.waitForSelector('[role="alert"]')
          await check("2-wrong")
          await enterToken(page, token)
          await page.waitForSelector("text=It will be able to")
          await check("3-consent")
          await page.goto(`${service.url}/authorize?client_id=nobody`)
          await check("4-unknown")
          await page.goto(url.replace("code_challenge_method=S256", "code_challenge_method=plain"))
          await check("5-return")
          await page.goto(url.replace(encodeURIComponent(scope).replaceAll("%20", "+"), "documents:read"))
          await enterToken(page, reader.token)
          await page.waitForSelector('[role="alert"]')
          await check("6-nothing")
        })
      }))
  }

  test("the pages can be used with the keyboard alone", () =>
    Effect.gen(function* () {
      const { back, token, url } = yield* prepare()
      const { page } = yield* openPage()
      yield* Effect.promise(async () => {
        await page.goto(url)
        await page.keyboard.press("Tab")
        await page.keyboard.type(token)
        await page.keyboard.press("Enter")
        await page.waitForSelector("text=Allow")
        const focused = () => page.evaluate<string>("document.activeElement.textContent")
        for (let tabs = 0; tabs < 6 && (await focused()) !== "Allow"; tabs += 1) await page.keyboard.press("Tab")
        assert.strictEqual(await focused(), "Allow")
        await page.keyboard.press("Tab")
        assert.strictEqual(await focused(), "Deny")
        await page.keyboard.press("Shift+Tab")
        await page.keyboard.press("Enter")
        await page.waitForURL(`${back.uri}?**`)
      })
      assert.include(back.seen[0]!, "code=sac_")
    }))
})
