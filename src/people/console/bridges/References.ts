/** For the operator: the provider accounts that the Bridges of a project may name, a part of the project's page of Bridges. */
import { Effect } from "effect"
import { Projects } from "../../../operator/projects/Projects.ts"
import { html } from "../../../platform/html/Html.ts"
import { act, actWith } from "../Actions.ts"
import { command, empty, mark, meta, more, name, time } from "../Parts.ts"
import { NotHere, type View } from "../View.ts"
import { textField } from "../Writing.ts"

const shown = 8

export const referencesSection = Effect.gen(function* () {
  const projects = yield* Projects
  return Effect.fnUntraced(function* ({ now, project: { project_id }, query, session }: View) {
    const after = query.get("references") ?? undefined
    // PostgreSQL has no text with a NUL.
    if (after?.includes("\0")) return yield* new NotHere()
    const found = yield* projects
      .listReferences(project_id, { after, limit: shown + 1 })
      .pipe(Effect.catchTag("project_not_found", () => new NotHere()))
    const next = found.length > shown ? { references: found[shown - 1]!.reference } : undefined
    return html`<h2>Account references</h2>
      <p class="soft">The provider accounts that Bridges of this project may name: names only, never a credential.</p>
      ${
        found.length === 0
          ? empty("No account reference is approved.")
          : html`<ul class="rows">
              ${found.slice(0, shown).map(
                ({ approved_at, label, reference, withdrawn_at }) =>
                  html`<li>
                    <div class="line">
                      <b class="name">${reference}</b>
                      <span>${withdrawn_at === null ? mark("approved", "good") : mark("withdrawn")}</span>
                    </div>
                    ${meta(
                      label !== null && name(label),
                      html`approved ${time(approved_at, now)}`,
                      withdrawn_at !== null && html`withdrawn ${time(withdrawn_at, now)}`
                    )}
                    ${
                      withdrawn_at === null &&
                      act(
                        session,
                        "withdraw-account-reference",
                        { project: project_id, reference },
                        reference,
                        "No Bridge can enroll with it any more, and the unused credentials that carry it are revoked. Bridges that have enrolled stay enrolled. It can be approved again."
                      )
                    }
                  </li>`
              )}
            </ul>`
      }
      ${more(`/console/${project_id}/bridges`, query, next)}
      ${actWith(
        session,
        "approve-account-reference",
        { project: project_id },
        "Approve an account reference",
        html`${textField("reference", "Reference, such as github:acme", "", html`required maxlength="200"`)}
        ${textField("label", "Label, if you want one", "", html`maxlength="120"`)}`,
        "From then on a credential may carry it, and a Bridge that enrolls with that credential names the account.",
        `--project ${project_id} --reference REFERENCE`
      )}
      <p class="soft small">
        A credential for a new Bridge is made by
        ${command(`service-admin create-bridge-enrollment-credential --project ${project_id} --account-reference REFERENCE --out FILE`)},
        which writes it to a file once.
      </p>`
  })
})
