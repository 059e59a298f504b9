import { command, using } from "./support/command.ts"
import * as Flags from "./support/flags.ts"
import { facts, next } from "./support/print.ts"

export const createProject = command("create-project", {
  description: "Create a project",
  flags: { name: Flags.label("name", 120, "What people call it") },
  run: ({ name }) => using(({ projects }) => projects.create(name)),
  print: (project) => [
    ...facts(project),
    next(`approve-account-reference --project ${project.project_id} --reference REFERENCE`)
  ]
})
