/** What commands show people: the columns of lists, what is said of what there is not, and the command that comes next. */
import { assert, it } from "@effect/vitest"
import { Effect, Option } from "effect"
import { join } from "node:path"
import { answering, noting, temporary, typed, uuid } from "../../support/service/Typed.ts"

/** The last line, as it is typed: without the way to call the program. */
const nextIn = (shown: string) => /^Next: .*?(?:service-admin|bridge --) (.*)$/.exec(shown.split("\n").at(-1)!)?.[1]

const project = `--project ${uuid}`
const of = `--project=${uuid}`
const token = `create-project-token ${project} --role contributor --out FILE`

interface List {
  /** The service and its method. */
  readonly asks: readonly [service: string, method: string]
  readonly given?: string
  readonly columns: string
  readonly none: string
  /** The next command after no item, and after one whose fields are called like their columns. */
  readonly next: readonly [afterNone: string, afterOne: string]
}
const lists: Readonly<Record<string, List>> = {
  "list-account-references": {
    asks: ["projects", "listReferences"],
    given: of,
    columns: "reference label approved_at withdrawn_at",
    none: "The project has no account references.",
    next: [
      `approve-account-reference ${project} --reference REFERENCE`,
      `approve-account-reference ${project} --reference REFERENCE`
    ]
  },
  "list-audit-events": {
    asks: ["audit", "list"],
    columns: "at action outcome code count actor subject",
    none: "There are no audit events.",
    next: ["verify-audit-log", "verify-audit-log"]
  },
  "list-bridge-enrollment-credentials": {
    asks: ["credentials", "list"],
    given: of,
    columns: "credential_id status expires_at claimed_bridge_id reenroll_bridge_id account_references",
    none: "The project has no bootstrap credentials.",
    next: [
      `create-bridge-enrollment-credential ${project} --account-reference REFERENCE --out FILE`,
      "revoke-bridge-enrollment-credential --credential ID"
    ]
  },
  "list-bridges": {
    asks: ["bridges", "list"],
    given: of,
    columns: "bridge_id status enrolled_at token_expires_at key_since access_role revoked_at device_id display_name",
    none: "The project has no Bridges.",
    next: [
      `create-bridge-enrollment-credential ${project} --account-reference REFERENCE --out FILE`,
      `show-bridge ${project} --bridge bridge_id`
    ]
  },
  "list-channels": {
    asks: ["channels", "list"],
    given: of,
    columns: "channel_id kind host titles state last_state last_status last_reason resting_until created_at",
    none: "The project has no channels.",
    next: [`create-channel ${project} --kind ntfy --url URL`, "test-channel --channel channel_id"]
  },
  "list-console-sessions": {
    asks: ["sessions", "list"],
    columns: "session_id actor project_id created_at last_used_at expires_at user_agent",
    none: "Nobody is signed in to the console.",
    next: ["open-console", "end-console-session --session ID"]
  },
  "list-devices": {
    asks: ["devices", "list"],
    given: of,
    columns: "device_id state state_reason environment topic token_key_id created_at last_seen_at",
    none: "The project has no devices.",
    next: ["create-oauth-client --name NAME --redirect-uri URI --scope mobile:devices", "revoke-device --device ID"]
  },
  "list-documents": {
    asks: ["documents", "list"],
    given: of,
    columns: "document_id repository commit path title size_bytes bootstrap pinned_at",
    none: "The project has no pinned documents.",
    next: [
      `pin-document ${project} --repository DIR --label NAME --commit HASH --path FILE`,
      "unpin-document --document ID"
    ]
  },
  "list-memory": {
    asks: ["contents", "entries"],
    given: of,
    columns: "id created_at kind active tags title",
    none: "The project has no memory entries.",
    next: [token, `archive-memory ${project} --entry ID`]
  },
  "list-oauth-clients": {
    asks: ["oauthClients", "list"],
    columns: "client_id kind name redirect_uris live_grants disabled_at",
    none: "There are no OAuth clients.",
    next: ["create-oauth-client --name NAME --redirect-uri URI", "disable-oauth-client --client ID"]
  },
  "list-oauth-grants": {
    asks: ["oauthGrants", "list"],
    given: of,
    columns: "grant_id status client_name label scopes project_token_id expires_at last_used_at end_reason",
    none: "The project has no OAuth grants.",
    next: [token, "revoke-oauth-grant --grant ID"]
  },
  "list-operator-tokens": {
    asks: ["operatorTokens", "list"],
    columns: "token_id label status scopes created_at expires_at last_used_at",
    none: "There are no operator tokens.",
    next: [
      "create-operator-token --label NAME --scope operator:read --out FILE",
      "revoke-operator-token --operator-token ID"
    ]
  },
  "list-person-keys": {
    asks: ["personKeys", "list"],
    columns: "person_key_id label status project_id project_token_id created_at last_used_at",
    none: "Nobody has a passkey.",
    next: ["list-console-sessions", "remove-person-key --key ID"]
  },
  "list-project-tokens": {
    asks: ["projectTokens", "list"],
    given: of,
    columns: "token_id label status role scopes expires_at last_used_at live_grants",
    none: "The project has no project tokens.",
    next: [token, "revoke-project-token --token ID"]
  },
  "list-projects": {
    asks: ["projects", "list"],
    columns: "project_id created_at disabled_at name",
    none: "There are no projects.",
    next: ["init", "show-project --project project_id"]
  },
  "list-push-dead-letters": {
    asks: ["pushAdmin", "listDead"],
    columns: "delivery_id device_id kind attempts last_status last_reason settled_at expires_at",
    none: "There are no dead letters.",
    next: ["push-status", "retry-push-dead-letters"]
  },
  "list-tasks": {
    asks: ["contents", "tasks"],
    given: of,
    columns: "id updated_at status priority assignee tags title",
    none: "The project has no tasks.",
    next: [token, `show-task ${project} --task id`]
  }
}

