/**
 * What commands ask of the services. No option is ignored: without it, something else is asked. Numbers are refused where
 * they say. What a command shows and how it ends follows from the answer.
 */
import { assert, it } from "@effect/vitest"
import { Duration, Effect, Option, Redacted } from "effect"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { pathFlags } from "../../../cli/support/Flags.ts"
import { HeldServices } from "../../../cli/support/services/HeldServices.ts"
import { withWholeIds } from "../../../cli/support/wholeIds.ts"
import { format } from "../../../src/platform/crypto/Tokens.ts"
import { recording } from "../../support/run/Lines.ts"
import { read, rows } from "../../support/run/Markdown.ts"
import { answering, noting, temporary, typed, uuid } from "../../support/service/Typed.ts"

const client = Redacted.value(format("sci", Buffer.alloc(32)))

/** A value for each option; true for a switch. */
const values: Readonly<Record<string, string | true>> = {
  "account-reference": "github:octo",
  action: "bridge.revoked",
  after: uuid,
  "application-type": "web",
  bootstrap: true,
  bridge: "workshop",
  channel: uuid,
  client: "https://agent.example/client.json",
  commit: "c".repeat(40),
  credential: uuid,
  device: uuid,
  document: uuid,
  embeddings: "off",
  entry: uuid,
  format: "markdown",
  from: "markdown",
  grant: uuid,
  id: uuid,
  key: uuid,
  kind: "webhook",
  label: "Ada",
  limit: "2",
  "memory-days": "30",
  name: "Shop",
  "no-console": true,
  now: true,
  "operator-token": uuid,
  project: uuid,
  "receipt-days": "30",
  "redirect-uri": "https://agent.example/callback",
  reenroll: "workshop",
  reference: "github:octo",
  "replace-newest": true,
  role: "reader",
  scope: "memory:read",
  session: uuid,
  since: "2026-01-01T00:00:00Z",
  task: uuid,
  title: "Guide",
  titles: true,
  token: uuid,
  ttl: "2h",
  url: "https://hooks.example/in",
  yes: true
}
const ofCommand: Readonly<Record<string, Readonly<Record<string, string | true>>>> = {
  "create-oauth-client": { id: client },
  "create-operator-token": { scope: "operator:read" },
  "list-account-references": { after: "github:octo" },
  "list-bridge-enrollment-credentials": { state: "unused" },
  "list-bridges": { after: "workshop", state: "pending" },
  "list-oauth-clients": { after: "https://agent.example/client.json" },
  "list-tasks": { state: "done" }
}

/** They work without services, or with services of their own, and are tested by themselves. */
const others = ["doctor", "restore-database", "set-profile", "list-profiles", "remove-profile"]
/** Options that matter on a terminal, or that an operator elsewhere sends. */
const elsewhere = ["yes", "dry-run", "watch", "minted"]
/** What destroys must be confirmed. */
const confirmed = ["set-project-limits", "purge-memory", "purge-task", "purge-document", "erase-subject"]
/** Of options that exclude each other, those that are left out. */
const leftOut: Readonly<Record<string, ReadonlyArray<string>>> = {
  "create-bridge-enrollment-credential": ["count", "out-dir"],
  "create-channel": ["secret-file"]
}

const documented = rows(read("docs/reference.md"))
  .filter((row) => "--json" in row && !others.includes(row["Command"]!))
  .map(({ Command: name = "", Flags = "" }) => ({
    name,
    given: [...Flags.matchAll(/--([a-z-]+)/g)]
      .map(([, flag]) => flag!)
      .filter((flag) => (flag === "yes" && confirmed.includes(name)) || !elsewhere.includes(flag))
      .filter((flag) => !leftOut[name]?.includes(flag))
  }))
  .filter(({ given }) => given.length > 0)

