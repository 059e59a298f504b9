/** The documents that the operator pinned for the agents of a project. */
import { Effect } from "effect"
import { Documents } from "../../agents/documents/Documents.ts"
import { html } from "../../platform/html/Html.ts"
import { act } from "./Actions.ts"
import { command, empty, mark, meta, more, name, size, time } from "./Parts.ts"
import { isUuid, NotHere, pathOf, type View } from "./View.ts"

const shown = 40

export const documentsPage = Effect.gen(function* () {
  const documents = yield* Documents
  return Effect.fnUntraced(function* (view: View) {
    const { now, project, query, session } = view
    const after = query.get("after") ?? undefined
    if (after !== undefined && !isUuid(after)) return yield* new NotHere()
    const found = yield* documents
      .list(project.project_id, { after, limit: shown + 1 })
      .pipe(Effect.catchTag("project_not_found", () => new NotHere()))
    const page = found.slice(0, shown)
    const next = found.length > shown ? { after: page.at(-1)!.document_id } : undefined
    return {
      title: "Documents",
      body: html`<h1>Documents</h1>
        <p class="soft">Files of one commit, which agents read as they were pinned.</p>
        ${
          page.length === 0
            ? empty(after === undefined ? "No document is pinned." : "No more documents.", "The operator pins them.")
            : html`<ul class="rows">
                ${page.map(
                  (document) =>
                    html`<li>
                      <div class="line">
                        <b class="name">${document.title}</b>
                        <span>${document.bootstrap && mark("read first", "info")}</span>
                      </div>
                      ${meta(
                        name(document.repository),
                        html`<code>${document.path}</code>`,
                        html`<code title="${document.commit}">${document.commit.slice(0, 12)}</code>`,
                        `${size(document.size_bytes)}, ${document.line_count} lines`,
                        html`pinned ${time(document.pinned_at, now)}`
                      )}
                      ${act(
                        session,
                        "unpin-document",
                        { document: document.document_id },
                        document.title,
                        "Agents can no longer read it. Pin it again from a clone if it is wanted later."
                      )}
                    </li>`
                )}
              </ul>`
        }
        ${more(pathOf(view, "documents"), query, next)}
        ${
          session.token === undefined &&
          html`<p class="soft small">
            One is pinned by
            ${command(`service-admin pin-document --project ${project.project_id} --repository DIR --label NAME --commit HASH --path FILE`)}
          </p>`
        }`
    }
  })
})
