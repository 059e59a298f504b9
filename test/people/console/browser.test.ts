/**
 * The console in a real Chromium: a person signs in by keyboard and walks over every page, in which every text of an agent
 * is an attack. SCREENSHOTS=folder saves a picture of each page.
 */
import { assert } from "@effect/vitest"
import { Context, Effect, Layer, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { join } from "node:path"
import type { BrowserContextOptions, Page } from "playwright-core"
import { actionNames } from "../../../src/people/console/Actions.ts"
import { ProjectTokens } from "../../../src/signin/access/ProjectTokens.ts"
import { Sessions } from "../../../src/signin/sessions/Sessions.ts"
import { makeToken, reachable } from "../../support/agents/Agent.ts"
import { layoutFaults, openPage, pageFaults } from "../../support/people/Chromium.ts"
import { inChromium } from "../../support/people/InChromium.ts"
import { makeBusyProject, makeEquippedProject, makeOperator } from "../../support/people/Console.ts"
import { makeApp, signIn } from "../../support/people/SignIn.ts"
import { Service } from "../../support/service/Service.ts"
import { TestDatabase } from "../../support/database/TestDatabase.ts"

const screenshots = process.env["SCREENSHOTS"]

const Reachable = Layer.effect(Service, reachable()).pipe(Layer.provideMerge(TestDatabase.sql))

/** Markup, a handler, an address, an image, and a word longer than a small screen. At most 170 B: titles have 200. */
const hostile = `</p><script>document.title="owned"</script><img src=x onerror=alert(1)>"'[a](javascript:x) ![b](http://e.example) ${"w".repeat(45)}`

/** The layout changes between the second and the third; one small and one large screen are looked at whole. */
const sizes = [
  [320, "dark", pageFaults],
  [390, "light", layoutFaults],
  [1280, "dark", layoutFaults],
  [1920, "light", pageFaults]
] as const
const looks = sizes.map(([width, colorScheme, faults]): readonly [string, BrowserContextOptions, typeof faults] => [
  `${width}-${colorScheme}`,
  { viewport: { width, height: 844 }, colorScheme, isMobile: width < 600 },
  faults
])

inChromium(Reachable, "in Chromium", (test) => {
  /** Every page that a link of the navigation or of a list leads to. */
  const walk = async (page: Page, look: string, faults: typeof pageFaults, paths: ReadonlyArray<string>) => {
    for (const path of paths) {
      await page.goto(path)
      if (screenshots !== undefined) {
        const name = `${look}${new URL(path).pathname.replaceAll(/[/-]|[0-9a-f]{4,}/g, "") + (path.split("?")[1] ?? "") + path.slice(-2)}.png`
        await page.screenshot({ path: join(screenshots, name), fullPage: true })
      }
      assert.notStrictEqual(await page.title(), "owned")
      assert.deepEqual(await faults(page), [], `${look} ${path}`)
    }
  }

  for (const [look, options, faults] of looks) {
    test(`a person signs in by keyboard, and every page is accessible, fits the screen and runs no text of an agent: ${look}`, () =>
      Effect.gen(function* () {
        const service = yield* Service
        const text = screenshots === undefined ? hostile : ""
        const { dependent_id, entry_id, project_id, task_id, token } = yield* makeBusyProject(service, text)
        yield* signIn(service, {
          client_id: yield* makeApp(service),
          token: Redacted.make(token),
          label: text.slice(0, 64)
        })
        const home = `${service.url}/console/${project_id}`
        const paths = [
          "",
          "/tasks",
          "/tasks?view=board",
          `/tasks/${task_id}`,
          `/tasks/${dependent_id}`,
          "/memory",
          `/memory/${entry_id}`,
          "/documents",
          "/bridges",
          "/agents",
          "/phones",
          "/activity?kind=tasks"
        ].map((path) => home + path)
        paths.push(`${service.url}/console/apps`)
        const { consoleErrors, page } = yield* openPage(options)
        yield* Effect.promise(async () => {
          await page.goto(`${service.url}/console`)
          assert.deepEqual(await faults(page), [])
          if (screenshots !== undefined) await page.screenshot({ path: join(screenshots, `${look}-sign-in.png`) })
          await page.waitForSelector("#project_token:focus")
          await page.keyboard.type(token)
          await page.keyboard.press("Enter")
          await page.waitForURL(home)
          await walk(page, look, faults, paths)
          await page.evaluate("for (const opened of document.querySelectorAll('.act')) opened.open = true")
          assert.deepEqual(await faults(page), [], "with the question open")
        })
        // Taking a picture adds a style, which the policy reports.
        if (screenshots === undefined) assert.deepEqual(consoleErrors, [], look)
      }))
  }

  for (const [look, options, faults] of looks) {
    test(`an operator's pages are accessible, fit the screen and run no text of an agent: ${look}`, () =>
      Effect.gen(function* () {
        const service = yield* Service
        const { project_id } = yield* makeEquippedProject(service, screenshots === undefined ? hostile : "")
        const home = `${service.url}/console/${project_id}`
        const { path } = yield* makeOperator(service)
        const { consoleErrors, page } = yield* openPage(options)
        yield* Effect.promise(async () => {
          await page.goto(service.url + path)
          await page.focus("button")
          await page.keyboard.press("Enter")
          await page.waitForURL(/projects/)
          const ofService = ["projects", "bridges", "access", "push", "health", "activity"]
          const ofProject = ["documents", "bridges", "agents", "phones", "limits", "activity"]
          await walk(page, `operator-${look}`, faults, [
            ...ofService.map((section) => `${service.url}/console/${section}`),
            ...ofProject.map((section) => `${home}/${section}`)
          ])
          await page.goto(`${home}/bridges`)
          await page.evaluate("for (const opened of document.querySelectorAll('.act')) opened.open = true")
          if (screenshots !== undefined) {
            await page.screenshot({ path: join(screenshots, `operator-${look}-open.png`), fullPage: true })
          }
          assert.deepEqual(await faults(page), [], "with every question open")
        })
        if (screenshots === undefined) assert.deepEqual(consoleErrors, [])
      }))
  }

  test("an operator ends a Bridge by keyboard, after reading what will happen", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { project_id } = yield* makeBusyProject(service)
      const home = `${service.url}/console/${project_id}`
      const { path } = yield* makeOperator(service, project_id)
      const { consoleErrors, page } = yield* openPage()
      yield* Effect.promise(async () => {
        await page.goto(service.url + path)
        await page.focus("button")
        await page.keyboard.press("Enter")
        await page.waitForURL(home)
        await page.goto(`${home}/bridges`)
        await page.getByText("Revoke … bridge-pier").focus()
        await page.keyboard.press("Enter")
        await page.getByText("loses its tokens at once and for good").last().waitFor()
        await page.keyboard.press("Tab")
        assert.include(await page.evaluate<string>("document.activeElement.textContent"), "Copy")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await page.waitForSelector("text=The Bridge is revoked.")
      })
      assert.deepEqual(consoleErrors, [])
    }))

  test("an operator does everything that a page offers by keyboard, with the command beside it", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { project_id } = yield* makeEquippedProject(service)
      const home = `${service.url}/console/${project_id}`
      const { path } = yield* makeOperator(service, project_id)
      const elsewhere = yield* makeToken(service)
      yield* Context.get(service.services, Sessions).signIn(Redacted.make(elsewhere.token))
      const { consoleErrors, page } = yield* openPage(looks[1]![1])
      const typed: Readonly<Record<string, string>> = { name: "Lighthouse", reference: "github:other", tasks: "70000" }
      const done = new Set<string>()
      /** Opens the action, reads the command, fills in what is asked, and confirms: all by keys. */
      const perform = async (action: string) => {
        const button = page.locator(`button[name="action"][value="${action}"]`).first()
        const form = button.locator("xpath=ancestor::form")
        if (!(await button.isVisible())) {
          await button.locator("xpath=ancestor::details[1]/summary").focus()
          await page.keyboard.press("Enter")
          await button.waitFor()
        }
        assert.include(await form.innerText(), `service-admin ${action}`)
        for (const input of await form.locator("input:visible").all()) {
          const value = typed[(await input.getAttribute("name")) ?? ""]
          if (value === undefined) continue
          await input.focus()
          await page.keyboard.press("ControlOrMeta+A")
          await page.keyboard.type(value)
        }
        await button.focus()
        await page.keyboard.press("Enter")
        await page.waitForURL((url) => url.searchParams.get("done") === action)
        done.add(action)
      }
      // A test of a channel waits eight seconds for its delivery, and nothing delivers here.
      const tick = Effect.promise(() => new Promise((resolve) => setTimeout(resolve, 20)))
      yield* Effect.forkScoped(Effect.forever(Effect.andThen(TestClock.adjust("200 millis"), tick)))
      // In an order in which no action takes away what another one is about.
      const pages = [
        `${service.url}/console/push`,
        ...["phones", "documents", "limits", "agents"].map((section) => `${home}/${section}`),
        `${service.url}/console/access`,
        `${service.url}/console/bridges`,
        `${home}/bridges`,
        `${service.url}/console/projects`
      ]
      yield* Effect.promise(async () => {
        await page.goto(service.url + path)
        await page.focus("button")
        await page.keyboard.press("Enter")
        await page.waitForURL(home)
        for (const address of pages) {
          for (let next: string | undefined = ""; next !== undefined;) {
            await page.goto(address)
            const offered = await page
              .locator('button[name="action"]')
              .evaluateAll((buttons) => buttons.map((button) => button.getAttribute("value")!))
            next = offered.find((action) => !done.has(action))
            if (next !== undefined) await perform(next)
          }
        }
      })
      assert.sameMembers([...done], [...actionNames])
      assert.deepEqual(consoleErrors, [])
    }))

  const visit = "document.dispatchEvent(new Event('visibilitychange'))"

  test("an open page shows what is new, and keeps what is typed, the focus and what is open", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { agent, project_id, token } = yield* makeBusyProject(service)
      const { consoleErrors, page } = yield* openPage()
      const memory = `/console/${project_id}/memory`
      yield* Effect.promise(async () => {
        await page.goto(`${service.url}/console/sign-in?to=${memory}`)
        await page.waitForSelector("#project_token:focus")
        await page.keyboard.type(token)
        await page.keyboard.press("Enter")
        await page.waitForURL(service.url + memory)
        await page.click(".folded > summary")
        await page.fill("#query", "half a quest")
      })
      yield* agent.note("The harbour is open again")
      yield* Effect.promise(async () => {
        const asked = page.waitForRequest((request) => request.headers()["console-refresh"] === "1")
        await page.evaluate(visit)
        await asked
        await page.waitForSelector("text=The harbour is open again")
        await page.keyboard.type("ion")
        assert.strictEqual(await page.inputValue("#query"), "half a question")
        assert.isTrue(await page.isVisible(".folded form"))
      })
      assert.deepEqual(consoleErrors, [])
    }))

  test("an open page whose session has ended leads to the sign-in page by itself", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { token, token_id } = yield* makeToken(service)
      const { page } = yield* openPage()
      yield* Effect.promise(async () => {
        await page.goto(`${service.url}/console`)
        await page.waitForSelector("#project_token:focus")
        await page.keyboard.type(token)
        await page.keyboard.press("Enter")
        await page.waitForSelector("text=Nothing waits for a person.")
      })
      yield* Context.get(service.services, ProjectTokens).revoke(token_id)
      yield* Effect.promise(async () => {
        await page.evaluate(visit)
        await page.waitForURL(/sign-in/)
      })
    }))
})
