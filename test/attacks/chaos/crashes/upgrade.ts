/**
 * Upgrades two replicas of an earlier release to this one, on the earlier one's embedded database, under load.
 *
 *     npm run chaos upgrade          npm run chaos upgrade -- --from v0.1.0
 *
 * 1. The earlier release, checked out from the history, is filled by its own demo. Callers leave things unfinished there
 *    (parts/upgrade/Unfinished.ts); it writes a backup and an export.
 * 2. One replica is replaced: this release migrates while the other replica serves. Both serve behind one address, callers
 *    go from one to the other and back, and the earlier release is started once more, as after a step back.
 * 3. The other replica is killed while it sends notifications, and replaced.
 * 4. Everything that was left at the earlier release is gone on with, here and in the restored backup.
 *
 * 5. All stop, and this release starts again: with that the embedded database changes over, too.
 *
 * Every mutation that was acknowledged is there once; a call succeeds, or gets 503 or no answer and succeeds when it is
 * repeated.
 */
import { Effect, Option } from "effect"
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { authorizeQuery, Browser, refresh } from "../../../support/agents/Agent.ts"
import { tokens } from "../../../support/bridges/Tokens.ts"
import { type ApnsSimulator, apnsSimulator, settingsFor } from "../../../support/phones/ApnsSimulator.ts"
import {
  admin,
  awaiting,
  balancer,
  beside,
  bridge,
  chaos,
  ChaosError,
  environment,
  freePort,
  ledger,
  scratch,
  server
} from "../harness.ts"
import { loadOf } from "../parts/Load.ts"
import { checkOut, hasCommit, type Release } from "../parts/upgrade/Release.ts"
import {
  type At,
  connect,
  expecting,
  leaveAll,
  newBridge,
  person,
  type Project,
  registeredPhone,
  unfinished,
  usedRefresh,
  write
} from "../parts/upgrade/Unfinished.ts"

/** It has no tag. */
const firstEdition = "c7b25c8"
/** The release before this one: both may serve at once (docs/run.md, Upgrade). */
const before = firstEdition
const { values } = parseArgs({ options: { from: { type: "string", default: before } } })

const bridges = 6
const agents = 3
const credentials = 50

/** Seconds from the start to the end of each step. */
const steps: Record<string, number> = {}
const violations: Array<string> = []
const reached = (step: string) => Effect.sync(() => void (steps[step] = Math.round(performance.now() / 100) / 10))

