/**
 * `npm run picture`: makes the pictures of the console in README.md, one for each colour scheme.
 *
 * A server of its own, with a scratch database, shows a made-up project as a person sees it who is signed in. It needs
 * Chromium, and draws with the fonts of this machine.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Console, Effect, Redacted } from "effect"
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Page } from "playwright-core"
import { agent } from "./demo/Agent.ts"
import { DemoError, stage } from "./demo/Stage.ts"
import { Chromium, noChromium, openPage } from "../test/support/people/Chromium.ts"

const folder = join(import.meta.dirname, "../docs/images")
/** README.md shows them about half as wide; screens with more pixels get all of them. */
const size = { viewport: { width: 1120, height: 776 }, deviceScaleFactor: 2 }

/** A project with a question, work in progress and memory. Returns the address of its first page and a token for it. */
const project = Effect.gen(function* () {
  const { admin, base_url, scratch } = yield* stage(undefined)
  const { project_id } = yield* admin("create-project", "--name", "Web shop")
  const token = Effect.fnUntraced(function* (label: string) {
    const out = join(scratch, label)
    yield* admin(
      "create-project-token",
      "--project",
      project_id,
      "--role",
      "contributor",
      "--label",
      label,
      "--out",
      out
    )
    return readFileSync(out, "utf8").trim()
  })
  const tools = agent(base_url, Redacted.make(yield* token("claude-code")))
  const { write_context } = yield* tools.done("server_identity")
  const write = (tool: string, input: object) => tools.done(tool, { ...input, write_context })
  const task = Effect.fnUntraced(function* (title: string, priority: number) {
    return (yield* write("task_create", { title, priority })).task.id as string
  })
  const claim = (id: string, assignee: string) => write("task_claim", { id, expected_version: 1, assignee })
  const receipt = (worker: string, outcome: string, summary: string) => ({
    session_ref: `${worker}-1`,
    worker,
    outcome,
    summary
  })

  const done = yield* task("Let customers change their address", 2)
  yield* claim(done, "codex-1")
  yield* write("task_update", {
    id: done,
    expected_version: 2,
    status: "done",
    receipt: receipt("codex-1", "completed", "The form, its checks and their tests; deployed to the test shop.")
  })
  const { entry } = yield* write("memory_add", {
    kind: "note",
    title: "Releases go out on Tuesdays",
    body: "The warehouse counts stock on Mondays, so nothing changes then."
  })
  yield* write("memory_add", {
    kind: "decision",
    title: "Releases go out on any day but Monday",
    body: "Since the pipeline rolls back by itself.",
    supersedes: entry.id
  })
  yield* claim(yield* task("Move orders to the new queue", 1), "codex-1")
  yield* task("Send invoices by mail", 2)
  const question = yield* task("Send invoices as PDF", 1)
  yield* claim(question, "claude-code-2")
  yield* write("task_update", {
    id: question,
    expected_version: 2,
    status: "blocked",
    blocked_kind: "decision",
    blocked_reason: "Do invoices show prices with tax or without it? Shops in the EU must show both to consumers.",
    choices: ["With tax", "Without tax", "Both"],
    receipt: receipt("claude-code-2", "blocked", "The layout is done. Only the column of prices waits.")
  })
  return { home: `${base_url}/console/${project_id}`, token: yield* token("Ada") }
})

/** Playwright makes no WebP; Chromium does. */
const picture = async (page: Page, colorScheme: "light" | "dark") => {
  await page.emulateMedia({ colorScheme })
  const session = await page.context().newCDPSession(page)
  const { data } = await session.send("Page.captureScreenshot", { format: "webp", quality: 90 })
  const file = join(folder, `console-${colorScheme}.webp`)
  writeFileSync(file, Buffer.from(data, "base64"))
  return file
}

const draw = Effect.gen(function* () {
  const { home, token } = yield* project
  const { page } = yield* openPage(size)
  const files = yield* Effect.tryPromise({
    try: async () => {
      await page.goto(home)
      await page.fill("#project_token", token)
      await page.keyboard.press("Enter")
      await page.locator(".ask").waitFor()
      mkdirSync(folder, { recursive: true })
      return [await picture(page, "light"), await picture(page, "dark")]
    },
    catch: (error) => new DemoError({ message: `The console could not be drawn: ${(error as Error).message}` })
  })
  for (const file of files) yield* Console.log(`Made ${file}`)
})

const none = new DemoError({
  message: "Chromium is not installed here: no picture was made, and those there are stay."
})

;(noChromium === undefined ? Effect.provide(draw, Chromium.layer) : Effect.fail(none)).pipe(
  Effect.scoped,
  Effect.tapError(({ message }) => Console.error(message)),
  NodeRuntime.runMain({ disableErrorReporting: true })
)