/** An item whose fields are called like their columns. */
const item = new Proxy({}, { get: (_, column) => String(column) })

it.effect.each(Object.entries(lists))(
  "%s has its columns, says that there is nothing, and what comes next",
  ([name, list]) =>
    Effect.gen(function* () {
      const [service, method] = list.asks
      const shownWith = Effect.fnUntraced(function* (items: ReadonlyArray<object>) {
        const services = answering({ [service]: { [method]: () => Effect.succeed(items) } })
        return (yield* typed(services, name, ...(list.given === undefined ? [] : [list.given]))).shown
      })
      const empty = yield* shownWith([])
      assert.deepStrictEqual([empty.split("\n")[0], nextIn(empty)], [list.none, list.next[0]])
      const one = yield* shownWith([item])
      const rows = one.split("\n").map((line) => line.split(/ +/).join(" "))
      assert.deepStrictEqual(rows.slice(0, -1), [list.columns, list.columns])
      assert.strictEqual(nextIn(one), list.next[1])
    })
)

const bridge = `${of} --bridge=workshop`
const thatBridge = `show-bridge ${project} --bridge workshop`
const at = new Date(0)
const tested = "list-channels --project ID"
const found = { project_id: uuid, table: "task", id: "1", field: "body", kind: "JWT" }
const key = { public_key: "B".repeat(20), subscriptions: 3, token_key_id: "k1", usable: true, replaced_at: null }
const queue = {
  current_key: "k2",
  deliveries: { pending: 1 },
  due_since: null,
  pauses: [],
  token_keys: {},
  web_push_keys: []
}
const pause = { environment: "web", failures: 2, paused_until: at, reason: "Busy" }
const deletion = { project_id: uuid, delete_after: at, deleted_at: null }
const overview = {
  at,
  backups: null,
  limits: [],
  numbers: { database_bytes: 1_572_864, dead_letters: 0, grants_replayed_elsewhere: 0, projects: 0 },
  pauses: [],
  processes: [],
  refused: []
}
const remains = /^Its text can remain for a while/m

