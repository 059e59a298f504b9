/**
 * Everything at once: a hostile project, consoles, phones and channels whose receivers fail, searches by meaning, questions
 * and answers, sign-ins, imports, erasures and backups, on two replicas of two processes over the cluster of deploy/ha, whose
 * primary fails every ten minutes; in between a worker is killed, and all workers of a replica are replaced.
 *
 * Nothing acknowledged is lost and nothing revoked works; every answer is a success, or explained by a fault; the last third
 * is as fast as the second and third sixth; memory and open files are level; each ring came once, or is dead for a documented reason; each
 * backup can be restored; nothing of an erased project is left; no secret was logged; the sweeps empty what has ended.
 *
 *     npm run chaos soak                                          an hour
 *     npm run chaos soak -- --minutes 6 --failover-every 2        to try it: times and memory are not judged
 */
import { Cause, Context, Effect, Fiber, Option, References, Schedule } from "effect"
import { randomBytes } from "node:crypto"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { Limits } from "../../../../src/operator/limits/Limits.ts"
import { search, utf8 } from "../../../support/secrets/Canaries.ts"
import { makeProject } from "../../../support/bridges/Bridge.ts"
import { openFiles, rssMib, workersOf } from "../../../support/run/Proc.ts"
import { read, rows } from "../../../support/run/Markdown.ts"
import { chaos, ledger, scratch, until } from "../harness.ts"
import { agedAndSwept, countRows } from "../parts/Aged.ts"
import { newcomers, notifying, refreshing, rotatingFolders } from "../parts/Callers.ts"
import { makeLoad } from "../parts/Load.ts"
import { drained } from "../parts/Outbox.ts"
import { makeDoomed } from "../parts/soak/Doomed.ts"
import { type Ground, makeGround } from "../parts/soak/Ground.ts"
import * as Judge from "../parts/soak/Judge.ts"
import { makeBells, makeLibrary } from "../parts/soak/Library.ts"
import { report } from "../parts/soak/Report.ts"
import { makeTrials } from "../parts/soak/Trials.ts"
import { makeWeather } from "../parts/soak/Weather.ts"
import { makeAttacker } from "../parts/tenants/Attacker.ts"
import { means } from "../parts/tenants/Hostile.ts"

const { values } = parseArgs({
  options: { minutes: { type: "string", default: "60" }, "failover-every": { type: "string", default: "10" } }
})
const [minutes, every] = [Number(values.minutes), Number(values["failover-every"])]
if (!(minutes >= 1 && every >= 1)) {
  process.stderr.write("--minutes and --failover-every take a number of minutes, 1 or more.\n")
  process.exit(64)
}
const aMinute = 60_000
/** A shorter run is a try: the caches still fill, and each sixth has other faults. */
const isWhole = minutes >= 30

/** The address whose X-Forwarded-For counts. */
const proxy = "127.0.9.9"
/** The rows that are counted after each sixth. */
const counted = [
  "audit_event",
  "bridge_dpop_proof",
  "bridge_rotation",
  "console_session",
  "embedding_queue",
  "idempotency_record",
  "oauth_access_token",
  "oauth_request",
  "push_outbox"
]
/** What the sweeps empty, besides what Aged.ts names. */
const emptied = ["bridge_dpop_proof", "console_link", "console_session", "mobile_registration", "push_outbox"]

const documented = new Set(
  rows(read("docs/protocol.md"))
    .flatMap(({ Code = "", Error = "" }) => [Code, Error])
    .filter((code) => code !== "")
)

/** A primary is away for half a minute. */
const inAFailover = { schedule: Schedule.spaced("2 seconds"), times: 60 }

const seen = { minutes: 0, requests: 0, faults: 0 }
let failures = (): ReadonlyArray<string> => []