const upgrade = Effect.gen(function* () {
  const folder = yield* scratch
  const expect = expecting(violations, "the upgrade")
  const release = yield* checkOut(values.from, join(folder, "release"))
  yield* reached("checked out")

  // Each release has an APNs of its own, which tells who sent a notification.
  const [apnsBefore, apnsNow] = [yield* apnsSimulator(), yield* apnsSimulator()]
  const port = yield* freePort
  const url = `http://127.0.0.1:${port}`
  const settingsOf = (name: string, apns: ApnsSimulator) => {
    mkdirSync(join(folder, name))
    return { SERVICE_BASE_URL: url, ...settingsFor(apns, join(folder, name)) }
  }
  const settings = settingsOf("apns-now", apnsNow)
  const replica = server(folder, settingsOf("apns-before", apnsBefore), release.folder)
  const [first, second] = [yield* replica, yield* replica]
  const ports = [first.port, second.port]
  yield* balancer(ports, port)
  const replace = (index: number) =>
    Effect.tap(server(folder, settings), (replica) => Effect.sync(() => void (ports[index] = replica.port)))

  const env = environment(folder, port)
  yield* release.program("scripts/demo.ts", ["--base-url", url], env)
  yield* reached("filled by its demo")

  const earlierAdmin = (...args: ReadonlyArray<string>) =>
    Effect.map(release.program("cli/service-admin.mjs", [...args, "--json"], env), (text) => JSON.parse(text))
  const makeProject = Effect.fnUntraced(function* (name: string) {
    const { project_id } = yield* earlierAdmin("create-project", "--name", name)
    const of = ["--project", project_id]
    yield* earlierAdmin("approve-account-reference", ...of, "--reference", "github:octo")
    const [token, out] = [join(folder, `${name}.token`), join(folder, `${name}.credentials`)]
    const issued = ["--account-reference", "github:octo", "--count", String(credentials), "--out-dir", out]
    yield* earlierAdmin("create-bridge-enrollment-credential", ...of, ...issued)
    yield* earlierAdmin("create-project-token", ...of, "--role", "contributor", "--out", token)
    const client = ["--name", name, "--redirect-uri", "http://127.0.0.1/callback"]
    const { client_id } = yield* earlierAdmin("create-oauth-client", ...client)
    const app = ["--application-type", "native", "--scope", "mobile:devices"]
    const { client_id: app_id } = yield* earlierAdmin("create-oauth-client", ...client, ...app)
    const secret = (file: string) => readFileSync(file, "utf8").trim()
    const files = readdirSync(out).map((file) => join(out, file))
    return { project_id, token: secret(token), client_id, app_id, credentials: files.map(secret) }
  })
  const [left, busy] = [yield* makeProject("left"), yield* makeProject("busy")]
  const [kept, taken] = [yield* enrolled(release, env, left, "kept"), yield* enrolled(release, env, left, "taken")]
  yield* reached("given projects")

  const fleet = yield* Effect.forEach(Array.from({ length: bridges }), () =>
    Effect.flatMap(newBridge(busy), (one) => Effect.map(one.enroll({ url }), (token) => ({ bridge: one, token })))
  )
  const writers = yield* Effect.forEach(Array.from({ length: agents }), () => connect({ url }, busy))
  const { project_id } = busy
  const load = yield* loadOf({ url }, yield* ledger(folder), { project_id, fleet, agents: writers, label: "" })

  const elsewhere = yield* scratch
  const backup = join(elsewhere, "backup")
  const dump = join(folder, "export")
  const replacing = Effect.gen(function* () {
    yield* Effect.sleep("2 seconds")
    const goOn = yield* leaveAll(unfinished, first, left, violations)
    yield* earlierAdmin("backup-database", "--out", backup)
    mkdirSync(join(elsewhere, "data"), { mode: 0o700 })
    copyFileSync(join(folder, "data/secrets.env"), join(elsewhere, "data/secrets.env"))
    const exported = yield* earlierAdmin("export-project", "--project", left.project_id, "--out", dump)
    yield* reached("left")

    expect("the exit code of the first replica", (yield* first.stop).code, 0)
    const third = yield* replace(0)
    yield* reached("beside each other")
    yield* meet(second, third, left)
    yield* reached("gone back and forth")
    yield* second.stop
    yield* second.start
    const late = yield* leaveAll(unfinished, second, left, violations)
    const rung = yield* ring(second, left, apnsBefore)
    yield* second.kill
    ports[1] = third.port
    const fourth = yield* replace(1)
    yield* reached("replaced")
    yield* goOn({ url }, "left before the upgrade")
    yield* late({ url }, "left by the killed replica")
    yield* Effect.sleep("2 seconds")
    return { goOn, exported, rung, replicas: [third, fourth] }
  })
  const { exported, goOn, replicas, rung } = yield* load.during(replacing)
  yield* Effect.scoped(Effect.flatMap(beside(folder, { url }), ({ sql }) => load.settled(sql)))
  violations.push(...load.violations)
  yield* reached("settled")

  const imported = yield* admin(folder, "create-project", "--name", "Imported")
  const counts = yield* admin(folder, "import-project", "--project", imported.project_id, "--in", dump)
  const rows = ({ memory, receipt, task }: typeof counts) => ({ memory, receipt, task })
  expect("the rows that were imported", rows(counts), rows(exported))

  yield* release.program("cli/bridge.mjs", ["rotate", "--state", kept], env)
  const program = yield* bridge(taken)
  yield* program.rotate
  yield* program.status
  yield* reached("used by both programs of a Bridge")

  const lines = [...first.output, ...second.output].filter((line) => /"level":"(ERROR|FATAL)"/.test(line))
  const notifications = yield* arrived(rung, apnsBefore, apnsNow)
  const { ok } = yield* admin(folder, "verify-audit-log")
  expect("the audit log", ok, true)
  yield* reached("notified")

  yield* admin(elsewhere, "restore-database", "--in", backup, "--accept-unsigned", "--without-erasures")
  const restored = yield* server(elsewhere, { SERVICE_BASE_URL: url })
  yield* goOn(restored, "left in the backup")
  yield* reached("restored")

  for (const { stop } of replicas) yield* stop
  yield* replicas[0]!.start
  expect("a token after a new start", (yield* tokens({ url }).self(fleet[0]!.token)).status, 200)
  yield* reached("started again")

  return {
    figures: {
      from: values.from,
      installed: release.installed,
      steps,
      requests: load.exchanges.length,
      outcomes: load.outcomes(),
      slowest_ms: Math.round(Math.max(...load.exchanges.map(({ millis }) => millis))),
      longest_gap_ms: Math.round(Math.max(...gaps(load.acknowledgedAt))),
      ...load.counts(),
      notifications,
      imported: rows(counts),
      errors_logged_by_the_earlier_release: lines.length
    },
    violations
  }
})

const gaps = (times: ReadonlyArray<number>) => times.slice(1).map((time, index) => time - times[index]!)

/** A Bridge's folder, made by the program of the earlier release. */
const enrolled = Effect.fnUntraced(function* (
  { folder, program }: Release,
  env: NodeJS.ProcessEnv,
  { credentials, project_id }: Project,
  name: string
) {
  const [state, credential] = [join(folder, name), join(folder, `${name}.credential`)]
  writeFileSync(credential, credentials.pop()!, { mode: 0o600 })
  const of = ["--project", project_id, "--bridge-id", name, "--base-url", env["SERVICE_BASE_URL"]!]
  yield* program("cli/bridge.mjs", ["enroll", "--state", state, "--credential-file", credential, ...of], env)
  return state
})

