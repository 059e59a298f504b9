import { command, using } from "./support/command.ts"
import * as Flags from "./support/flags.ts"
import { facts, next } from "./support/print.ts"

export const disableProject = command("disable-project", {
  description: "Refuse everything of a project at once; deletes nothing",
  flags: { project: Flags.project },
  run: ({ project }) => using(({ projects }) => projects.disable(project)),
  print: (project) => [...facts(project), next(`enable-project --project ${project.project_id}`, "undoes it")]
})
