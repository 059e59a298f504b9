/**
 * Ten channels of a project get the notifications of its tasks from two servers. One receiver stops answering; then a server
 * is killed, the key that seals the channels is replaced, and every receiver refuses for a while.
 *
 * The dead receiver costs the others nothing, every notification comes to every other one, a repeated one is the same under
 * the same id, and the outbox drains.
 */
import { Context, Effect } from "effect"
import { randomBytes } from "node:crypto"
import { once } from "node:events"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { SqlClient } from "effect/sql"
import { Projects } from "../../../../src/operator/projects/Projects.ts"
import { Channels } from "../../../../src/people/channels/Channels.ts"
import { makeSecret } from "../../../../src/push/channels/webhook/webhook.ts"
import { Agent } from "../../../support/agents/McpAgent.ts"
import { servicesOf } from "../../../support/phones/Fleet.ts"
import {
  admin,
  awaiting,
  chaos,
  draw,
  environment,
  percentile,
  scratch,
  server,
  size,
  sliced,
  until
} from "../harness.ts"

const channels = 10
/** Tasks that become blocked while each of the two conditions holds, and while the servers are disturbed. */
const [measured, disturbed] = [size(250, 10), size(300, 20)]
const kills = size(5, 1)

const host = "hooks.example"
const dead = "/hook/0"

interface Arrived {
  readonly path: string
  readonly id: string
  /** Without the time of the attempt. */
  readonly form: string
  readonly subject: string
  readonly at: number
}

let blocked = 0