type Answers = Readonly<Record<string, Readonly<Record<string, unknown>>>>
/** What a command is answered, what it says, and the next command with the reason for it. */
const said: ReadonlyArray<readonly [command: string, answers: Answers, says: ReadonlyArray<RegExp>, next: string]> = [
  [
    `approve-account-reference ${of} --reference=github:octo`,
    { projects: { approveReference: { label: null } } },
    [/^reference +github:octo$/m],
    `create-bridge-enrollment-credential ${project} --account-reference github:octo --out FILE`
  ],
  [
    `withdraw-account-reference ${of} --reference=github:octo --yes`,
    { projects: { withdrawReference: [uuid] } },
    [new RegExp(`^revoked_credentials +${uuid}$`, "m")],
    `list-bridges ${project}   # enrolled Bridges stay enrolled`
  ],
  [
    `show-bridge ${bridge}`,
    { bridges: { show: { bridge_id: "workshop", tokens: [] } } },
    [/^The Bridge has no tokens yet\.$/m],
    "revoke-bridge --project ID --bridge workshop   # at once and permanently"
  ],
  [`revoke-bridge ${bridge} --yes`, { bridges: { revoke: { revoked_at: at } } }, [/^revoked_at +1970/m], thatBridge],
  [
    `lift-bridge-dpop ${bridge}`,
    { bridges: { liftDpop: { was_required: true } } },
    [/^was_required +true$/m],
    thatBridge
  ],
  [
    `require-key-rotation ${bridge}`,
    { bridges: { requireKeyRotation: { required_since: at } } },
    [/^required_since +1970/m],
    `${thatBridge}   # shows key_since`
  ],
  [
    `grant-bridge-access ${bridge} --role=reader`,
    { bridges: { grantAccess: { role: "reader", granted_at: at } } },
    [/^role +reader$/m, /^granted_at +1970/m],
    "token --mcp-header   # on the machine of the Bridge: prints a header for /mcp"
  ],
  [
    `withdraw-bridge-access ${bridge} --yes`,
    { bridges: { withdrawAccess: { was_granted: false } } },
    [/^was_granted +false$/m],
    thatBridge
  ],
  [`test-channel --channel=${uuid}`, { channels: { test: { outcome: "refused" } } }, [/^outcome +refused$/m], tested],
  [
    `test-channel --channel=${uuid}`,
    { channels: { test: { outcome: "waiting" } } },
    [/^outcome +waiting$/m],
    `${tested}   # shows whether the channel rests, and until when`
  ],
  [
    `rotate-channel-secret --channel=${uuid}`,
    { channels: { rotate: { channel_id: uuid, signs: 2 } } },
    [/^signs +2$/m],
    `rotate-channel-secret --channel ${uuid}   # once the receiver has the new secret`
  ],
  [
    `rotate-channel-secret --channel=${uuid}`,
    { channels: { rotate: { channel_id: uuid, signs: 1 } } },
    [/^signs +1$/m],
    `test-channel --channel ${uuid}`
  ],
  [
    `revoke-channel --channel=${uuid} --yes`,
    { channels: { revoke: { revoked_at: at } } },
    [/^revoked_at +1970/m],
    tested
  ],
  [
    `revoke-bridge-enrollment-credential --credential=${uuid} --yes`,
    { credentials: { revoke: { revoked_at: at } } },
    [/^revoked_at +1970/m],
    "list-bridge-enrollment-credentials --project ID"
  ],
  [
    `revoke-device --device=${uuid} --yes`,
    { devices: { end: { revoked_at: at } } },
    [/^revoked_at +1970/m],
    "list-devices --project ID"
  ],
  [
    `unpin-document --document=${uuid}`,
    { documents: { unpin: { project_id: uuid } } },
    [/^status +unpinned$/m],
    "list-documents --project ID"
  ],
  [
    "verify-backup",
    { backups: { verify: { outcome: "restored" } } },
    [/^The backup was restored into a scratch database\.$/m],
    "status   # how old the last good backup is"
  ],
  [
    "verify-backup",
    { backups: { verify: { outcome: "read" } } },
    [/^The backup is whole and its signature is valid, but it was not restored\.$/m],
    "status   # how old the last good backup is"
  ],
  [
    "disable-oauth-client --client=https://agent.example/client.json --yes",
    { oauthClients: { disable: { disabled_at: at, grant_ids: [uuid] } } },
    [new RegExp(`^grant_ids +${uuid}$`, "m")],
    "list-oauth-clients"
  ],
  [
    `revoke-oauth-grant --grant=${uuid} --yes`,
    { oauthGrants: { revoke: { project_id: uuid, revoked_at: at } } },
    [/^revoked_at +1970/m],
    `list-oauth-grants ${project}`
  ],
  [
    "create-operator-token --label=Ada --scope=operator:read --out=OUT",
    { operatorTokens: { issue: { token_id: uuid, label: "Ada" } } },
    [/^label +Ada$/m, /^file +\S+\/secret$/m],
    "set-profile --name NAME --url https://bridges.example --token-file FILE   # on the machine of its holder, who keeps the file"
  ],
  [
    `revoke-operator-token --operator-token=${uuid} --yes`,
    { operatorTokens: { revoke: { revoked_at: at } } },
    [/^revoked_at +1970/m],
    "list-operator-tokens"
  ],
  [
    `remove-person-key --key=${uuid} --yes`,
    { personKeys: { remove: undefined } },
    [new RegExp(`^person_key_id +${uuid}$`, "m")],
    "list-person-keys"
  ],
  [
    `create-project-token ${of} --role=reader --out=OUT`,
    { projectTokens: { issue: { project_id: uuid, role: "reader" } } },
    [/^role +reader$/m, /^file +\S+\/secret$/m],
    `list-project-tokens ${project}`
  ],
  [
    `revoke-project-token --token=${uuid} --yes`,
    { projectTokens: { revoke: { project_id: uuid, revoked_at: at } } },
    [/^revoked_at +1970/m],
    `list-project-tokens ${project}`
  ],
  [
    "create-project --name=Shop",
    { projects: { create: { project_id: uuid, name: "Shop" } } },
    [/^name +Shop$/m],
    `approve-account-reference ${project} --reference REFERENCE`
  ],
  [
    `show-project ${of}`,
    { contents: { project: { project_id: uuid, tasks: 2 } } },
    [/^tasks +2$/m],
    `list-tasks ${project}`
  ],
  [
    `disable-project ${of}`,
    { projects: { disable: { project_id: uuid, disabled_at: at } } },
    [/^disabled_at +1970/m],
    `enable-project ${project}   # undoes it`
  ],
  [
    `enable-project ${of}`,
    { projects: { enable: { project_id: uuid, disabled_at: null } } },
    [/^disabled_at +-$/m],
    `list-bridges ${project}`
  ],
  [
    "scan-project",
    { scan: { scan: { found: [], more: false, rows: 5, ok: true } } },
    [/^rows +5$/m, /^No secret is stored\.$/m],
    "list-audit-events"
  ],
  [
    "scan-project",
    { scan: { scan: { found: [found], more: true, rows: 5, ok: false } } },
    [/^project_id +table +id +field +kind$/m, /^There may be more: the scan ended here\.$/m],
    "list-audit-events   # replace each secret where it is used; see emergencies.md"
  ],
  ["retry-push-dead-letters", { pushAdmin: { retryDead: 4 } }, [/^retried +4$/m], "push-status"],
  [
    "rekey-push-tokens",
    { pushAdmin: { rekey: { resealed: 1, unreadable: 0, token_keys: { k1: 2 } } } },
    [/^resealed +1$/m, /^token_keys +k1: 2$/m],
    "push-status   # remove the old key once it seals no tokens"
  ],
  [
    "rotate-web-push-key",
    { pushAdmin: { rotateWebPushKey: { public_key: "BC" } } },
    [/^public_key +BC$/m],
    "push-status   # shows how many browsers still use which key"
  ],
  [
    "push-status",
    { pushAdmin: { status: { ...queue, pauses: [pause], token_keys: { k1: 2 }, web_push_keys: [key] } } },
    [
      /^pending +1$/m,
      /^web +paused until 1970-01-01T00:00:00\.000Z: Busy, 2 in a row$/m,
      /^token_keys +k1: 2$/m,
      /^current_key +k2$/m,
      /^web_push_keys +B{12}… current, made from k1, browsers: 3$/m
    ],
    "list-devices --project ID"
  ],
  [
    "push-status",
    {
      pushAdmin: {
        status: { ...queue, deliveries: { dead: 1 }, web_push_keys: [{ ...key, replaced_at: at, usable: false }] }
      }
    },
    [/^dead +1$/m, /^web_push_keys +B{12}… replaced, made from k1 \(not configured\), browsers: 3$/m],
    "list-push-dead-letters"
  ],
  [
    `end-console-session --session=${uuid}`,
    { sessions: { end: undefined } },
    [new RegExp(`^session_id +${uuid}$`, "m")],
    "list-console-sessions"
  ],
  [
    `archive-memory ${of} --entry=${uuid}`,
    { memory: { archive: { active: false, id: uuid, kind: "note", title: "T" } } },
    [/^kind +note$/m, /^active +false$/m],
    `list-audit-events ${project}`
  ],
  [
    `show-task ${of} --task=${uuid}`,
    { tasks: { get: { dependencies: [], notes: [], receipts: [], task: { status: "open" } } } },
    [
      /^status +open$/m,
      /^The task waits for no other task\.\n\nThe task has no receipts\.\n\nThe task has no notes\.$/m
    ],
    "list-tasks --project ID"
  ],
  [
    `show-project-limits ${of}`,
    { limits: { list: [{ limit: "tasks", value: 1, maximum: 2, default: 3 }] } },
    [/^limit +value +maximum +default\ntasks +1 +2 +3$/m],
    "set-project-limits --project ID --entries N"
  ],
  [
    `set-project-limits ${of} --tasks=2`,
    { limits: { set: [{ limit: "tasks", value: 1, maximum: 2, default: 3 }] } },
    [/^tasks +1 +2 +3$/m],
    "show-project-limits --project ID"
  ],
  [
    `delete-project ${of} --yes`,
    { erasures: { deleteProject: deletion } },
    [/^delete_after +1970/m, /^deleted_at +-$/m],
    `enable-project ${project}   # undoes it until then`
  ],
  [
    `delete-project ${of} --yes --now`,
    { erasures: { deleteProject: { ...deletion, delete_after: null, deleted_at: at } } },
    [/^deleted_at +1970/m, remains],
    `list-audit-events ${project}`
  ],
  [
    `purge-task ${of} --task=${uuid} --yes`,
    { erasures: { purge: { project_id: uuid } } },
    [remains],
    `list-audit-events ${project}`
  ],
  [
    `erase-subject ${of} --label=Ada --yes`,
    { erasures: { eraseSubject: { project_id: uuid, tokens: [{ token_id: uuid, pseudonym: "erased-1" }] } } },
    [/^token_id +pseudonym$/m, new RegExp(`^${uuid} +erased-1$`, "m"), /^What the person wrote stays; /m],
    `list-project-tokens ${project}`
  ],
  [
    "verify-audit-log",
    { verification: { verify: { broken: [], heads: 0, ok: true, rows: 7 } } },
    [/^rows +7$/m, /^Every row is as it was written\.$/m],
    "list-audit-events"
  ],
  [
    "verify-audit-log",
    {
      verification: {
        verify: { broken: [{ scope: "service", problem: "changed", seq: 3, at, event_id: "e" }], ok: false, rows: 7 }
      }
    },
    [/^scope +problem +seq +at +event_id$/m, /^service +changed +3 +1970\S+ +e$/m],
    "list-audit-events   # what happened, as far as the rows still tell; see emergencies.md"
  ],
  [
    "maintain-audit-log",
    { partitions: { maintain: { created: 2, postponed: false } } },
    [/^created +2$/m, /^postponed +false$/m],
    "verify-audit-log"
  ],
  [
    "maintain-audit-log",
    { partitions: { maintain: { created: 0, postponed: true } } },
    [/^postponed +true$/m],
    "maintain-audit-log   # what is left, once nobody locks the audit log; a backup does"
  ],
  [
    `create-bridge-enrollment-credential ${of} --account-reference=github:octo --out=OUT`,
    { credentials: { issue: [{ credential_id: uuid, project_id: uuid, expires_at: at }] } },
    [/^credential_id +project_id +expires_at +file$/m, new RegExp(`^${uuid} +${uuid} +1970\\S+ +\\S+/secret$`, "m")],
    `list-bridges ${project}   # once the Bridge has enrolled with the file`
  ],
  [
    "init --name=Shop --dir=OUT",
    { contents: { projectsNamed: [] }, projects: { create: { project_id: uuid } } },
    [
      /^reference +local:me$/m,
      /^The credential is good for one Bridge within a day, the token for 90 days\.$/m,
      new RegExp(` enroll --base-url https://bridges\\.example ${project} --bridge-id first-bridge --credential-file `),
      / connect claude-code --url https:\/\/bridges\.example --token-env TOKEN$/m
    ],
    "open-console   # see what they do"
  ],
  [
    "init --name=Shop --dir=OUT",
    { contents: { projectsNamed: [{ id: uuid, name: "Shop" }] } },
    [/^Made now: credential, token\. What was there is kept; /m],
    "open-console   # see what they do"
  ],
  [
    `import-project ${of} --in=OUT`,
    { transfer: { load: { memory: 2 } } },
    [/^memory +2$/m],
    `list-audit-events ${project}`
  ],
  [
    `import-memory ${of} --from=markdown --dry-run FOLDER`,
    { transfer: { bring: { counts: { added: 0 }, lines: [] } } },
    [/^added +0$/m, /^The source is empty\.$/m],
    "import-memory without --dry-run"
  ],
  [
    `import-memory ${of} --from=markdown FOLDER`,
    { transfer: { bring: { counts: { added: 1 }, lines: [{ done: "added" }, { done: "unchanged" }] } } },
    [/^added +1$/m, /^Nothing was superseded, updated, archived, kept or skipped\.$/m],
    `list-memory ${project}`
  ],
  [
    "status",
    { overview: { take: overview } },
    [
      /^projects +0$/m,
      /^database +1\.5 MiB$/m,
      /^The service makes no backups: SERVICE_BACKUP_DIR is not set\.$/m,
      /^No push environment is paused\.$/m,
      /^No project has used half of a limit\.$/m,
      /^No known caller was refused in the last 24 hours\.$/m
    ],
    "create-project --name NAME"
  ],
  [
    "status",
    {
      overview: {
        take: {
          ...overview,
          numbers: { ...overview.numbers, projects: 1 },
          backups: {
            every_seconds: 60,
            good: 3,
            not_good: 1,
            last_good_at: at,
            last_restored_at: null,
            problem: "Full."
          }
        }
      }
    },
    [
      /^last_good_backup +1970\S+$/m,
      /^last_restored_backup +none$/m,
      /^backups +3 good, 1 not good, one every 60 s$/m,
      /^Full\.$/m
    ],
    "list-bridges --project ID"
  ]
]

