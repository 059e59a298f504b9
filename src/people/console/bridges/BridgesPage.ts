/** The Bridges of a project, the first to end first: each with its token's life drawn against now. */
import { Effect, Schema } from "effect"
import { type Watched, Bridges } from "../../../bridges/identity/Bridges.ts"
import { html, type Html } from "../../../platform/html/Html.ts"
import { BridgeId } from "../../../wire/Ids.ts"
import { hasPassed } from "../../../wire/Instant.ts"
import type { Session } from "../../../signin/sessions/Sessions.ts"
import { act } from "../Actions.ts"
import { life } from "./Life.ts"
import { command, empty, mark, meta, more, name, time } from "../Parts.ts"
import { referencesSection } from "./References.ts"
import { NotHere, pathOf, type View } from "../View.ts"

const shown = 20
const isBridgeId = Schema.is(BridgeId)

export const bridgesPage = Effect.gen(function* () {
  const bridges = yield* Bridges
  const references = yield* referencesSection

  return Effect.fnUntraced(function* (view: View) {
    const { now, project, query, session } = view
    const after = query.get("after") ?? undefined
    if (after !== undefined && !isBridgeId(after)) return yield* new NotHere()
    const found = yield* bridges.listByEnd(project.project_id, { after, limit: shown + 1 })
    const page = found.slice(0, shown)
    const next = found.length > shown ? { after: page.at(-1)!.bridge_id } : undefined
    return {
      title: "Bridges",
      body: html`<h1>Bridges</h1>
        <p class="soft">
          A Bridge replaces its token between 60 and 80 % of its life. Those that end first come first.
        </p>
        ${
          page.length === 0
            ? empty(
                after === undefined ? "No Bridge has enrolled in this project." : "No more Bridges.",
                html`The operator enrolls one with
                ${command(`service-admin create-bridge-enrollment-credential --project ${project.project_id} --account-reference REFERENCE --out FILE`)}`
              )
            : html`<ul class="rows">
                ${page.map((bridge) => bridgeRow(bridge, session, now))}
              </ul>`
        }
        ${more(pathOf(view, "bridges"), query, next)} ${session.token === undefined && (yield* references(view))}`
    }
  })
})

/**
 * The service records no request of a Bridge that changes nothing, so that a poll costs no write. What is known of its
 * last contact is when it enrolled or last confirmed a rotation.
 */
export const bridgeRow = (bridge: Watched, session: Session, now: Date, project?: Html): Html => {
  const { access_role, bridge_id, device_id, display_name, enrolled_at, revoked_at, rotation_expires_at, status } =
    bridge
  const { token_expires_at, token_started_at } = bridge
  const isValid = token_expires_at !== null && token_started_at !== null && !hasPassed(token_expires_at, now)
  const isRotating = rotation_expires_at !== null && !hasPassed(rotation_expires_at, now)
  return html`<li class="bridge">
    <div>
      <div class="line">
        <span><b class="name">${display_name}</b> <span class="id">${bridge_id}</span></span>
        <span>${stateOf(bridge, isValid, now)} ${isRotating && mark("rotating", "info")}</span>
      </div>
      ${meta(
        project,
        html`device ${name(device_id)}`,
        access_role !== null && html`reaches memory and tasks as ${access_role}`,
        enrolled_at !== null && html`enrolled ${time(enrolled_at, now)}`,
        revoked_at !== null && html`revoked ${time(revoked_at, now)}`,
        token_started_at !== null &&
          (enrolled_at !== null && token_started_at > enrolled_at
            ? html`last rotation ${time(token_started_at, now)}`
            : "no rotation since"),
        isRotating && html`the rotation has to be confirmed ${time(rotation_expires_at, now)}`
      )}
    </div>
    ${isValid && life(token_started_at, token_expires_at, now)}
    ${
      status !== "revoked" &&
      act(
        session,
        "revoke-bridge",
        { project: bridge.project_id, bridge: bridge_id },
        bridge_id,
        html`${name(display_name)} loses its tokens at once and for good. A new Bridge has to enroll in its place, under
        another id.`
      )
    }
  </li>`
}

const stateOf = ({ status, token_expires_at, token_started_at }: Watched, isValid: boolean, now: Date) => {
  if (status === "revoked") return mark("revoked", "bad")
  if (status === "pending") return mark("enrolling")
  if (!isValid || token_started_at === null || token_expires_at === null) {
    return html`${mark("no valid token", "bad")} it has to enroll again`
  }
  const isLate =
    now.getTime() - token_started_at.getTime() >= 0.8 * (token_expires_at.getTime() - token_started_at.getTime())
  return html`${isLate ? mark("should have rotated", "warn") : mark("active", "good")} ends
  ${time(token_expires_at, now)}`
}
