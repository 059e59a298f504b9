/**
 * Opens 10,000 connections that send nothing, half a header, or a body byte by byte.
 *
 * Meanwhile honest clients are answered, on kept-alive and on new connections. Stalled connections are closed within 10 s,
 * and memory and open files return to their level.
 */
import { Effect } from "effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { Bridge } from "../../../support/bridges/Bridge.ts"
import { fileLimit, openFiles, rssMib } from "../../../support/run/Proc.ts"
import { rawLine } from "../../../support/network/RawLine.ts"
import { beside, chaos, percentile, scratch, server, size } from "../harness.ts"

/** Milliseconds; the slice shares the machine with other tests. */
const [slowest, longest] = [size(500, 30_000), size(10_500, 30_000)]

/** MiB: what the first work of a process adds to its heap, and 16 KiB for each connection. */
const grown = (connections: number) => 100 + connections / 64

/** Connections without a complete header are cut off sooner; the slice has no time for the other kinds. */
const kinds = ["silent", "half a header", "slow body", "slow chunks"].slice(0, size(4, 2)).join(",")

const slowClients = (url: string, count: number, kinds: string) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const main = join(import.meta.dirname, "../../../support/network/SlowClientsMain.ts")
      const child = spawn(process.execPath, [main, url, String(count), kinds], { stdio: ["ignore", "pipe", "inherit"] })
      const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
      const next = Effect.promise(async () => JSON.parse((await lines.next()).value ?? "{}"))
      return { child, next }
    }),
    ({ child }) =>
      Effect.promise(async () => {
        if (child.exitCode !== null || !child.kill("SIGKILL")) return
        await once(child, "exit")
      })
  )

let opened = 0

chaos(
  "connections",
  () => ({ opened }),
  Effect.gen(function* () {
    const folder = yield* scratch
    const { pid, url } = yield* server(folder)
    const token: string = yield* (yield* Bridge.make(yield* beside(folder, { url })).pipe(Effect.orDie)).enroll({ url })
    const violations: Array<string> = []
    // As many as both processes may open, minus room for their other files.
    const limit = Math.min(fileLimit(process.pid), fileLimit(pid()))
    const many = Math.min(size(10_000, 300), limit - 500)

    const asked = Buffer.from(
      `GET /bridge/v1/tokens/self HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\n\r\n`
    )
    const millis: Array<number> = []
    const ask = (line: ReturnType<typeof rawLine>) =>
      Effect.promise(async () => {
        const from = performance.now()
        const got = await line.send(asked, [false])
        millis.push(performance.now() - from)
        if (got?.[0]?.status !== 200) violations.push(`an honest client got ${got?.[0]?.status ?? "nothing"}`)
      })
    const kept = rawLine(url)
    /** Alternates between a kept-alive and a new connection until it is interrupted. */
    const honest = Effect.forever(
      Effect.gen(function* () {
        yield* ask(kept)
        const fresh = rawLine(url)
        yield* ask(fresh)
        fresh.close()
        yield* Effect.sleep("20 millis")
      })
    )
    const measured = Effect.fnUntraced(function* <A, E, R>(during: Effect.Effect<A, E, R>) {
      millis.length = 0
      const result = yield* Effect.raceFirst(during, honest)
      return [result as A, Math.round(percentile(millis, 0.99)), millis.length] as const
    })

    const [, alone] = yield* measured(Effect.sleep(size(2000, 200)))
    const [rss, files] = [rssMib(pid()), openFiles(pid())]
    let [highest, open] = [rss, files]
    const watching = Effect.forever(
      Effect.gen(function* () {
        highest = Math.max(highest, rssMib(pid()))
        open = Math.max(open, openFiles(pid()))
        yield* Effect.sleep("250 millis")
      })
    )

    const attack = Effect.gen(function* () {
      const { next } = yield* slowClients(url, many, kinds)
      opened = (yield* next).open
      return yield* next
    }).pipe(Effect.scoped)
    const [slow, p99, requests] = yield* measured(Effect.raceFirst(attack, watching))
    if (opened !== many || slow.closed !== many) violations.push(`of ${many} connections ${slow.closed} were closed`)
    if (slow.longest_ms > longest) violations.push(`a stalled connection stayed open for ${slow.longest_ms} ms`)
    if (p99 >= slowest) violations.push(`p99 of honest clients was ${p99} ms`)
    const atOnce = open - files
    if (atOnce < many / 4) violations.push(`never more than ${atOnce} of them were open at once`)
    if (highest - rss >= grown(atOnce)) violations.push(`memory grew from ${rss} to ${highest} MiB for ${atOnce}`)

    yield* Effect.sleep("1 second")
    const left = openFiles(pid()) - files
    if (left > 10) violations.push(`${left} files stayed open`)
    kept.close()

    return {
      figures: {
        file_limit: limit,
        connections: many,
        open_at_once: atOnce,
        longest_ms: slow.longest_ms,
        honest_requests: requests,
        p99_ms: p99,
        p99_alone_ms: alone,
        rss_mib: [Math.round(rss), Math.round(highest)],
        files_left: left
      },
      violations
    }
  })
)
