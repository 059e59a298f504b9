import { Effect } from "effect"
import { command, using } from "./support/command.ts"
import * as Flags from "./support/flags.ts"
import { facts, next } from "./support/print.ts"

export const archiveMemory = command("archive-memory", {
  description: "Take a memory entry out of use without a successor; it stays readable by its id",
  flags: { project: Flags.project, entry: Flags.uuid("entry", "Id of the entry") },
  run: ({ entry, project }) =>
    using(({ memory }) =>
      Effect.map(memory.archive(project, entry), ({ active, id, kind, title }) => ({
        project_id: project,
        id,
        kind,
        title,
        active
      }))
    ),
  print: (archived) => [...facts(archived), next(`list-audit-events --project ${archived.project_id}`)]
})
