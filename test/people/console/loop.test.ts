/**
 * The loop of a decision in a real Chromium: an agent asks, the phone rings, a person opens the link and answers, and the
 * agent goes on. SCREENSHOTS=folder saves pictures.
 */
import { assert } from "@effect/vitest"
import { Context, Effect, Fiber, Layer } from "effect"
import { TestClock } from "effect/testing"
import { join } from "node:path"
import type { BrowserContextOptions, Page } from "playwright-core"
import { makeToken, reachable } from "../../support/agents/Agent.ts"
import { answer, ask, person as otherPerson } from "../../support/agents/Answers.ts"
import { openPage, pageFaults } from "../../support/people/Chromium.ts"
import { inChromium } from "../../support/people/InChromium.ts"
import { Agent } from "../../support/agents/McpAgent.ts"
import { makePerson } from "../../support/people/SignIn.ts"
import { apnsSimulator } from "../../support/phones/ApnsSimulator.ts"
import { makeRegisteredPhone } from "../../support/phones/Phone.ts"
import { TestDatabase } from "../../support/database/TestDatabase.ts"
import { apnsOf, drain, workerOf } from "../../support/service/Delivery.ts"

const screenshots = process.env["SCREENSHOTS"]
const picture = async (page: Page, name: string) => {
  if (screenshots !== undefined) await page.screenshot({ path: join(screenshots, `${name}.png`), fullPage: true })
}

const ringing = Effect.gen(function* () {
  const simulator = yield* apnsSimulator()
  const replica = yield* reachable({ SERVICE_APNS_TOPICS: simulator.topic })
  const worker = yield* workerOf(replica, yield* apnsOf(simulator))
  return { ...replica, simulator, worker }
})
class Ringing extends Context.Service<Ringing, Effect.Success<typeof ringing>>()("test/Ringing") {
  static readonly layer = Layer.effect(Ringing, ringing).pipe(Layer.provideMerge(TestDatabase.sql))
}

const phone = { viewport: { width: 390, height: 844 }, isMobile: true } as const
const refresh = "document.dispatchEvent(new Event('visibilitychange'))"