/** What begins at one release is gone on with at the other. */
const meet = Effect.fnUntraced(function* (earlier: At, now: At, project: Project) {
  const all = { ...unfinished, "a used refresh token": usedRefresh }
  const forth = yield* leaveAll(all, earlier, project, violations)
  yield* forth(now, "begun at the earlier release")
  const back = yield* leaveAll(backTo(values.from), now, project, violations)
  yield* back(earlier, "begun at this release")
  if (values.from === firstEdition) yield* limits(earlier, now, project)
})

const backTo = (release: string) =>
  release === firstEdition
    ? Object.fromEntries(Object.entries(unfinished).filter(([name]) => !name.includes("consent page")))
    : unfinished

/** What docs/run.md, Upgrade, says of the way back to 0.1.0: each gets a clear answer. */
const limits = Effect.fnUntraced(function* (first: At, now: At, project: Project) {
  const expect = expecting(violations, "back at 0.1.0")
  const { client_id } = project
  const browser = new Browser(now.url)
  const begun = yield* browser.get(`/authorize?${authorizeQuery({ client_id })}`)
  const page = yield* new Browser(first.url, browser.cookies).get(begun.headers.get("location") ?? "")
  expect("a consent page", page.status, 503)

  const { refresh_token } = yield* person(now, project)
  yield* refresh(now, { client_id, refresh_token })
  const again = yield* refresh(first, { client_id, refresh_token })
  const next = yield* refresh(now, { client_id, refresh_token: again.body.refresh_token })
  expect("a repeated refresh, and the next one", [again.status, next.body.error], [200, "invalid_grant"])
})

/**
 * Two phones are notified of a task. When this returns, the service at `at` has sent both notifications and knows of
 * neither that it arrived: APNs has taken only the second.
 */
const ring = Effect.fnUntraced(function* (at: At, project: Project, apns: ApnsSimulator) {
  const phones = [yield* registeredPhone(at, project), yield* registeredPhone(at, project)]
  const [lost, unanswered] = phones.map(({ phone }) => phone.token) as [string, string]
  yield* Effect.sleep("2 seconds")
  apns.faults.set(lost, "hang")
  apns.answersAfter = 60_000
  const agent = yield* connect(at, project)
  // Another replica may be faster.
  for (let tries = 0; tries < 5; tries++) {
    const sent = apns.requests
    const { output } = yield* write(agent, "task_create", { title: "Choose a colour" })
    const { id, version } = output.task
    const change = { id, expected_version: version, status: "blocked", blocked_kind: "decision" }
    yield* write(agent, "task_update", change)
    const isWaiting = () => apns.requests >= sent + 2 && about(apns, unanswered, id).length > 0
    const both = Effect.repeat(Effect.sleep("20 millis"), { until: isWaiting })
    const isSent = yield* Effect.timeoutOption(both, "3 seconds")
    if (Option.isSome(isSent)) return { id: id as string, lost, unanswered }
  }
  return yield* new ChaosError({ message: "The earlier release sends no notification of a blocked task." })
})

/** What the phone got about the task. */
const about = ({ received }: ApnsSimulator, phone: string, task: string) =>
  received.filter(({ payload, token }) => token === phone && JSON.parse(payload).r === task)

/** The first notification arrives once, the second twice and the same. */
const arrived = Effect.fnUntraced(function* (
  { id, lost, unanswered }: Effect.Success<ReturnType<typeof ring>>,
  earlier: ApnsSimulator,
  now: ApnsSimulator
) {
  const both = Effect.repeat(Effect.sleep("100 millis"), {
    until: () => [lost, unanswered].every((phone) => about(now, phone, id).length > 0)
  })
  yield* Effect.ignore(awaiting("the notifications", Effect.timeout(both, "60 seconds")))
  const of = (phone: string) => [...about(earlier, phone, id), ...about(now, phone, id)]
  const expect = expecting(violations, "the notifications of the killed replica")
  expect("without an answer of APNs", of(lost).length, 1)
  expect("taken by APNs", of(unanswered).length, 2)
  const forms = of(unanswered).map(
    ({ collapse_id, delivery_id, payload }) => `${delivery_id} ${collapse_id} ${payload}`
  )
  expect("the second time", forms[1], forms[0])
  return { once: of(lost).length, twice: of(unanswered).length / 2 }
})

if (await Effect.runPromise(hasCommit(values.from)))
  chaos("upgrade", () => ({ steps, seen: violations }), upgrade, "4 minutes")
else {
  const skipped = `This clone has no commit ${values.from}: git fetch --unshallow`
  process.stdout.write(`${JSON.stringify({ chaos: "upgrade", skipped, violations: [] })}\n`)
}
