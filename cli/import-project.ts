import { Effect } from "effect"
import { command, using } from "./support/command.ts"
import * as Flags from "./support/flags.ts"
import { facts, next } from "./support/print.ts"
import { progress } from "./support/progress.ts"
import { contents } from "./support/wholeFile.ts"

export const importProject = command("import-project", {
  description: "Add what a project does not have yet from a file of export-project, all or nothing; may be repeated",
  flags: { project: Flags.project, in: Flags.path("in", "A file that export-project wrote") },
  run: ({ in: path, project }) =>
    using(({ transfer }) =>
      Effect.map(transfer.load(project, contents(path), progress("Imported")), (counts) => ({
        project_id: project,
        ...counts
      }))
    ),
  print: (loaded) => [...facts(loaded), next(`list-audit-events --project ${loaded.project_id}`)]
})
