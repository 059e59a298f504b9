/** What agents and people sign in with: the tokens of a project, and the sign-ins that apps got with them. */
import { Effect } from "effect"
import { html, type Html } from "../../../platform/html/Html.ts"
import { type ProjectToken, ProjectTokens } from "../../../signin/access/ProjectTokens.ts"
import { Grants } from "../../../signin/oauth/grants/Grants.ts"
import { type PersonKey, PersonKeys } from "../../../signin/passkeys/PersonKeys.ts"
import type { Session } from "../../../signin/sessions/Sessions.ts"
import { act } from "../Actions.ts"
import { appsPath, grantRow } from "./AppsPage.ts"
import { command, empty, mark, meta, more, time } from "../Parts.ts"
import { isUuid, NotHere, pathOf, type View } from "../View.ts"

const shown = 15

export const agentsPage = Effect.gen(function* () {
  const projectTokens = yield* ProjectTokens
  const grants = yield* Grants
  const personKeys = yield* PersonKeys
  return Effect.fnUntraced(function* (view: View) {
    const { now, project, query, session } = view
    const pageOf = (name: string) => ({ after: query.get(name) ?? undefined, limit: shown + 1 })
    const [ofTokens, ofGrants, ofKeys] = [pageOf("tokens"), pageOf("signins"), pageOf("passkeys")]
    if ([ofTokens.after, ofGrants.after, ofKeys.after].some((after) => after !== undefined && !isUuid(after))) {
      return yield* new NotHere()
    }
    const notHere = () => new NotHere()
    const tokens = yield* projectTokens
      .list(project.project_id, ofTokens)
      .pipe(Effect.catchTag("project_not_found", notHere))
    const signIns = yield* grants.list(project.project_id, ofGrants).pipe(Effect.catchTag("project_not_found", notHere))
    // People see their own at /console/keys.
    const keys =
      session.token === undefined
        ? yield* personKeys.list(project.project_id, ofKeys).pipe(Effect.catchTag("project_not_found", notHere))
        : []
    const path = pathOf(view, "agents")
    return {
      title: "Agents",
      body: html`<h1>Agents</h1>
        <p class="soft">What agents and people use this project with. A sign-in ends with the token that allowed it.</p>
        <h2>Sign-ins of apps</h2>
        ${
          session.token !== undefined &&
          html`<p class="soft small">Those that you allowed you can end: <a href="${appsPath}">Apps you let in</a>.</p>`
        }
        ${
          signIns.length === 0
            ? empty("No app has signed in.", "An agent signs in by itself when it is connected to the address of /mcp.")
            : html`<ul class="rows">
                ${signIns.slice(0, shown).map((grant) => grantRow(grant, session, now))}
              </ul>`
        }
        ${more(path, query, signIns.length > shown ? { signins: signIns[shown - 1]!.grant_id } : undefined)}
        ${
          keys.length > 0 &&
          html`<h2>Passkeys</h2>
            <ul class="rows">
              ${keys.slice(0, shown).map((key) => keyRow(key, session, now))}
            </ul>`
        }
        ${more(path, query, keys.length > shown ? { passkeys: keys[shown - 1]!.person_key_id } : undefined)}
        <h2>Project tokens</h2>
        ${
          tokens.length === 0
            ? empty("The project has no tokens.")
            : html`<ul class="rows">
                ${tokens.slice(0, shown).map((token) => tokenRow(token, session, now))}
              </ul>`
        }
        ${more(path, query, tokens.length > shown ? { tokens: tokens[shown - 1]!.token_id } : undefined)}
        ${
          session.token === undefined &&
          html`<p class="soft small">
            A token is made by
            ${command(`service-admin create-project-token --project ${project.project_id} --role contributor --label NAME --out FILE`)},
            which writes it to a file once.
          </p>`
        }`
    }
  })
})

const tokenStatuses = {
  active: mark("active", "good"),
  revoked: mark("ended"),
  expired: mark("expired")
} as const

const keyStatuses = {
  active: mark("active", "good"),
  disabled: mark("switched off: somebody may have a copy", "bad"),
  ended: mark("ended")
} as const

const used = (at: Date | null, now: Date) => (at === null ? "never used" : html`last used ${time(at, now)}`)

const keyRow = (
  { created_at, label, last_used_at, person_key_id, project_token_id, status }: PersonKey,
  session: Session,
  now: Date
) =>
  html`<li>
    <div class="line">
      <b class="name">${label}</b>
      <span>${keyStatuses[status]}</span>
    </div>
    ${meta(
      used(last_used_at, now),
      html`added ${time(created_at, now)}`,
      html`for token <span class="id">${project_token_id}</span>`
    )}
    ${act(
      session,
      "remove-person-key",
      { key: person_key_id },
      `passkey ${person_key_id.slice(-8)}`,
      "It signs in no more, and every browser in which it signed in is signed out. Its person can add it again with the project token."
    )}
  </li>`

const tokenRow = (token: ProjectToken, session: Session, now: Date): Html => {
  const { created_at, expires_at, label, last_used_at, live_grants, opens_console, revoked_at, role, scopes } = token
  const called = label ?? `Token ${token.token_id.slice(-8)}`
  const isOwn = token.token_id === session.token?.token_id
  return html`<li>
    <div class="line">
      <span><b class="name">${called}</b> ${isOwn && mark("yours", "info")}</span>
      <span>${mark(role)} ${!opens_console && mark("agents only")} ${tokenStatuses[token.status]}</span>
    </div>
    ${meta(
      // Sign-ins at the console are no use of a token at /mcp, which is what `last_used_at` tells.
      isOwn && last_used_at === null ? "used by this browser" : used(last_used_at, now),
      html`made ${time(created_at, now)}`,
      revoked_at !== null && html`revoked ${time(revoked_at, now)}`,
      expires_at !== null && html`expires ${time(expires_at, now)}`,
      live_grants > 0 && `${live_grants} ${live_grants === 1 ? "sign-in" : "sign-ins"}`,
      scopes.join(" "),
      html`<span class="id">${token.token_id}</span>`
    )}
    ${
      token.status === "active" &&
      act(
        session,
        "revoke-project-token",
        { token: token.token_id },
        called,
        html`Whoever uses it loses access at once: agents, browsers of the console, and
        ${live_grants === 0 ? "every sign-in" : `the ${live_grants} sign-ins`} made with it. It cannot be undone.`
      )
    }
  </li>`
}
