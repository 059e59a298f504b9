import { command, using } from "./support/command.ts"
import * as Flags from "./support/flags.ts"
import { facts, next } from "./support/print.ts"

export const enableProject = command("enable-project", {
  description: "Undo disable-project",
  flags: { project: Flags.project },
  run: ({ project }) => using(({ projects }) => projects.enable(project)),
  print: (project) => [...facts(project), next(`list-bridges --project ${project.project_id}`)]
})
