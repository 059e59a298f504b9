/** Every project of the service, for the operator. */
import { Effect } from "effect"
import { Projects } from "../../../operator/projects/Projects.ts"
import { html } from "../../../platform/html/Html.ts"
import { act, actWith, askedAt } from "../Actions.ts"
import { commands, empty, mark, meta, more, time } from "../Parts.ts"
import { isUuid, NotHere, type ServiceView } from "../View.ts"
import { textField } from "../Writing.ts"

const shown = 40

export const projectsPage = Effect.gen(function* () {
  const projects = yield* Projects
  return Effect.fnUntraced(function* ({ now, query, session }: ServiceView) {
    const after = query.get("after") ?? undefined
    if (after !== undefined && !isUuid(after)) return yield* new NotHere()
    const found = yield* projects.list({ after, limit: shown + 1 })
    const page = found.slice(0, shown)
    const next = found.length > shown ? { after: page.at(-1)!.project_id } : undefined
    return {
      title: "Projects",
      body: html`<h1>Projects</h1>
        ${
          page.length === 0
            ? empty(after === undefined ? "There is no project yet." : "No more projects.")
            : html`<ul class="rows">
                ${page.map(
                  ({ created_at, disabled_at, name, project_id }) =>
                    html`<li>
                      <div class="line">
                        <a class="name" href="/console/${project_id}">${name}</a>
                        <span>${disabled_at !== null && mark("disabled", "bad")}</span>
                      </div>
                      ${meta(html`created ${time(created_at, now)}`, html`<span class="id">${project_id}</span>`, html`<a href="/console/${project_id}/limits">Limits</a>`)}
                      ${
                        disabled_at === null
                          ? act(
                              session,
                              "disable-project",
                              { project: project_id },
                              name,
                              "Every request of its Bridges and agents is refused at once, and its people are signed out. Nothing is deleted, and it can be enabled again."
                            )
                          : act(
                              session,
                              "enable-project",
                              { project: project_id },
                              name,
                              "Its Bridges, agents and people can work again, with tokens that have not ended."
                            )
                      }
                    </li>`
                )}
              </ul>`
        }
        ${more("/console/projects", query, next)}
        ${actWith(
          session,
          "create-project",
          askedAt(now),
          "New project",
          textField("name", "Name", "", html`required maxlength="120"`, "wide"),
          "It is empty, and nobody has access: its page of agents says how a token is made.",
          "--name NAME"
        )}
        ${commands([
          [
            "Write the memory, tasks and receipts of a project to a file.",
            "service-admin export-project --project ID --out FILE"
          ],
          [
            "Add what is in such a file to a project that lacks it.",
            "service-admin import-project --project ID --in FILE"
          ],
          [
            "Bring notes and tasks from a folder of Markdown, beads, basic-memory or server-memory.",
            "service-admin import-memory --project ID --from markdown --dry-run FOLDER"
          ]
        ])}`
    }
  })
})
