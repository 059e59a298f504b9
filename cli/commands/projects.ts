/** Projects: create, list, disable, enable; scan what they hold. */
import { Effect, Option } from "effect"
import { Flag } from "effect/cli"
import { command, using } from "../support/frames/command.ts"
import * as Flags from "../support/Flags.ts"
import { list } from "../support/frames/list.ts"
import { facts, next, table } from "../support/terminal/Print.ts"
import { watching } from "../support/terminal/progress.ts"

const createProject = command("create-project", {
  description: "Create a project",
  remote: "write",
  flags: { name: Flags.label("name", 120, "Display name"), id: Flags.newUuid },
  run: ({ id, name }) => using(({ persistently, projects }) => persistently(projects.create(name, id))),
  print: (project) => [
    ...facts(project),
    next(`approve-account-reference --project ${project.project_id} --reference REFERENCE`)
  ]
})

const listProjects = list("list-projects", {
  description: "List projects",
  flags: {},
  after: Flags.uuid("after", ""),
  key: "project_id",
  page: ({ projects }, _, page) => projects.list(page),
  columns: ["project_id", "created_at", "disabled_at", "name"],
  none: "There are no projects.",
  next: ([first]) => (first === undefined ? "init" : `show-project --project ${first.project_id}`)
})

const showProject = command("show-project", {
  description: "Show a project and how much it holds",
  remote: "read",
  flags: { project: Flags.project },
  run: ({ project }) => using(({ contents }) => contents.project(project)),
  print: (project) => [...facts(project), next(`list-tasks --project ${project.project_id}`)]
})

const disableProject = command("disable-project", {
  description: "Refuse all requests for a project at once; deletes nothing",
  remote: "write",
  flags: { project: Flags.thatProject },
  run: ({ project }) => using(({ projects }) => projects.disable(project)),
  print: (project) => [...facts(project), next(`enable-project --project ${project.project_id}`, "undoes it")]
})

const enableProject = command("enable-project", {
  description: "Undo disable-project",
  remote: "write",
  flags: { project: Flags.project },
  run: ({ project }) => using(({ projects }) => projects.enable(project)),
  print: (project) => [...facts(project), next(`list-bridges --project ${project.project_id}`)]
})

const scanProject = command("scan-project", {
  description: "Look for private keys and credentials in what is stored; exit code 1 if there are any",
  flags: {
    project: Flags.anyProject("Id or name of a project; default: everything that is stored").pipe(Flag.optional)
  },
  run: ({ project }) =>
    using(({ projects, recorded, scan }) =>
      Effect.transposeOption(Option.map(project, projects.find)).pipe(
        Effect.andThen(scan.scan(Option.getOrUndefined(project)).pipe(watching("Scanned", "rows"))),
        Effect.tap(({ found, rows }) =>
          recorded("project.scanned", Option.getOrNull(project), { rows: `${rows}`, found: `${found.length}` })
        )
      )
    ),
  print: ({ found, more, rows }) => [
    ...facts({ rows, found: found.length }),
    ...table(found, ["project_id", "table", "id", "field", "kind"], "No secret is stored."),
    ...(more ? ["There may be more: the scan ended here."] : []),
    next("list-audit-events", found.length === 0 ? "" : "replace each secret where it is used; see emergencies.md")
  ],
  ok: ({ ok }) => ok
})

export const projects = [createProject, listProjects, showProject, disableProject, enableProject, scanProject]
