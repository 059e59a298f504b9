/**
 * Sends 100,000 malformed requests to every route and every tool.
 *
 * None is answered with a 5xx or an internal failure, each is answered or cut off in time, memory stays flat, and
 * afterwards the service serves and refuses as before.
 */
import { Effect } from "effect"
import * as fc from "fast-check"
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { type Attempt, attempts, unfinishedAttempt } from "../../../support/attacks/Malformed.ts"
import { cpuSeconds, rssMib } from "../../../support/run/Proc.ts"
import { rawLine } from "../../../support/network/RawLine.ts"
import { targets } from "../../../support/attacks/Targets.ts"
import { beside, chaos, freePort, scratch, seed, server, size } from "../harness.ts"

const count = size(100_000, 1500)
// The server takes seconds to give up on an unfinished request.
const never = size(300, 0)
const connections = 32
/** MiB between the middle and the end of the run. */
const growth = 64
/** Milliseconds; the server's own deadline for a request is shorter. */
const patience = size(15_000, 30_000)

let sent = 0

chaos(
  "malformed",
  () => ({ requests: sent }),
  Effect.gen(function* () {
    const folder = yield* scratch
    const metrics = yield* freePort
    const settings = {
      SERVICE_LOG_LEVEL: "Error",
      SERVICE_OAUTH_DYNAMIC_REGISTRATION: "on",
      SERVICE_APNS_TOPICS: "com.example.app",
      SERVICE_METRICS_PORT: String(metrics)
    }
    const { output, pid, url } = yield* server(folder, settings)
    const on = yield* beside(folder, { url }, settings)
    const repository = join(folder, "repository")
    mkdirSync(repository)
    const all = yield* Effect.orDie(targets(on, repository))
    const watched = { name: "GET /metrics", method: "GET", path: "/metrics", headers: {} }

    // From here on the server has nothing more to send.
    const linesBefore = output.length

    const violations: Array<string> = []
    const statuses: Record<string, number> = {}
    let closed = 0
    const violate = (sentence: string) => violations.length < 5 && violations.push(sentence)
    const judge = (
      { answers, bytes, name }: Attempt,
      got: ReadonlyArray<{ status: number; text: string }> | undefined
    ) => {
      const shown = () => `${name}: ${JSON.stringify(bytes.toString("latin1").slice(0, 700))}`
      if (got === undefined) return violate(`no answer: ${shown()}`)
      if (got.length < Math.max(1, answers.length)) closed++
      for (const { status, text } of got) {
        statuses[status] = (statuses[status] ?? 0) + 1
        if (!(status < 500) || ours.test(text)) violate(`${status} ${text.slice(0, 300)} to ${shown()}`)
      }
    }

    const drawn = (function* () {
      const any = fc.oneof(...all.map((target) => ({ weight: 4, arbitrary: attempts(target) })), {
        weight: 1,
        arbitrary: attempts(watched).map((attempt) => ({ ...attempt, metrics: true }))
      })
      for (let chunk = 0; chunk < count / 200; chunk++) {
        for (const attempt of fc.sample(any, { numRuns: 200, seed: seed * 1_000_003 + chunk })) {
          if (sent >= count) return
          yield attempt
        }
      }
    })()
    const rss: Array<number> = []
    const [from, cpu] = [performance.now(), cpuSeconds(pid())]
    const line = async () => {
      const lines = new Map<number, ReturnType<typeof rawLine>>()
      const to = (address: string, one: boolean) => {
        const known = lines.get(Number(one))
        if (!one && known?.isOpen()) return known
        const fresh = rawLine(address, patience)
        if (!one) lines.set(0, fresh)
        return fresh
      }
      for (const attempt of drawn) {
        const alone = attempt.answers.length === 0 || "metrics" in attempt
        const on = to("metrics" in attempt ? `http://127.0.0.1:${metrics}` : url, alone)
        sent += Math.max(1, attempt.answers.length)
        judge(attempt, await on.send(attempt.bytes, attempt.answers))
        if (alone) on.close()
        if (rss.length * count <= sent * 20) rss.push(rssMib(pid()))
      }
      for (const open of lines.values()) open.close()
    }
    const unfinished = async (index: number) => {
      const attempt = unfinishedAttempt(all[index % all.length]!, index)
      const on = rawLine(url, patience)
      const got = await on.send(attempt.bytes, [])
      on.close()
      judge(attempt, got)
    }
    yield* Effect.promise(() =>
      Promise.all([
        ...Array.from({ length: never }, (_, index) => unfinished(index)),
        ...Array.from({ length: connections }, line)
      ])
    )
    const seconds = (performance.now() - from) / 1000
    const cpu_us = Math.round(((cpuSeconds(pid()) - cpu) / sent) * 1e6)

    const after = rssMib(pid())
    // Node allocates what it needs at first, and no more later.
    const warm = rss[Math.floor(rss.length / 2)] ?? after
    if (after - warm > growth) violate(`memory grew from ${warm} to ${after} MiB`)
    for (const line of output.slice(linesBefore, linesBefore + 5)) violate(`logged: ${line}`)
    const health = yield* Effect.promise(() => Promise.all(["/readyz", "/docs"].map((path) => fetch(`${url}${path}`))))
    if (health.some(({ ok }) => !ok)) violate("not healthy afterwards")
    const page = yield* Effect.promise(async () => (await fetch(`http://127.0.0.1:${metrics}/metrics`)).text())
    const reached = (label: string, metric: string) =>
      new Set([...page.matchAll(new RegExp(`^${metric}\\{[^}]*\\b${label}="([^"]*)"`, "gm"))].map(([, name]) => name))
        .size

    return {
      figures: {
        requests: sent,
        per_second: Math.round(sent / seconds),
        cpu_us,
        targets: all.length + 1,
        routes: reached("route", "service_http_requests_total"),
        tools: reached("tool", "service_mcp_tool_calls_total"),
        never_finished: never,
        statuses,
        cut_off: closed,
        rss_mib: [Math.round(warm), Math.round(after)]
      },
      violations
    }
  })
)

/**
 * What an internal failure looks like in an answer whose status does not show it. The SDK calls an invalid `initialize`
 * an internal error and lists the fields.
 */
const ours =
  /\\?"error\\?":(\{\\?"code\\?":)?\\?"(internal_error|server_error|bridge_persistence_error|temporarily_unavailable)|-32603,"message":"(?!\[)/