chaos(
  "channels",
  () => ({ blocked }),
  Effect.gen(function* () {
    const folder = yield* scratch
    const arrived: Array<Arrived> = []
    const condition: { dead: boolean; refuses: boolean } = { dead: false, refuses: false }
    const receiver = createServer((request, response) => {
      const chunks: Array<Buffer> = []
      request.on("data", (chunk: Buffer) => chunks.push(chunk))
      request.on("end", () => {
        const path = request.url ?? ""
        if (path === dead && condition.dead) return
        if (condition.refuses) return void response.writeHead(503).end()
        const body = Buffer.concat(chunks).toString()
        const { subject_id: subject, ...rest } = JSON.parse(body).data
        const { type, timestamp } = JSON.parse(body)
        const { version: _, ...same } = rest
        // Each of the two servers has an address of its own here.
        const form = JSON.stringify({ subject, type, timestamp, ...same, url: new URL(same.url).pathname })
        arrived.push({ path, id: String(request.headers["webhook-id"]), form, subject, at: performance.now() })
        response.end()
      })
    })
    yield* Effect.promise(() => once(receiver.listen(0, "127.0.0.1"), "listening"))
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        receiver.closeAllConnections()
        receiver.close()
      })
    )
    const { port } = receiver.address() as AddressInfo

    const key = (id: string) => `${id}:${randomBytes(32).toString("base64")}`
    const [k1, k2] = [key("k1"), key("k2")]
    Object.assign(process.env, {
      SERVICE_PUSH_TOKEN_KEYS: k1,
      SERVICE_CHANNEL_PRIVATE_HOSTS: host,
      NODE_OPTIONS: `--import ${pathToFileURL(join(import.meta.dirname, "../parts/Names.mjs"))}`
    })
    const first = yield* server(folder)
    const second = yield* server(folder)
    const services = yield* servicesOf(environment(folder, first.port))
    const sql = Context.get(services, SqlClient.SqlClient)
    const { project_id } = yield* Context.get(services, Projects).create("Chaos")
    for (let n = 0; n < channels; n++) {
      yield* Context.get(services, Channels).create({
        project_id,
        kind: "webhook",
        url: `http://${host}:${port}/hook/${n}`,
        secret: makeSecret(),
        titles: false
      })
    }
    const agents = yield* Effect.forEach([first, second], ({ url }) => Agent.make({ url, services }, { project_id }))
    const done = new Map<string, number>()

    /** A task becomes blocked, at either server; one that is being restarted is asked again. */
    const block = Effect.gen(function* () {
      const agent = agents[draw() < 0.5 ? 0 : 1]!
      const task = yield* agent.task("To be blocked")
      const { output, text } = yield* agent.update(task, {
        status: "blocked",
        blocked_reason: "x",
        blocked_kind: "decision"
      })
      if (output === undefined) throw new Error(text)
      done.set(task.id, performance.now())
      blocked++
    }).pipe(Effect.sandbox, Effect.retry({ times: 100 }), Effect.orDie)
    const many = (count: number) => Effect.replicateEffect(block, count, { concurrency: 4, discard: true })

    const others = (since: number) => arrived.filter(({ at, path }) => at >= since && path !== dead)
    const waitsFor = (since: number, before: number) =>
      until("the others' notifications", () => others(since).length >= (blocked - before) * (channels - 1))
    /** Milliseconds from the answer to the arrival at the others. */
    const delays = Effect.fnUntraced(function* (count: number) {
      const [since, before] = [performance.now(), blocked]
      yield* many(count)
      yield* waitsFor(since, before)
      return others(since).map(({ at, subject }) => Math.max(0, at - done.get(subject)!))
    })
    yield* delays(size(20, 2))
    const alone = yield* delays(measured)
    condition.dead = true
    const beside = yield* delays(measured)

    // A delivery waits for its next attempt, and leases of a killed server for their end: both are made due at once.
    const makeDue = Effect.all(
      [
        sql`update mobile_device set resting_until = null where resting_until is not null`,
        sql`
          update push_outbox set not_before = clock_timestamp()
           where state = 'pending' and not_before > clock_timestamp()`,
        sliced
          ? sql`update push_outbox set lease_until = clock_timestamp() where state = 'leased' and lease_until > clock_timestamp()`
          : Effect.void
      ],
      { discard: true }
    )
    const disturbing = Effect.gen(function* () {
      for (let kill = 0; kill < kills; kill++) {
        yield* Effect.sleep(`${Math.round(200 + draw() * 600)} millis`)
        yield* (draw() < 0.5 ? first : second).killAndRestart
      }
      condition.refuses = true
      yield* Effect.sleep("1 second")
      condition.refuses = false
      // Each step restarts both servers; `npm test` replaces the key in test/push/channels.test.ts.
      for (const keys of sliced ? [] : [`${k2},${k1}`, k2]) {
        process.env["SERVICE_PUSH_TOKEN_KEYS"] = keys
        for (const one of [first, second]) yield* Effect.andThen(one.stop, one.start)
        if (keys !== k2) yield* admin(folder, "rekey-push-tokens")
      }
    })
    yield* Effect.all([disturbing, many(disturbed)], { concurrency: 2, discard: true })
    condition.dead = false
    const waiting = Effect.map(
      sql<{ readonly n: number }>`
        select count(*)::int as n from push_outbox where state in ('pending', 'leased')`,
      ([row]) => row!.n
    )
    yield* awaiting(
      "an empty outbox",
      Effect.repeat(Effect.andThen(makeDue, Effect.delay(waiting, "200 millis")), { until: (n) => n === 0 })
    )

    const violations: Array<string> = []
    const forms = new Map<string, Set<string>>()
    for (const { form, id } of arrived) forms.set(id, (forms.get(id) ?? new Set()).add(form))
    if ([...forms.values()].some((of) => of.size > 1)) violations.push("a repeated notification differs from the first")
    const states = yield* sql<{ readonly state: string; readonly count: number }>`
      select state, count(*)::int as count from push_outbox group by state`
    const subjects = new Map<string, Set<string>>()
    for (const { path, subject } of arrived) subjects.set(path, (subjects.get(path) ?? new Set()).add(subject))
    for (const [path, of] of subjects) {
      const lost = [...done.keys()].filter((id) => !of.has(id)).length
      if (path !== dead && lost > 0)
        violations.push(`${lost} of ${done.size} did not come to ${path}: ${JSON.stringify(states)}`)
    }
    const p = (share: number) => [alone, beside].map((times) => Math.round(percentile(times, share) * 10) / 10)
    const [p50, p99] = [p(0.5), p(0.99)]
    // A tenth, and what two measurements of the same differ by.
    if (!sliced && p99[1]! > p99[0]! * 1.1 + 20)
      violations.push(`p99 of the others rose from ${p99[0]} to ${p99[1]} ms`)
    return {
      figures: {
        blocked,
        notifications: forms.size,
        came_twice: arrived.length - forms.size,
        kills,
        p50_ms: { alone: p50[0], beside_a_dead_one: p50[1] },
        p99_ms: { alone: p99[0], beside_a_dead_one: p99[1] }
      },
      violations
    }
  }).pipe(Effect.orDie),
  "3 minutes"
)