/** Members of services that are effects themselves. */
const effects = ["maintain", "rekey", "retryDead", "status", "take"]
/** What is not told is answered as everywhere. */
const others = noting([]) as unknown as Readonly<Record<string, object>>

const answered = Effect.fnUntraced(function* (command: string, answers: Answers) {
  const services = Object.entries(answers).map(([service, methods]) => {
    const told = Object.entries(methods).map(([method, answer]) => [
      method,
      effects.includes(method) ? Effect.succeed(answer) : () => Effect.succeed(answer)
    ])
    return [service, Object.assign(Object.create(others[service]!), Object.fromEntries(told))]
  })
  const folder = yield* temporary
  const args = command.replace("OUT", join(folder, "secret")).replace("FOLDER", folder).split(" ")
  return yield* typed(answering(Object.fromEntries(services)), ...args)
})

it.effect.each(said)("%s, answered %j, says so and names what comes next", ([command, answers, says, next]) =>
  Effect.gen(function* () {
    const { shown } = yield* answered(command, answers)
    for (const line of says) assert.match(shown, line)
    assert.strictEqual(nextIn(shown), next)
  })
)

it.effect.each([
  [[], "The schema is up to date."],
  [["0001_projects.sql", "0002_bridges.sql"], "Ran 0001_projects.sql\nRan 0002_bridges.sql"]
] as const)("migrate that ran %j says so", ([migrated, says]) =>
  Effect.gen(function* () {
    const { shown } = yield* typed(answering({ migrated }), "migrate")
    assert.strictEqual(shown.split("\n").slice(0, -1).join("\n"), says)
    assert.strictEqual(nextIn(shown), "doctor")
  })
)

