import { command, using } from "./support/command.ts"
import { next, table } from "./support/print.ts"

export const listProjects = command("list-projects", {
  description: "List projects",
  flags: {},
  run: () => using(({ projects }) => projects.list),
  print: (projects) => [
    ...table(projects, ["project_id", "created_at", "disabled_at", "name"], "There are no projects."),
    projects.length === 0 ? next("create-project --name NAME") : next("list-bridges --project ID")
  ]
})
