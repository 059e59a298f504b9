/** What the pages of a project get, and what they answer. */
import { Data, Schema } from "effect"
import type { Html } from "../../platform/html/Html.ts"
import type { Session } from "../../signin/sessions/Sessions.ts"
import type { SharedRefusal } from "../../wire/Errors.ts"
import { Uuid } from "../../wire/Ids.ts"
import type { Scope } from "../../wire/Scopes.ts"

export interface View {
  readonly session: Session
  readonly project: { readonly project_id: string; readonly name: string; readonly disabled: boolean }
  readonly now: Date
  readonly query: URLSearchParams
  /** The id of the path's last part, if the page has one. */
  readonly id: string
  /** Renders the Markdown of agents; the texts of the page share its budget. */
  readonly markdown: (text: string) => Html
  /** A form of this page that was sent and not accepted. */
  readonly unsaved?: { readonly action: string; readonly fields: URLSearchParams; readonly problem: string } | undefined
}

export interface Shown {
  readonly title: string
  readonly body: Html
}

/** One answer for everything that is not here: unknown paths and ids, and those of another project. */
export class NotHere extends Data.TaggedError("NotHere")<{}> {}

/** Why a page is not shown. */
export type Failure = NotHere | SharedRefusal<"bridge_persistence_error" | "rate_limited">

export const pathOf = (
  { project }: { readonly project: Pick<View["project"], "project_id"> },
  ...parts: ReadonlyArray<string>
): string => ["/console", project.project_id, ...parts].join("/")

/** Whether the session may see what this scope lets an agent read. An operator sees everything. */
export const maySee = ({ token }: Session, scope: Scope): boolean => token === undefined || token.scopes.has(scope)

/** A page of the operator, about the whole service. */
export type ServiceView = Pick<View, "session" | "now" | "query">

export const isUuid = Schema.is(Uuid)
