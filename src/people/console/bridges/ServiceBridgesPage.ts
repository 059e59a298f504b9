/** For the operator: the Bridges of every project, the first to end first, and the credentials that wait for a Bridge. */
import { Effect } from "effect"
import { Credentials, type Waiting } from "../../../bridges/enrollment/Credentials.ts"
import { Bridges } from "../../../bridges/identity/Bridges.ts"
import { Projects } from "../../../operator/projects/Projects.ts"
import { html, type Html } from "../../../platform/html/Html.ts"
import { act } from "../Actions.ts"
import { bridgeRow } from "./BridgesPage.ts"
import { command, empty, mark, meta, more, name, projectLink, time } from "../Parts.ts"
import { isUuid, NotHere, type ServiceView } from "../View.ts"

const shown = 15

export const serviceBridgesPage = Effect.gen(function* () {
  const bridges = yield* Bridges
  const credentials = yield* Credentials
  const projects = yield* Projects
  return Effect.fnUntraced(function* (view: ServiceView) {
    const { now, query, session } = view
    const pageOf = (name: string) => ({ after: query.get(name) ?? undefined, limit: shown + 1 })
    const [ofBridges, ofCredentials] = [pageOf("bridges"), pageOf("credentials")]
    if ([ofBridges.after, ofCredentials.after].some((after) => after !== undefined && !isUuid(after))) {
      return yield* new NotHere()
    }
    const ending = yield* bridges.listAllByEnd(ofBridges)
    const waiting = yield* credentials.listWaiting(ofCredentials)
    const names = yield* projects.names([...ending, ...waiting].map(({ project_id }) => project_id))
    const of = (project_id: string) => projectLink(project_id, names.get(project_id) ?? "", "bridges")
    return {
      title: "Bridges",
      body: html`<h1>Bridges</h1>
        <p class="soft">Of every project that is not disabled. Those that end first come first.</p>
        ${
          ending.length === 0
            ? empty("No Bridge is active.")
            : html`<ul class="rows">
                ${ending.slice(0, shown).map((bridge) => bridgeRow(bridge, session, now, of(bridge.project_id)))}
              </ul>`
        }
        ${more("/console/bridges", query, ending.length > shown ? { bridges: ending[shown - 1]!.identity_id } : undefined)}
        <h2>Credentials that wait for a Bridge</h2>
        ${
          waiting.length === 0
            ? empty(
                "No credential waits.",
                html`Make one with
                ${command("service-admin create-bridge-enrollment-credential --project ID --account-reference REFERENCE --out FILE")}`
              )
            : html`<ul class="rows">
                ${waiting.slice(0, shown).map((credential) => waitingRow(credential, of(credential.project_id), view))}
              </ul>`
        }
        ${more("/console/bridges", query, waiting.length > shown ? { credentials: waiting[shown - 1]!.credential_id } : undefined)}`
    }
  })
})

const waitingRow = (credential: Waiting, project: Html, { now, session }: ServiceView): Html => {
  const { account_references, claimed_at, claimed_bridge_id, created_at, credential_id, expires_at } = credential
  const { reenroll_bridge_id, status } = credential
  return html`<li>
    <div class="line">
      <span class="id">${credential_id}</span>
      <span>
        ${reenroll_bridge_id !== null && mark("replaces a key")}
        ${status === "claimed" ? mark("enrolling", "info") : mark("unused")} expires ${time(expires_at, now)}
      </span>
    </div>
    ${meta(
      project,
      html`for ${name(account_references.join(", "))}`,
      html`made ${time(created_at, now)}`,
      reenroll_bridge_id !== null && html`re-enrolls ${name(reenroll_bridge_id)}`,
      claimed_at !== null && html`claimed ${time(claimed_at, now)} by ${name(claimed_bridge_id ?? "")}`
    )}
    ${act(
      session,
      "revoke-bridge-enrollment-credential",
      { credential: credential_id },
      `credential ${credential_id.slice(-8)}`,
      "No Bridge can enroll with it any more. A Bridge that has enrolled with it stays enrolled."
    )}
  </li>`
}
