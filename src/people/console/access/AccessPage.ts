/** For the operator: OAuth clients, sign-ins of every project, and the browsers that are signed in to the console. */
import { Effect } from "effect"
import { Projects } from "../../../operator/projects/Projects.ts"
import { html, type Html } from "../../../platform/html/Html.ts"
import { mostCounted } from "../../../platform/sql/access/StandingGrant.ts"
import { Clients } from "../../../signin/oauth/clients/Clients.ts"
import { Grants } from "../../../signin/oauth/grants/Grants.ts"
import { Sessions } from "../../../signin/sessions/Sessions.ts"
import { ProjectTokens } from "../../../signin/access/ProjectTokens.ts"
import { act } from "../Actions.ts"
import { namesFor } from "../Actors.ts"
import { grantRow } from "./AppsPage.ts"
import { command, empty, mark, meta, more, name, projectLink, time } from "../Parts.ts"
import { isUuid, NotHere, type ServiceView } from "../View.ts"

const shown = 15
const path = "/console/access"
type Client = Effect.Success<ReturnType<Clients["Service"]["list"]>>[number]
type Browser = Effect.Success<ReturnType<Sessions["Service"]["list"]>>[number]

export const accessPage = Effect.gen(function* () {
  const clients = yield* Clients
  const grants = yield* Grants
  const sessions = yield* Sessions
  const projects = yield* Projects
  const tokens = yield* ProjectTokens
  return Effect.fnUntraced(function* ({ now, query, session }: ServiceView) {
    const pageOf = (name: string) => ({ after: query.get(name) ?? undefined, limit: shown + 1 })
    const [ofClients, ofGrants, ofSessions] = [pageOf("clients"), pageOf("signins"), pageOf("browsers")]
    const isWrong = [ofGrants.after, ofSessions.after].some((after) => after !== undefined && !isUuid(after))
    // PostgreSQL has no text with a NUL.
    if (isWrong || ofClients.after?.includes("\0")) return yield* new NotHere()
    const signIns = yield* grants.list(undefined, ofGrants).pipe(Effect.catchTag("project_not_found", Effect.die))
    const listed = yield* clients.list(ofClients)
    const open = yield* sessions.list(undefined, ofSessions)
    const ids = [...signIns, ...open].map(({ project_id }) => project_id).filter((id) => id !== null)
    const names = yield* projects.names(ids)
    const called = yield* namesFor(
      tokens,
      undefined,
      open.map(({ actor }) => actor)
    )
    const of = (project_id: string, section: string) => projectLink(project_id, names.get(project_id) ?? "", section)
    return {
      title: "Access",
      body: html`<h1>Access</h1>
        <p class="soft">The apps that people let in, and the browsers that are signed in here.</p>
        <h2>Sign-ins of apps</h2>
        ${
          signIns.length === 0
            ? empty("No app has signed in.")
            : html`<ul class="rows">
                ${signIns.slice(0, shown).map((grant) => grantRow(grant, session, now, of(grant.project_id, "agents")))}
              </ul>`
        }
        ${more(path, query, signIns.length > shown ? { signins: signIns[shown - 1]!.grant_id } : undefined)}
        <h2>Clients</h2>
        ${
          listed.length === 0
            ? empty("No client is known.", "Apps with a metadata document are known once somebody signs in.")
            : html`<ul class="rows">
                ${listed.slice(0, shown).map((client) => clientRow(client))}
              </ul>`
        }
        ${more(path, query, listed.length > shown ? { clients: listed[shown - 1]!.client_id } : undefined)}
        <p class="soft small">
          Another is registered by ${command("service-admin create-oauth-client --name NAME --redirect-uri URI")}
        </p>
        <h2>Browsers signed in to the console</h2>
        <ul class="rows">
          ${open.slice(0, shown).map((browser) => browserRow(browser))}
        </ul>
        ${more(path, query, open.length > shown ? { browsers: open[shown - 1]!.session_id } : undefined)}`
    }

    function clientRow({
      client_id,
      created_at,
      disabled_at,
      kind,
      live_grants,
      name: title,
      redirect_uris
    }: Client): Html {
      return html`<li>
        <div class="line">
          <span><b class="name">${title}</b> <span class="id">${client_id}</span></span>
          <span>${mark(kinds[kind])} ${disabled_at !== null && mark("disabled", "bad")}</span>
        </div>
        ${meta(
          live_grants === 1 ? "1 sign-in" : `${live_grants}${live_grants < mostCounted ? "" : " or more"} sign-ins`,
          html`known since ${time(created_at, now)}`,
          redirect_uris.map((uri) => html`<code>${uri}</code> `)
        )}
        ${
          disabled_at === null &&
          act(
            session,
            "disable-oauth-client",
            { client: client_id },
            title,
            html`Nobody can sign in with this app any more, and its sign-ins end at once. There is no command that
            enables it again.`
          )
        }
      </li>`
    }

    function browserRow({
      actor,
      created_at,
      expires_at,
      last_used_at,
      person_key_id,
      project_id,
      session_id,
      user_agent
    }: Browser): Html {
      return html`<li>
        <div class="line">
          <b class="name">${called(actor)}</b>
          <span>${session_id === session.session_id && mark("this one", "info")}</span>
        </div>
        ${meta(
          project_id === null ? "every project" : of(project_id, ""),
          name(user_agent),
          person_key_id !== null && "with a passkey",
          html`last used ${time(last_used_at, now)}`,
          html`signed in ${time(created_at, now)}`,
          html`ends ${time(expires_at, now)}`
        )}
        ${
          session_id !== session.session_id &&
          act(
            session,
            "end-console-session",
            { session: session_id },
            `browser ${session_id.slice(-8)}`,
            "The browser is signed out at once. Its person can sign in again, unless their token is revoked too."
          )
        }
      </li>`
    }
  })
})

const kinds = { operator: "registered by you", dynamic: "registered itself", document: "by its metadata" } as const