inChromium(Ringing.layer, "in Chromium", (test) => {
  /** A task that asks, and a page of a person who has signed in on the way to it. */
  const asked = Effect.fnUntraced(function* (options: BrowserContextOptions = {}) {
    const service = yield* Ringing
    const agent = yield* Agent.make(service)
    const { token } = yield* makeToken(service, { project_id: agent.project_id, label: "Ada" })
    const task = yield* ask(agent)
    const { consoleErrors, page } = yield* openPage(options)
    yield* Effect.promise(async () => {
      await page.goto(`${service.url}/console/open/${task.id}`)
      await page.fill("#project_token", token)
      await page.keyboard.press("Enter")
      await page.waitForSelector("text=A decision is needed")
    })
    return { service, agent, task, page, consoleErrors }
  })
  const taskOf = (agent: Agent, id: string) => Effect.map(agent.call("task_get", { id }), ({ output }) => output.task)

  test("an agent asks, a phone rings, a person answers by the link, and the waiting agent goes on", () =>
    Effect.gen(function* () {
      const service = yield* Ringing
      const person = yield* makePerson(service)
      const { token: pushed } = yield* makeRegisteredPhone(service, person)
      const agent = yield* Agent.make(service, { project_id: person.project_id })
      const { token, token_id } = yield* makeToken(service, { project_id: person.project_id, label: "Ada" })

      const task = yield* ask(agent)
      const waiting = yield* Effect.forkChild(
        agent.call("task_wait", { id: task.id, version: task.version, timeout_seconds: 25 })
      )
      yield* drain(service.worker)
      const [notification] = service.simulator.received.filter(({ token }) => token === pushed)
      const { k, r } = JSON.parse(notification!.payload)
      assert.strictEqual(k, "task.needs_decision")

      const { consoleErrors, page } = yield* openPage(phone)
      yield* Effect.promise(async () => {
        await page.goto(`${service.url}/console/open/${r}`)
        await page.waitForSelector("#project_token:focus")
        await page.keyboard.type(token)
        await page.keyboard.press("Enter")
        await page.waitForURL(`${service.url}/console/${person.project_id}/tasks/${task.id}`)
        assert.deepEqual(await pageFaults(page), [])
        await picture(page, "loop-asked")
        // By keyboard alone: the second choice, some words, and the button.
        await page.focus('input[name="choice"]')
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("Tab")
        await page.keyboard.type("From March on.")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await page.waitForSelector("text=Decided")
        assert.deepEqual(await pageFaults(page), [])
        await picture(page, "loop-decided")
      })
      assert.deepEqual(consoleErrors, [])

      while (waiting.pollUnsafe() === undefined) {
        yield* TestClock.adjust("1 second")
        yield* Effect.promise(() => new Promise((done) => setTimeout(done, 20)))
      }
      const { output } = yield* Fiber.join(waiting)
      assert.isTrue(output.changed)
      assert.deepInclude(output.task.answer, {
        text: "UBL\nFrom March on.",
        by: { kind: "token", id: token_id, label: "Ada" }
      })
      const { open_tasks } = (yield* agent.call("continuity_context")).output
      assert.strictEqual(open_tasks[0].answer.text, "UBL\nFrom March on.")
      const receipt = { session_ref: "s", worker: "w", outcome: "completed", summary: "UBL it is." }
      const done = yield* agent.update(output.task, { status: "done", receipt })
      assert.deepInclude(done.output.task, { status: "done", answer: null })
    }))

  test("without JavaScript the question is answered all the same", () =>
    Effect.gen(function* () {
      const { agent, page, task } = yield* asked({ javaScriptEnabled: false })
      yield* Effect.promise(async () => {
        await page.check('input[value="PDF"]')
        await page.click("form:has(fieldset) button.primary")
        await page.waitForSelector("text=Decided")
      })
      assert.strictEqual((yield* taskOf(agent, task.id)).answer.text, "PDF")
    }))

  test("an open page keeps an answer that is being typed while the task changes, and sends it for what was seen", () =>
    Effect.gen(function* () {
      const { agent, page, task } = yield* asked()
      yield* Effect.promise(async () => {
        await page.check('input[value="UBL"]')
        await page.fill("#text", "half an ans")
      })
      yield* agent.update(task, { blocked_reason: "Is it another question?" })
      yield* Effect.promise(async () => {
        await page.evaluate(refresh)
        await page.waitForSelector("text=Is it another question?")
        assert.isTrue(await page.isChecked('input[value="UBL"]'))
        assert.strictEqual(await page.inputValue("#text"), "half an ans")
        await page.click("button.primary >> text=Answer")
        await page.waitForSelector("text=Somebody was first")
        assert.isTrue(await page.isChecked('input[value="UBL"]'))
        assert.strictEqual(await page.inputValue("#text"), "half an ans")
        assert.deepEqual(await pageFaults(page), [])
        // A refresh would lose what the form holds.
        await page.evaluate(refresh)
        await page.waitForTimeout(300)
        assert.strictEqual(await page.inputValue("#text"), "half an ans")
        await page.click("button.primary >> text=Answer")
        await page.waitForSelector("text=Decided")
      })
      assert.strictEqual((yield* taskOf(agent, task.id)).answer.text, "UBL\nhalf an ans")
    }))

  test("an answer that is being typed is not lost when somebody else decides", () =>
    Effect.gen(function* () {
      const { agent, page, service, task } = yield* asked(phone)
      yield* Effect.promise(() => page.fill("#text", "My own words"))
      yield* answer(service, otherPerson(agent.project_id), task, "PDF, as ever")
      yield* Effect.promise(async () => {
        await page.evaluate(refresh)
        await page.waitForSelector("text=This page has changed while you were typing")
        assert.strictEqual(await page.inputValue("#text"), "My own words")
        await page.click("button.primary >> text=Answer")
        await page.waitForSelector("text=What you typed")
        assert.include(await page.innerText("main"), "PDF, as ever")
        assert.include(await page.innerText("main"), "My own words")
        assert.deepEqual(await pageFaults(page), [])
        await picture(page, "loop-late")
      })
    }))

  const looks = [
    { width: 320, colorScheme: "dark" },
    { width: 1280, colorScheme: "light" }
  ] as const
  for (const { colorScheme, width } of looks) {
    test(`every form is accessible and fits ${width} px, ${colorScheme}`, () =>
      Effect.gen(function* () {
        const { agent, page, service, task } = yield* asked({ viewport: { width, height: 844 }, colorScheme })
        const entry = yield* agent.note("We deploy on Tuesdays")
        const home = `${service.url}/console/${agent.project_id}`
        yield* Effect.promise(async () => {
          for (const path of [`/tasks/${task.id}`, "/tasks", "/memory", `/memory/${entry.id}`]) {
            await page.goto(home + path)
            await page.click(".folded > summary")
            assert.isTrue(await page.isVisible(".folded form"), path)
            assert.deepEqual(await pageFaults(page), [], path)
            await picture(page, `form-${width}-${colorScheme}${path.split("/").length}${path.slice(1, 3)}`)
          }
          await page.goto(`${home}/tasks`)
          await page.click(".folded > summary")
          await page.fill("#title", "Paint the gate")
          await page.fill("#tags", "!!!")
          await page.click("text=Create task")
          await page.waitForSelector("[role=alert]")
          assert.strictEqual(await page.inputValue("#title"), "Paint the gate")
          assert.deepEqual(await pageFaults(page), [])
          await page.fill("#tags", "gate")
          await page.click("text=Create task")
          await page.waitForSelector("h1 >> text=Paint the gate")
        })
      }))
  }
})
