import { command, using } from "./command.ts"
import * as Flags from "./flags.ts"
import { facts, next } from "./print.ts"

export const enableProject = command("enable-project", {
  description: "Undo disable-project",
  flags: { project: Flags.project },
  run: ({ project }) => using(({ projects }) => projects.enable(project)),
  print: (project) => [...facts(project), next(`list-bridges --project ${project.project_id}`)]
})
