/**
 * The apps that a person let in: the sign-ins that were allowed with their project token, and the form that ends one. An
 * operator ends anybody's, with the command's action (../Actions.ts).
 */
import { Effect } from "effect"
import { html, type Html, type Part } from "../../../platform/html/Html.ts"
import { type Grant, Grants } from "../../../signin/oauth/grants/Grants.ts"
import type { Session, SessionToken } from "../../../signin/sessions/Sessions.ts"
import { act } from "../Actions.ts"
import { shortId } from "../frame/Frame.ts"
import { idIn } from "../phones/OwnDevices.ts"
import { empty, mark, meta, more, name, projectLink, time } from "../Parts.ts"
import { isUuid, NotHere } from "../View.ts"

export const appsPath = "/console/apps"
const shown = 15

export const appsPage = Effect.gen(function* () {
  const grants = yield* Grants
  return Effect.fnUntraced(function* (session: Session, token: SessionToken, query: URLSearchParams) {
    const after = query.get("after") ?? undefined
    if (after !== undefined && !isUuid(after)) return yield* new NotHere()
    const own = yield* grants.own(session, { after, limit: shown + 1 })
    const project = projectLink(token.project_id, token.project_name)
    return {
      title: "Apps you let in",
      body: html`<h1>Apps you let in</h1>
        <p class="soft">
          Whoever can use what you allowed with your project token, or with a passkey of it. All of them end with the
          token.
        </p>
        ${
          own.length === 0
            ? empty(after === undefined ? "No app is signed in with your token." : "No more apps.")
            : html`<ul class="rows">
                ${own.slice(0, shown).map((grant) => grantRow(grant, session, session.now, project))}
              </ul>`
        }
        ${more(appsPath, query, own.length > shown ? { after: own[shown - 1]!.grant_id } : undefined)}`
    }
  })
})

/** Ends the sign-in that a form names. One that somebody else allowed is answered like an unknown one. */
export const endApp = Effect.map(
  Grants,
  (grants) => (session: Session, fields: URLSearchParams) =>
    grants.endOwn(session, idIn(fields, "grant")).pipe(
      Effect.as("end"),
      Effect.catchTag("oauth_grant_not_found", () => new NotHere())
    )
)

/** What the page says after its form. */
export const appsDone = (query: URLSearchParams): string | undefined =>
  query.get("done") === "end" ? "The sign-in has ended. The app has no access any more." : undefined

/** `project` is named on pages that show more than one. */
export const grantRow = (grant: Grant, session: Session, now: Date, project?: Html): Html => {
  const { client_id, client_name, created_at, end_reason, expires_at, label, last_used_at, scopes, status } = grant
  const isOver = status === "revoked" || status === "expired"
  return html`<li>
    <div class="line">
      <span><b class="name">${client_name}</b> <span class="id">${client_id}</span></span>
      <span>${statuses[status]}</span>
    </div>
    ${meta(
      label !== null && name(label),
      project,
      last_used_at === null ? "never used" : html`last used ${time(last_used_at, now)}`,
      html`signed in ${time(created_at, now)}`,
      isOver ? end_reason?.replaceAll("_", " ") : html`ends ${time(expires_at, now)}`,
      scopes.join(" ")
    )}
    ${!isOver && ending(grant, session)}
  </li>`
}

const statuses = {
  active: mark("active", "good"),
  waiting: mark("signing in", "info"),
  revoked: mark("ended"),
  expired: mark("expired")
} as const

/** The button that ends it: for its person and for operators. */
const ending = ({ client_name, grant_id, project_token_id }: Grant, session: Session): Part => {
  const of = `sign-in of ${client_name} ${shortId(grant_id)}`
  if (project_token_id !== session.token?.token_id) {
    const says = "The app loses its access at once. Somebody can sign in again with a project token."
    return act(session, "revoke-oauth-grant", { grant: grant_id }, of, says)
  }
  return html`<details class="act">
    <summary>End …<span class="hidden"> ${of}</span></summary>
    <form method="post" action="${appsPath}">
      <input type="hidden" name="csrf" value="${session.csrf}" />
      <input type="hidden" name="grant" value="${grant_id}" />
      <p>The app loses its access at once, and a phone that it registered rings no more. You can let it in again.</p>
      <button class="danger">End<span class="hidden"> ${of}</span></button>
    </form>
  </details>`
}
