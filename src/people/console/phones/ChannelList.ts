/** The channels of a project, for everybody who sees its phones; an operator tests and ends them. */
import { html, type Part } from "../../../platform/html/Html.ts"
import type { Session } from "../../../signin/sessions/Sessions.ts"
import type { Listed } from "../../channels/ChannelStore.ts"
import { act } from "../Actions.ts"
import { command, mark, meta, time } from "../Parts.ts"

const states = {
  active: mark("active", "good"),
  inactive: mark("gone", "warn"),
  revoked: mark("ended")
} as const

export const channelList = (session: Session, channels: ReadonlyArray<Listed>, now: Date): Part =>
  channels.length === 0
    ? session.token === undefined &&
      html`<p class="small">
        Topics of ntfy and webhooks ring as well:
        ${command("service-admin create-channel --project ID --kind ntfy --url URL")}
      </p>`
    : html`<h2>Channels</h2>
        <ul class="rows">
          ${channels.map((channel) => channelRow(session, channel, now))}
        </ul>`

const channelRow = (session: Session, channel: Listed, now: Date): Part => {
  const { channel_id, created_at, ended_at, host, kind, last_reason, last_state, last_status, state, titles } = channel
  const of = `channel ${channel_id.slice(-8)}`
  return html`<li>
    <div class="line">
      <span><b class="name">${kind} at ${host}</b> <span class="id">${channel_id.slice(-8)}</span></span>
      <span>${states[state]}</span>
    </div>
    ${meta(
      titles ? "with titles of tasks" : "without text of the project",
      html`made ${time(created_at, now)}`,
      last_state !== null &&
        `last notification: ${[last_state, last_status, last_reason].filter((part) => part !== null).join(", ")}`,
      ended_at !== null && html`ended ${time(ended_at, now)}`
    )}
    ${
      state === "active" &&
      html`${act(session, "test-channel", { channel: channel_id }, of, "A test is sent at once; this may take up to eight seconds.")}
      ${act(session, "revoke-channel", { channel: channel_id }, of, "Its address and secret are deleted. This cannot be undone.")}`
    }
  </li>`
}
