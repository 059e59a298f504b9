/**
 * What an operator does in the console: a command's action, by the command's service (decisions.md, The operator's actions).
 *
 * A button opens a sentence that says what will happen, with the command that does the same, and the button that does it.
 * What mints a secret, imports or reads a local folder stays a command: the pages show it (spec 1.5).
 */
import { Effect, Option, Result, Schema } from "effect"
import { Documents } from "../../agents/documents/Documents.ts"
import { Credentials } from "../../bridges/enrollment/Credentials.ts"
import { Bridges } from "../../bridges/identity/Bridges.ts"
import { type LimitName, limitNames } from "../../operator/limits/LimitNames.ts"
import { Limits } from "../../operator/limits/Limits.ts"
import { Projects } from "../../operator/projects/Projects.ts"
import { shellWord } from "../../operator/ShellWord.ts"
import { uuid, uuidFor } from "../../platform/crypto/Random.ts"
import { noSecret } from "../../platform/secrets/Secrets.ts"
import { html, type Part } from "../../platform/html/Html.ts"
import { CurrentOperator } from "../../platform/settings/Operator.ts"
import { PushAdmin } from "../../push/admin/PushAdmin.ts"
import { ProjectTokens } from "../../signin/access/ProjectTokens.ts"
import { Clients } from "../../signin/oauth/clients/Clients.ts"
import { Grants } from "../../signin/oauth/grants/Grants.ts"
import { PersonKeys } from "../../signin/passkeys/PersonKeys.ts"
import { type Session, Sessions } from "../../signin/sessions/Sessions.ts"
import type { SharedRefusal } from "../../wire/Errors.ts"
import { BridgeId, Uuid } from "../../wire/Ids.ts"
import { storedText, text } from "../../wire/Text.ts"
import { Channels } from "../channels/Channels.ts"
import { Devices } from "../mobile/Devices.ts"
import { command } from "./Parts.ts"
import { NotHere } from "./View.ts"

/** Each action by its command: what its button says, and what the page says once it is done. */
const actions = {
  "revoke-bridge": ["Revoke", "The Bridge is revoked."],
  "revoke-bridge-enrollment-credential": ["Revoke", "The credential is revoked."],
  "approve-account-reference": ["Approve", "The account reference is approved."],
  "withdraw-account-reference": [
    "Withdraw",
    "The account reference is withdrawn, and the unused credentials that carry it are revoked."
  ],
  "revoke-project-token": ["Revoke", "The token is revoked, and every sign-in made with it."],
  "revoke-oauth-grant": ["End", "The sign-in has ended."],
  "disable-oauth-client": ["Disable", "The client is disabled, and its sign-ins have ended."],
  "revoke-device": ["End", "The phone gets no more notifications."],
  "test-channel": ["Test", "A test was sent. The channel says below what came of it."],
  "revoke-channel": ["End", "The channel has ended."],
  "unpin-document": ["Unpin", "The document is unpinned."],
  "retry-push-dead-letters": ["Retry all", "The notifications that can still be sent are queued again."],
  "create-project": ["Create", "The project is created."],
  "disable-project": ["Disable", "The project is disabled."],
  "enable-project": ["Enable", "The project is enabled."],
  "set-project-limits": ["Set limits", "The limits are set."],
  "end-console-session": ["Sign out", "The browser is signed out."],
  "remove-person-key": ["Remove", "The passkey is removed."]
} as const satisfies Readonly<Record<string, readonly [label: string, done: string]>>
export type ActionName = keyof typeof actions
export const actionNames = Object.keys(actions) as ReadonlyArray<ActionName>

const isAction = (name: string): name is ActionName => Object.hasOwn(actions, name)

/** What the page says after an action; nothing for any other name. */
export const doneSentence = (name: string | null): string | undefined =>
  name !== null && isAction(name) ? actions[name][1] : undefined

/** The button of an action, for operators only. `fields` are the command's flags; `of` names what it is about. */
export const act = (
  { csrf, token }: Session,
  action: ActionName,
  fields: Readonly<Record<string, string>>,
  of: string,
  says: Part
): Part => {
  if (token !== undefined) return undefined
  const [label] = actions[action]
  const flags = Object.entries(fields).map(([name, value]) => ` --${name} ${shellWord(value)}`)
  return html`<details class="act">
    <summary>${label} …<span class="hidden"> ${of}</span></summary>
    <form method="post">
      <input type="hidden" name="csrf" value="${csrf}" />
      ${Object.entries(fields).map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`)}
      <p>${says}</p>
      <p class="small">${command(`service-admin ${action}${flags.join("")}`)}</p>
      <button class="${harmless.has(action) ? "" : "danger"}" name="action" value="${action}">
        ${label}<span class="hidden"> ${of}</span>
      </button>
    </form>
  </details>`
}

/** Nothing ends by them. */
const harmless: ReadonlySet<ActionName> = new Set(["enable-project", "approve-account-reference", "test-channel"])

/** An action whose values the operator types: its button opens the form. */
export const actWith = (
  { csrf, token }: Session,
  action: ActionName,
  fixed: Readonly<Record<string, string>>,
  title: string,
  fields: Part,
  says: Part,
  example: string
): Part => {
  if (token !== undefined) return undefined
  return html`<details class="folded">
    <summary>${title}</summary>
    <form class="write" method="post">
      <input type="hidden" name="csrf" value="${csrf}" />
      ${Object.entries(fixed).map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`)}
      ${fields}
      <p class="wide">${says}</p>
      <p class="small wide">${command(`service-admin ${action} ${example}`)}</p>
      <div class="wide"><button class="primary" name="action" value="${action}">${actions[action][0]}</button></div>
    </form>
  </details>`
}