/** Everything that a command asks for, and how it ends. */
const observed = Effect.fnUntraced(function* (name: string, flags: ReadonlyArray<string>) {
  const folder = yield* temporary
  writeFileSync(join(folder, "note.md"), "# Note\n")
  const asked: Array<unknown> = []
  const args = flags.flatMap((flag) => {
    const value = pathFlags.has(flag) ? join(folder, flag) : (ofCommand[name]?.[flag] ?? values[flag] ?? "5")
    return value === true ? [`--${flag}`] : [`--${flag}=${value}`]
  })
  const more = name === "import-memory" ? [folder] : []
  const { failed } = yield* typed(noting(asked), name, ...args, ...more, "--json")
  // Ids that the command makes differ from run to run.
  return JSON.stringify([asked, failed])
    .replaceAll(folder, "")
    .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}|sci_\w{49}/g, (id) =>
      [uuid, client].includes(id) ? id : "made"
    )
}, Effect.scoped)

it.effect.each(documented)("no option of $name is ignored", ({ given, name }) =>
  Effect.gen(function* () {
    const all = yield* observed(name, given)
    assert.match(all, /^\[\[[^\]]/, "the command has asked for something")
    assert.strictEqual(yield* observed(name, given), all)
    for (const flag of given.filter((flag) => !pathFlags.has(flag))) {
      const without = given.filter((other) => other !== flag)
      assert.notStrictEqual(yield* observed(name, without), all, `--${flag}`)
    }
  })
)

const minted = (end: string) => `--minted=00000000-0000-7000-8000-0000000000${end}:${"0".repeat(64)}`
const limits = `set-project-limits --project=${uuid} --yes`
const credential = `create-bridge-enrollment-credential --project=${uuid} --account-reference=github:octo`
const operatorToken = "create-operator-token --label=Ada --scope=operator:read --out=OUT"
const edges: ReadonlyArray<readonly [command: string, accepted: string, refused: string]> = [
  ["list-projects", "--limit=1000", "--limit=1001"],
  ["list-audit-events", "--limit=10000", "--limit=10001"],
  [limits, "--memory-days=7", "--memory-days=6"],
  [limits, "--receipt-days=36500", "--receipt-days=36501"],
  [limits, "--entries=999999999999999", "--entries=1000000000000000"],
  [limits, "--tasks=1", "--tasks=0"],
  ["list-audit-events", "--since=24h", "--since=24"],
  ["list-audit-events", `--action=${"a".repeat(60)}.b`, `--action=${"a".repeat(61)}.b`],
  [operatorToken, "--ttl=30d", "--ttl=2592001s"],
  [`${credential} --out=OUT`, "--ttl=3650d", "--ttl=3651d"],
  [`${credential} --out=OUT`, "--ttl=1s", "--ttl=0s"],
  [`${credential} --reenroll=workshop ${minted("aa")}`, "--json", minted("bb")]
]
it.effect.each(edges)("%s goes with %s, not with %s", ([command, accepted, refused]) =>
  Effect.gen(function* () {
    const out = join(yield* temporary, "secret")
    const askedWith = Effect.fnUntraced(function* (flag: string) {
      const asked: Array<unknown> = []
      const { failed } = yield* typed(noting(asked), ...command.replace("OUT", out).split(" "), flag)
      return { asked: asked.length > 0, failed: failed !== "" }
    })
    assert.deepStrictEqual(yield* askedWith(accepted), { asked: true, failed: false })
    assert.deepStrictEqual(yield* askedWith(refused), { asked: false, failed: true })
  })
)

const ofToken = `create-project-token --project=${uuid} --role=reader --out=OUT`
const ofClient = "create-oauth-client --name=Shop --redirect-uri=https://agent.example/callback"
const defaults: ReadonlyArray<readonly [command: string, asked: string, expected: object]> = [
  [
    ofToken,
    "projectTokens.issue",
    { label: undefined, scopes: [], ttl: Option.some(Duration.days(90)), opens_console: true }
  ],
  [`${credential} --out=OUT`, "credentials.issue", { ttl: Duration.hours(1), reenroll_bridge_id: undefined }],
  [`${credential} --out=OUT --ttl=45s`, "credentials.issue", { ttl: Duration.seconds(45) }],
  [`${credential} --out=OUT --ttl=90m`, "credentials.issue", { ttl: Duration.minutes(90) }],
  [`${credential} --out=OUT --ttl=2d`, "credentials.issue", { ttl: Duration.days(2) }],
  [`${ofToken} --ttl=never --no-console`, "projectTokens.issue", { ttl: Option.none(), opens_console: false }],
  [operatorToken, "operatorTokens.issue", { scopes: ["operator:read"], ttl: Duration.days(7) }],
  [ofClient, "oauthClients.create", { application_type: undefined, scopes: [] }],
  ["list-projects", "projects.list", { after: undefined, limit: 101 }]
]
/** What a command gives to a method of the services. */
const givenTo = Effect.fnUntraced(function* (method: string, ...args: ReadonlyArray<string>) {
  const asked: Array<unknown> = []
  yield* typed(noting(asked), ...args)
  const calls = asked as ReadonlyArray<readonly [string, ReadonlyArray<object>]>
  return calls.find(([name]) => name === method)![1]
})

it.effect.each(defaults)("%s asks %s with the defaults", ([command, method, expected]) =>
  Effect.gen(function* () {
    const out = join(yield* temporary, "secret")
    const [given] = yield* givenTo(method, ...command.replace("OUT", out).split(" "))
    assert.deepInclude(given, expected)
  })
)

it.effect.each([
  ["--embeddings=on", { embeddings: null }],
  ["--embeddings=off", { embeddings: 0 }],
  ["--entries=default", { entries: null }],
  ["--stored-bytes=5", { stored_bytes: 5 }],
  ["--receipt-days=default", { receipt_days: null }],
  ["--memory-days=7", { memory_days: 7 }]
] as const)("set-project-limits %s sets %j", ([flag, expected]) =>
  Effect.gen(function* () {
    const [project, given] = yield* givenTo("limits.set", ...limits.split(" "), flag)
    assert.deepStrictEqual([project, given], [uuid, expected])
  })
)

it.effect.each([
  ["59s", true],
  ["60s", false],
  ["7d", false],
  ["604801s", true]
] as const)("create-bridge-enrollment-credential warns of an unusual lifetime: %s %s", ([ttl, warns]) =>
  Effect.gen(function* () {
    const out = join(yield* temporary, "secret")
    const { lines, record } = recording()
    yield* record(typed(noting([]), ...`${credential} --out=${out} --ttl=${ttl}`.split(" ")))
    assert.strictEqual(lines.join().includes("usually live between 1m and 7d"), warns)
  })
)

const channelOf = (kind: string) => `create-channel --project=${uuid} --kind=${kind} --url=https://ntfy.example/topic`
const whsec = (bytes: number) => `whsec_${Buffer.alloc(bytes).toString("base64")}`
it.effect.each([
  ["ntfy", "x".repeat(200), "x".repeat(201)],
  ["ntfy", "tk_word", "two words"],
  ["webhook", whsec(24), whsec(23)],
  ["webhook", whsec(64), whsec(65)]
] as const)("create-channel takes the secret of %s from a file: %s, not %s", ([kind, accepted, refused]) =>
  Effect.gen(function* () {
    const file = join(yield* temporary, "secret")
    const args = [...channelOf(kind).split(" "), `--secret-file=${file}`]
    writeFileSync(file, `${accepted}\n`)
    const [order] = yield* givenTo("channels.create", ...args)
    const { secret } = order as { readonly secret: Redacted.Redacted<string> }
    assert.strictEqual(Redacted.value(secret), accepted)
    writeFileSync(file, `${refused}\n`)
    const asked: Array<unknown> = []
    const { failed } = yield* typed(noting(asked), ...args)
    assert.include(failed, "FileError")
    assert.deepStrictEqual(asked, [])
  })
)

it.effect.each([["--kind=webhook"], ["--kind=webhook --out=OUT --secret-file=IN"], ["--kind=ntfy --out=OUT"]] as const)(
  "create-channel asks nothing with %s",
  ([flags]) =>
    Effect.gen(function* () {
      const folder = yield* temporary
      const [file, out] = ["secret", "out"].map((name) => join(folder, name))
      writeFileSync(file!, whsec(24))
      const asked: Array<unknown> = []
      const given = flags.replace("IN", file!).replace("OUT", out!)
      const command = `create-channel --project=${uuid} --url=https://ntfy.example/topic ${given}`
      const { failed } = yield* typed(noting(asked), ...command.split(" "))
      assert.notStrictEqual(failed, "")
      assert.deepStrictEqual(asked, [])
    })
)

it.effect("the beginning of an id that fits many things is refused with the first five", () =>
  Effect.gen(function* () {
    const refusedWith = (count: number) => {
      const found = Array.from({ length: count }, (_, at) => ({ id: `id-${at + 1}`, name: at === 1 ? "Shop" : null }))
      const contents = { projectsNamed: () => Effect.succeed(found) }
      return Effect.flip(withWholeIds({ project: "shop" })).pipe(
        Effect.provideService(HeldServices, answering({ contents })),
        Effect.map(({ message }) => message)
      )
    }
    const five = '"shop" fits more than one project; give more of the id: id-1, id-2 (Shop), id-3, id-4, id-5'
    assert.strictEqual(yield* refusedWith(5), five)
    assert.strictEqual(yield* refusedWith(6), `${five}, ...`)
  })
)

it.effect("verify-audit-log accepts kept heads that are all older than the log", () =>
  Effect.gen(function* () {
    const report = { ok: true, rows: 1, heads: 0, expired_heads: 1, broken: [] }
    const verification = { verify: () => Effect.succeed(report) }
    const { failed } = yield* typed(answering({ verification }), "verify-audit-log", "--heads=heads.jsonl")
    assert.strictEqual(failed, "")
  })
)

it.effect.each([
  ["accepted", ""],
  ["waiting", "NotOk"],
  ["refused", "NotOk"]
] as const)("test-channel ends well only if the channel has accepted: %s", ([outcome, ending]) =>
  Effect.gen(function* () {
    const channels = { test: () => Effect.succeed({ channel_id: uuid, outcome }) }
    const { failed } = yield* typed(answering({ channels }), "test-channel", `--channel=${uuid}`)
    assert.include(failed, ending)
    assert.strictEqual(failed === "", ending === "")
  })
)

const pause = { environment: "production", paused_until: new Date(0), reason: "x", failures: 1 }
const full = { project_id: uuid, limit: "entries", value: 9, maximum: 10 }
const refusal = { last_at: new Date(0), action: "a.b", code: "c", times: 1 }
it.effect.each([
  ["push-status", { pauses: [pause], limits: [full], refused: [refusal] }, { dead_letters: 1 }],
  [`show-project-limits --project ${uuid}`, { limits: [full], refused: [refusal] }, { dead_letters: 1 }],
  ["list-push-dead-letters", { refused: [refusal] }, { dead_letters: 1, projects: 0 }],
  ["list-audit-events", { refused: [refusal] }, { projects: 0 }],
  ["list-audit-events", {}, { grants_replayed_elsewhere: 1 }],
  ["create-project --name NAME", {}, { projects: 0 }],
  ["list-bridges --project ID", {}, {}]
] as const)("status leads to %s, after %j and %j", ([command, given, counts]) =>
  Effect.gen(function* () {
    const numbers = { database_bytes: 1_572_864, dead_letters: 0, grants_replayed_elsewhere: 0, projects: 1, ...counts }
    const nothing = { backups: null, limits: [], pauses: [], processes: [], refused: [] }
    const take = Effect.succeed({ at: new Date(0), numbers, ...nothing, ...given })
    const { shown } = yield* typed(answering({ overview: { take } }), "status")
    assert.isTrue(shown.endsWith(` ${command}`), shown)
    assert.match(shown, /^database +1\.5 MiB$/m)
    assert.include(shown, "SERVICE_BACKUP_DIR is not set")
  })
)

it.effect("init makes a project beside one whose id begins like its name", () =>
  Effect.gen(function* () {
    const contents = { projectsNamed: () => Effect.succeed([{ id: uuid, name: "Other" }]) }
    const { shown } = yield* typed(
      answering({ contents }),
      "init",
      "--name=0000",
      `--dir=${yield* temporary}`,
      "--json"
    )
    assert.deepStrictEqual(JSON.parse(shown).made, ["project", "credential", "token"])
  })
)