const credential = `create-bridge-enrollment-credential ${of} --account-reference=github:octo`
const refused: ReadonlyArray<readonly [command: string, answers: Answers, why: string]> = [
  [credential, {}, "Pass --out FILE, or --count N with --out-dir DIR."],
  [`${credential} --out=OUT --count=2`, {}, "Pass --out FILE, or --count N with --out-dir DIR."],
  [
    `${credential} --out-dir=OUT --count=2 --reenroll=workshop`,
    {},
    "--reenroll creates one credential: pass --out FILE."
  ],
  [`set-project-limits ${of}`, {}, "Name at least one of --stored-bytes, --entries, --tasks, "],
  [
    `purge-task ${of} --task=${uuid}`,
    {},
    "Nothing brings back what is erased. Repeat the command with --yes, or first with --dry-run."
  ],
  [
    `erase-subject ${of} --label=Ada`,
    {},
    "Nothing brings back what is erased. Repeat the command with --yes, or first with --dry-run."
  ],
  [
    `revoke-bridge ${bridge} --dry-run`,
    { losses: { bridge: Option.none() } },
    "Nothing fits these flags: the command would change nothing."
  ],
  [
    `delete-project ${of} --name=Store --now`,
    { projects: { find: { name: "Shop" } } },
    "The project has another name; see list-projects. Nothing was deleted."
  ],
  [
    "init --name=Shop --dir=OUT",
    { contents: { projectsNamed: [1, 2].map((id) => ({ id, name: "Shop" })) } },
    "More than one project has this name: pass another --name."
  ],
  [
    "verify-audit-log --heads=OUT",
    { verification: { verify: { broken: [], expired_heads: 0, heads: 0, ok: true, rows: 7 } } },
    "The file of --heads holds no head of these chains."
  ]
]
it.effect.each(refused)("%s, answered %j, is refused: %s", ([command, answers, sentence]) =>
  Effect.gen(function* () {
    const { shown, why } = yield* answered(command, answers)
    assert.include(why, sentence)
    assert.notInclude(shown, "Next:")
  })
)
