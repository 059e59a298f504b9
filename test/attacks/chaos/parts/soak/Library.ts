/**
 * A project in which agents search, read and ask, people answer at the console, and consoles stay open. An open console has
 * no stream: its page fetches itself again every five seconds.
 */
import { Context, Effect, Fiber, Redacted } from "effect"
import { question } from "../../../../../bench/support/corpus.ts"
import { Channels } from "../../../../../src/people/channels/Channels.ts"
import { makeSecret } from "../../../../../src/push/channels/webhook/webhook.ts"
import {
  answerOf,
  authorizeQuery,
  Browser,
  exchange,
  makeClient,
  makeToken,
  pkce
} from "../../../../support/agents/Agent.ts"
import { choices } from "../../../../support/agents/Answers.ts"
import { initialPreferences } from "../../../../../src/wire/mobile/Notifications.ts"
import { csrfOf, Person } from "../../../../support/people/Console.ts"
import { Agent, type Called } from "../../../../support/agents/McpAgent.ts"
import { makePerson } from "../../../../support/people/SignIn.ts"
import type { Answer } from "../../../../support/network/Http.ts"
import { makeRegisteredPhone } from "../../../../support/phones/Phone.ts"
import { planted } from "../../../../support/secrets/Planted.ts"
import { oauthOutcome } from "../Callers.ts"
import { callsTooLong, type Load, toolOutcome } from "../Load.ts"
import { fillOrdinary } from "../tenants/Projects.ts"
import type { Ground } from "./Ground.ts"
import { paths, type Weather } from "./Weather.ts"

interface Given {
  readonly on: Ground["on"]
  readonly load: Load
  readonly project_id: string
}

/** Two channels and two phones of a project, of which one each is served poorly at times. */
export const makeBells = Effect.fnUntraced(function* ({ on, project_id }: Omit<Given, "load">, weather: Weather) {
  const secrets = paths.map(() => makeSecret())
  const channels = yield* Effect.forEach(paths, (path, n) =>
    Context.get(on.services, Channels).create({
      project_id,
      kind: "webhook",
      url: weather.url(path),
      secret: secrets[n]!,
      titles: false
    })
  )
  const person = yield* makePerson(on as never, { project_id })
  const phones = yield* Effect.forEach(paths, (path) =>
    // Who asks to hear of completed tasks, too, gets more than a project may raise in an hour.
    Effect.map(makeRegisteredPhone(on, person, { preferences: initialPreferences }), (phone) => {
      if (path === "/poor") weather.poor.add(phone.token)
      return phone
    })
  )
  return {
    devices: [...channels.map(({ channel_id }) => channel_id), ...phones.map(({ device_id }) => device_id)],
    secrets: [...secrets, person.project_token, person.refresh_token].map((secret) => Redacted.value(secret))
  }
})