/** A form that creates something says when it was asked for, in periods: sent twice within one, it creates one. */
const askedWithin = 600_000
export const askedAt = (now: Date) => ({ asked: String(Math.floor(now.getTime() / askedWithin)) })
const Asked = Schema.String.check(Schema.isPattern(/^\d{1,8}$/))

const Reference = text(200).check(noSecret)
/** One that was approved, perhaps by a release that accepted more characters. */
const KnownReference = storedText(200).check(noSecret)
/** May be left empty. */
const Label = Schema.Union([Schema.Literal(""), text(120).check(noSecret)])

/** Empty leaves a limit as it is. */
const Maximum = Schema.String.check(Schema.isPattern(/^([1-9]\d{0,14}|default)?$/))
const ClientId = Schema.String.check(Schema.isPattern(/^(sci_[0-9A-Za-z]{49}|https:\/\/[\x21-\x7e]{1,492})$/))
const maxima = Object.fromEntries(limitNames.map((name) => [name, Schema.optionalKey(Maximum)])) as Readonly<
  Record<LimitName, Schema.optionalKey<typeof Maximum>>
>

type Failed = NotHere | SharedRefusal<"bridge_persistence_error">
/** Undefined: the form is not one of ours. */
export type RunAction = (operator: string, fields: URLSearchParams) => Effect.Effect<ActionName, Failed> | undefined

export const operatorActions = Effect.gen(function* () {
  const bridges = yield* Bridges
  const credentials = yield* Credentials
  const projectTokens = yield* ProjectTokens
  const grants = yield* Grants
  const clients = yield* Clients
  const devices = yield* Devices
  const channels = yield* Channels
  const documents = yield* Documents
  const push = yield* PushAdmin
  const projects = yield* Projects
  const limits = yield* Limits
  const sessions = yield* Sessions
  const keys = yield* PersonKeys

  const runs: Readonly<Record<ActionName, (given: unknown) => Effect.Effect<unknown, Failed> | undefined>> = {
    "revoke-bridge": taking({ project: Uuid, bridge: BridgeId }, ({ bridge, project }) =>
      bridges.revoke(project, bridge)
    ),
    "revoke-bridge-enrollment-credential": taking({ credential: Uuid }, (given) =>
      credentials.revoke(given.credential)
    ),
    "approve-account-reference": taking(
      { project: Uuid, reference: Reference, label: Label },
      ({ label, project, reference }) =>
        projects.approveReference(project, reference, label === "" ? Option.none() : Option.some(label))
    ),
    "withdraw-account-reference": taking({ project: Uuid, reference: KnownReference }, ({ project, reference }) =>
      projects.withdrawReference(project, reference)
    ),
    "revoke-project-token": taking({ token: Uuid }, ({ token }) => projectTokens.revoke(token)),
    "revoke-oauth-grant": taking({ grant: Uuid }, ({ grant }) => grants.revoke(grant)),
    "disable-oauth-client": taking({ client: ClientId }, ({ client }) => clients.disable(client)),
    "revoke-device": taking({ device: Uuid }, ({ device }) => devices.end(device)),
    "test-channel": taking({ channel: Uuid }, ({ channel }) =>
      Effect.flatMap(uuid, (event_id) => channels.test(channel, event_id))
    ),
    "revoke-channel": taking({ channel: Uuid }, ({ channel }) => channels.revoke(channel)),
    "unpin-document": taking({ document: Uuid }, ({ document }) => documents.unpin(document)),
    "retry-push-dead-letters": taking({}, () => push.retryDead),
    "create-project": taking({ name: text(120).check(noSecret), asked: Asked }, ({ asked, name }) =>
      projects.create(name, uuidFor(new Date(Number(asked) * askedWithin), `${asked} ${name}`))
    ),
    "disable-project": taking({ project: Uuid }, ({ project }) => projects.disable(project)),
    "enable-project": taking({ project: Uuid }, ({ project }) => projects.enable(project)),
    "set-project-limits": taking({ project: Uuid, ...maxima }, ({ project, ...given }) => {
      const changes = Object.entries(given)
        .filter(([, maximum]) => maximum !== "")
        .map(([name, maximum]) => [name, maximum === "default" ? null : Number(maximum)] as const)
      return limits.set(project, Object.fromEntries(changes))
    }),
    "remove-person-key": taking({ key: Uuid }, ({ key }) => keys.remove(key)),
    "end-console-session": taking({ session: Uuid }, ({ session }) =>
      Effect.flatMap(CurrentOperator, (operator) => sessions.end(session, operator))
    )
  }

  const run: RunAction = (operator, fields) => {
    const action = fields.get("action") ?? ""
    if (!isAction(action)) return undefined
    const running = runs[action](Object.fromEntries(fields))
    return running && Effect.as(Effect.provideService(running, CurrentOperator, operator), action)
  }
  return run
})

interface Refused {
  readonly _tag: string
}

/** What the action is about may be gone; every other refusal is a failure of the database. */
const taking = <F extends Readonly<Record<string, Schema.Constraint & { readonly DecodingServices: never }>>>(
  fields: F,
  run: (given: Schema.Struct<F>["Type"]) => Effect.Effect<unknown, Refused | SharedRefusal<"bridge_persistence_error">>
) => {
  const decode = Schema.decodeUnknownResult(Schema.Struct(fields))
  return (given: unknown): Effect.Effect<unknown, Failed> | undefined => {
    const decoded = decode(given)
    if (Result.isFailure(decoded)) return undefined
    return Effect.mapError(run(decoded.success as Schema.Struct<F>["Type"]), (error) =>
      error._tag === "bridge_persistence_error" ? (error as SharedRefusal<"bridge_persistence_error">) : new NotHere()
    )
  }
}
