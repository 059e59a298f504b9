import { command, using } from "./command.ts"
import * as Flags from "./flags.ts"
import { facts, next } from "./print.ts"

export const disableProject = command("disable-project", {
  description: "Refuse everything of a project at once; deletes nothing",
  flags: { project: Flags.project },
  run: ({ project }) => using(({ projects }) => projects.disable(project)),
  print: (project) => [...facts(project), next(`enable-project --project ${project.project_id}`, "undoes it")]
})