export const makeLibrary = Effect.fnUntraced(function* ({ load, on, project_id }: Given) {
  const entries = yield* fillOrdinary(on.services, project_id, { entries: 400, tasks: 100 })
  const agents = yield* Effect.forEach([1, 2, 3, 4], () => Agent.make(on, { project_id }))
  let meant = 0

  const reading = agents.map((agent, index) =>
    load.again((n) =>
      Effect.gen(function* () {
        const ask = (kind: string, tool: string, given: object) =>
          load.untilAnswered(kind, agent.call(tool, { ...given }), toolOutcome)
        const turn = n * agents.length + index
        const found = yield* ask("search", "memory_search", { query: question(turn % 500) })
        if (found?.output.semantic === true) meant++
        yield* ask("read", "memory_get", { id: entries[turn % entries.length]! })
        yield* ask("list", "task_list", { ready: true })
        yield* ask("context", "continuity_context", {})
        yield* load.rest(1000)
      })
    )
  )

  const signedIn = Effect.fnUntraced(function* (label: string) {
    const { token } = yield* makeToken(on, { project_id, label })
    const person = new Person(on.url, on.url)
    yield* person.signIn(token)
    const home = `/console/${project_id}`
    return { token, person, home, csrf: csrfOf(yield* person.get(home)) }
  })
  const people = yield* Effect.forEach(Array.from({ length: 10 }), (_, n) => signedIn(`Reader ${n}`))
  const pages = ["", "/tasks", "/memory", "/activity", "/bridges", "/agents", "/phones"]
  const looking = people.map(({ home, person }, index) =>
    load.again((n) =>
      Effect.gen(function* () {
        const path = home + pages[(n + index) % pages.length]!
        yield* load.untilAnswered("page", person.get(path, { "console-refresh": "1" }), pageOutcome)
        yield* load.rest(5000)
      })
    )
  )

  // A task asks, a person answers at the console, and the agent that waits for it goes on.
  const violations: Array<string> = []
  const asked = new Set<string>()
  let answers = 0
  const asking = people.slice(0, 2).map(({ csrf, home, person }, index) => {
    const agent = agents[index]!
    const write = (kind: string, n: number, tool: string, given: object) => {
      const idempotency_key = `${kind}-q${index}-${n}`
      return load.mutate(
        `${kind} q${index} ${n}`,
        agent.write(tool, { ...given, idempotency_key }),
        toolOutcome,
        ({ output }) => output.task.id
      )
    }
    return load.again((n) =>
      Effect.gen(function* () {
        const created = yield* write("task", n, "task_create", { title: `question ${index} ${n}` })
        if (created === undefined) return
        const { id, version } = created.output.task
        const question = {
          status: "blocked",
          blocked_kind: "decision",
          blocked_reason: "Which?",
          choices,
          expected_version: version,
          id
        }
        const blocked = yield* write("question", n, "task_update", question)
        if (blocked === undefined) return
        asked.add(id)
        const seen: number = blocked.output.task.version
        const call = agent.call("task_wait", { id, version: seen, timeout_seconds: 10 })
        const isChanged = (called: Called | undefined) => called === undefined || called.output.changed === true
        const waiting = yield* Effect.forkChild(
          Effect.repeat(load.untilAnswered("wait", call, toolOutcome), { until: isChanged })
        )
        const choice = choices[n % choices.length]!
        const form = { csrf, action: "answer", version: String(seen), choice, text: "" }
        yield* load.rest(2000)
        const answered = yield* load.untilAnswered("answer", person.post(`${home}/tasks/${id}`, form), pageOutcome)
        // Nobody else answers: the agent would wait for ever.
        if (answered === undefined) return yield* Fiber.interrupt(waiting)
        const task = (yield* Fiber.join(waiting))?.output.task
        answers++
        if (task?.answer?.text !== choice) violations.push(`an answer did not come: ${id}`)
        const finished = { id, expected_version: task?.version, status: "done" }
        if (task !== undefined) yield* write("close", n, "task_update", finished)
        yield* load.rest(40_000)
      })
    )
  })

  const client_id = yield* makeClient(on)
  const person = yield* makeToken(on, { project_id, label: "Grace" })
  const granted: Array<string> = []
  const step = (kind: string, request: Effect.Effect<Answer>, outcomeOf: (of: Answer) => string) =>
    Effect.map(load.once(kind, request, outcomeOf), ({ answer, outcome }) => (outcome === "200" ? answer : undefined))
  /** After a step that failed, the next turn begins anew. */
  const signingIn = load.again(() =>
    Effect.gen(function* () {
      const browser = new Browser(on.url)
      const { challenge, verifier } = pkce()
      const query = authorizeQuery({ client_id, code_challenge: challenge })
      const start = yield* step("authorize", browser.authorize(query), pageOutcome)
      const shown =
        start && (yield* step("signin", browser.submit(start, { project_token: person.token }), pageOutcome))
      const allowed = shown && (yield* step("consent", browser.submit(shown, { decision: "allow" }), pageOutcome))
      const given = allowed && { client_id, code: answerOf(allowed)["code"], code_verifier: verifier }
      const tokens = given && (yield* step("code", exchange(on, given), oauthOutcome))
      if (tokens !== undefined) granted.push(tokens.body.access_token, tokens.body.refresh_token)
      yield* load.rest(20_000)
    })
  )

  /** Secrets where they do not belong: in text, and as a token that nobody gave. */
  const misplaced = planted(new Date()).slice(0, 40)
  const planting = load.again((n) =>
    Effect.gen(function* () {
      const { secret, text } = misplaced[n % misplaced.length]!
      const add = agents[0]!.write("memory_add", { kind: "note", body: text })
      yield* load.once("secret", add, (called) => (called.code === "secret_detected" ? "200" : toolOutcome(called)))
      const guess = new Agent({ ...agents[0]!, token: secret.replaceAll(/[^\w-]/g, "").slice(0, 200) })
      yield* load.once("guess", guess.post("tools/list"), ({ status }) => (status === 401 ? "200" : `${status}`))
      yield* load.rest(30_000)
    })
  )

  return {
    turns: [...reading, ...looking, ...asking, signingIn, planting],
    violations,
    asked,
    figures: () => ({ searches_by_meaning: meant, questions_answered: answers, sign_ins: granted.length / 2 }),
    secrets: () => [
      ...agents.map(({ token }) => token),
      ...people.map(({ token }) => token),
      person.token,
      ...granted,
      ...misplaced.map(({ secret }) => secret)
    ]
  }
})

/**
 * A page has no code, and after a form there is another one. It takes a turn as a call does. A person who is led to the
 * sign-in page was signed out.
 */
const pageOutcome = ({ headers, status }: Answer) => {
  const retries = headers.get("retry-after") !== null
  if (status === 503 && retries) return "503 bridge_persistence_error"
  if (status === 429 && retries) return callsTooLong
  if (status !== 303) return `${status}`
  return headers.get("location")!.startsWith("/console/sign-in") ? "303 signed_out" : "200"
}