const soak = Effect.gen(function* () {
  const folder = yield* scratch
  const backupFolder = join(folder, "backups")
  const weather = yield* makeWeather(folder)
  const keys = {
    SERVICE_BACKUP_KEY: randomBytes(24).toString("hex"),
    SERVICE_PUSH_LOOKUP_KEY: randomBytes(24).toString("hex")
  }
  const ground = yield* makeGround(folder, (replica) => ({
    ...weather.settings,
    ...keys,
    SERVICE_PROCESSES: "2",
    SERVICE_LOG_LEVEL: "Info",
    SERVICE_RATE_LIMITS: "on",
    SERVICE_TRUSTED_PROXIES: `${proxy}/32`,
    SERVICE_BACKUP_DIR: backupFolder,
    SERVICE_BACKUP_EVERY_SECONDS: `${Math.max(60, Math.round(minutes * 5))}`,
    SERVICE_BACKUP_KEEP: "3",
    SERVICE_ERASURE_FILE: join(folder, `erasures-${replica}.jsonl`),
    // A used refresh token must still be answered after a failover.
    SERVICE_OAUTH_REFRESH_GRACE_SECONDS: "60"
  }))
  const { on, replicas, windows } = ground
  const { sql } = on

  const journal = yield* ledger(folder)
  const [project_id, library] = [yield* makeProject(on), yield* makeProject(on)]
  // A Bridge may rotate sixty times an hour, and a project may notify six times a minute, half of them by one token.
  const size = { bridges: 8, agents: 2, project_id, pace: { bridges: 75_000, agents: 4000, repeat: 1000 } }
  const load = yield* makeLoad({ ...on, url: replicas.proxied.url }, journal, { ...size, label: "a" })
  const other = yield* makeLoad({ ...on, url: replicas.named.url }, journal, { ...size, label: "b" })
  const given = { on, load, project_id }
  const reading = yield* makeLibrary({ on, load, project_id: library })
  const bells = yield* makeBells({ on, project_id }, weather)
  const libraryBells = yield* makeBells({ on, project_id: library }, weather)
  const most = minutes * 20 + 100
  const enrolling = yield* newcomers({ ...given, rest: 3000, most, replicas: Object.values(replicas) })
  const renewing = yield* refreshing({ ...given, rest: 25_000 })
  const ringing = yield* notifying({ ...given, rest: 20_000 })
  const bridges = yield* rotatingFolders({ ...given, rest: 75_000, count: 4, folder })
  const doomed = makeDoomed({ ...ground, load, source: library, weather, rest: 60_000 })
  const callers = [reading, enrolling, renewing, ringing, bridges, doomed]
  const trials = makeTrials(ground, backupFolder)
  const attacker = yield* makeAttacker(
    { ...on, url: replicas.proxied.url },
    { entries: 300, tasks: 500, proxy, pause: 20_000 }
  )
  // Reached within minutes. Otherwise each backup, and its trial, would take longer than the one before.
  yield* Context.get(on.services, Limits).set(attacker.project_id, { stored_bytes: 32 * 2 ** 20 })
  failures = () => [
    ...ground.violations,
    ...load.violations,
    ...other.violations,
    ...[reading, enrolling, bridges, doomed].flatMap(({ violations }) => violations)
  ]

  const from = performance.now()
  const elapsed = () => (performance.now() - from) / aMinute
  const writing = (since: number) =>
    until("writes at both replicas", () =>
      [load, other].every(({ acknowledgedAt }) => (acknowledgedAt.at(-1) ?? 0) > since)
    )
  const at = (minute: number) => Effect.suspend(() => Effect.sleep(Math.max(0, minute - elapsed()) * aMinute))
  /** In each period: a worker is killed, the primary fails, all workers of a replica are replaced. */
  const failing = Effect.gen(function* () {
    for (let period = 0; (period + 0.9) * every < minutes; period++) {
      yield* Effect.andThen(at((period + 0.15) * every), ground.killWorker)
      yield* Effect.andThen(at((period + 0.35) * every), ground.failover(writing))
      yield* enrolling.probeRevoked
      yield* Effect.andThen(at((period + 0.8) * every), ground.rollOver)
      seen.faults = windows.length
    }
  })
  const looks: Array<Judge.Look> = []
  const sizes: Array<Readonly<Record<string, number>>> = []
  const watching = Effect.gen(function* () {
    for (let minute = 1; minute <= minutes; minute++) {
      yield* at(minute)
      looks.push(...lookAt(ground, minute))
      if (minute % (minutes / Judge.parts) < 1 && sizes.length < Judge.parts)
        sizes.push(yield* Effect.retry(Effect.sandbox(countRows(on, counted)), inAFailover))
      Object.assign(seen, { minutes: minute, requests: load.exchanges.length + other.exchanges.length })
      process.stderr.write(`minute ${minute}: ${JSON.stringify({ ...seen, violations: failures().length })}\n`)
    }
  })

  yield* attacker.play(Object.keys(means))
  const beside = yield* Effect.forkScoped(
    Effect.all([weather.changing((every * aMinute) / 5), trials.trying], { concurrency: 2 })
  )
  const work = Effect.all([failing, watching, at(minutes)], { concurrency: 3, discard: true })
  yield* other.during(load.during(work, callers.flatMap(({ turns }) => turns).map(Effect.orDie)))
  const to = performance.now()
  const exchanges = [...load.exchanges, ...other.exchanges]
  const times = Judge.timesOf(exchanges, { from, to }, windows)
  const memory = Judge.growths(looks, minutes)
  process.stderr.write(`\n${report({ times, memory, windows, rows: sizes })}\n\n`)
  const hostile = yield* attacker.rest

  yield* Fiber.interrupt(beside)
  yield* weather.fair
  const ends = {
    "the first load": load.settled(sql),
    "the second load": other.settled(sql),
    newcomers: enrolling.settled,
    Bridges: bridges.settled,
    "erased projects": doomed.settled,
    "the outbox": drained(sql),
    backups: trials.settled
  }
  // One judge that fails must not cost the verdict of the others.
  const unjudged: Array<string> = []
  const judging = <A>(what: string, judge: Effect.Effect<A, unknown>) =>
    Effect.catchCause(Effect.asSome(judge), (cause) => {
      unjudged.push(`not judged: ${what}, because ${Cause.pretty(cause)}`)
      return Effect.succeedNone
    })
  for (const [what, settled] of Object.entries(ends)) yield* judging(what, settled)
  const interruptions = [...windows, ...weather.interrupted()]
  const rung = (subjects: ReadonlySet<string>, devices: ReadonlyArray<string>) =>
    Effect.map(
      sql<Judge.Ring>`
        select delivery_id::text, device_id::text, reference::text as subject, state, attempts, last_status,
               exists (select from push_outbox n
                        where n.device_id = o.device_id
                          and n.collapse_key = o.collapse_key
                          and n.created_at > o.created_at) as replaced
          from push_outbox o
         where kind = 'task.needs_decision'
           and device_id = any (${devices}::uuid[])
           and reference = any (${[...subjects]}::uuid[])`,
      (rings) => ({ rings, wrong: Judge.amiss(subjects, devices, rings, weather.accepted(), interruptions) })
    )
  const rings = [yield* rung(ringing.blocked, bells.devices), yield* rung(reading.asked, libraryBells.devices)]
  const logged = Object.fromEntries(
    Object.entries(replicas).map(([name, { output }]) => [name, utf8(output.join("\n"))])
  )
  const secrets = [
    ...Object.values(keys),
    ...weather.secrets,
    ...[reading, enrolling, renewing, ringing, doomed].flatMap((caller) => caller.secrets()),
    ...bells.secrets,
    ...libraryBells.secrets,
    ...attacker.tokens,
    ...[...load.fleet, ...other.fleet].map(({ token }) => token)
  ]
  const leaked = search(logged, Object.fromEntries(secrets.map((secret, n) => [`secret ${n}`, utf8(secret)])))
  yield* Effect.all([replicas.proxied.stop, replicas.named.stop], { concurrency: 2 })
  const aged = yield* judging("tables", agedAndSwept(on, emptied))

  const figures = {
    minutes,
    database: ground.by,
    requests: exchanges.length,
    ...load.counts(),
    ...reading.figures(),
    ...doomed.figures(),
    ...trials.figures(),
    texts_embedded: weather.embedded(),
    rings: rings.flatMap(({ rings }) => rings).length,
    rings_dead: rings.flatMap(({ rings }) => rings).filter(({ state }) => state === "dead").length,
    calls_judged: bridges.calls(),
    faults: windows.map(({ from, to, why }) => [why, Math.round(to - from)]),
    outcomes: addUp([load.outcomes(), other.outcomes()]),
    hostile: addUp(Object.values(hostile.outcomes)),
    secrets_looked_for: secrets.length,
    judged: { times: isWhole, memory: isWhole }
  }
  // By the clock of the machine. A page has no code.
  const attacks = hostile.failed.map(({ at, means: kind, outcome }) => ({
    kind: `hostile ${kind}`,
    at: at - performance.timeOrigin,
    millis: 0,
    outcome: outcome === "503" ? "503 bridge_persistence_error" : outcome
  }))
  return {
    figures,
    violations: [
      ...failures(),
      ...unjudged,
      ...Judge.unexplained([...exchanges, ...attacks], windows, documented),
      ...Judge.undocumented(Object.values(hostile.outcomes).flatMap(Object.keys), documented).map(
        (outcome) => `the hostile project was answered ${outcome}, which is not documented`
      ),
      ...rings.flatMap(({ wrong }) => wrong),
      ...trials.violations(),
      ...Option.match(aged, { onNone: () => [], onSome: ({ violations }) => violations }),
      ...leaked.map((where) => `logged: ${where}`),
      ...(reading.figures().searches_by_meaning === 0 ? ["no search went by meaning"] : []),
      ...(isWhole ? [...Judge.slowed(times), ...Judge.grown(memory)] : [])
    ]
  }
})

/** The parent and the workers of each replica. */
const lookAt = ({ replicas }: Ground, minute: number) =>
  Object.entries(replicas).flatMap(([name, { pid }]) =>
    [
      { process: `${name}, parent`, pid: pid() },
      ...workersOf(pid()).map(({ number, pid }) => ({ process: `${name}, worker ${number}`, pid }))
    ].flatMap((one): ReadonlyArray<Judge.Look> => {
      try {
        return [{ ...one, minute, mib: rssMib(one.pid), files: openFiles(one.pid) }]
      } catch {
        // It ended just now.
        return []
      }
    })
  )

const addUp = (counts: ReadonlyArray<Readonly<Record<string, number>>>) => {
  const sums: Record<string, number> = {}
  for (const [name, count] of counts.flatMap(Object.entries)) sums[name] = (sums[name] ?? 0) + count
  return sums
}

chaos(
  "soak",
  () => ({ ...seen, seen_until_then: failures() }),
  // Stdout is for the figures.
  Effect.provideService(soak, References.MinimumLogLevel, "Error"),
  `${minutes + 15} minutes`
)
