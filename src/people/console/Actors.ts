/** What people call the actors of audit rows and provenance. */
import { Effect } from "effect"
import type { ProjectTokens } from "../../signin/access/ProjectTokens.ts"

export type ActorName = (actor: string) => string

/** Tokens are called by their label, sign-ins by their app; what has no name, by its kind and the end of its id. */
export const namesFor = (
  tokens: ProjectTokens["Service"],
  project_id: string | undefined,
  actors: ReadonlyArray<string>
): Effect.Effect<ActorName, Effect.Error<ReturnType<ProjectTokens["Service"]["names"]>>> =>
  Effect.map(tokens.names(project_id, actors), (names) => (actor) => names.get(actor) ?? unnamed(actor))

const unnamed = (actor: string) => {
  if (actor === "operator") return "the operator"
  const colon = actor.indexOf(":")
  if (colon < 0) return actor
  const [kind, id] = [actor.slice(0, colon), actor.slice(colon + 1)]
  if (kind === "operator") return `operator ${id}`
  return kind === "bridge" ? `Bridge ${id}` : `${kind.replaceAll("_", " ")} ${id.slice(-8)}`
}
