/** Memory entries of a project. */
import { Effect } from "effect"
import { command, using } from "../support/command.ts"
import * as Flags from "../support/Flags.ts"
import { facts, next } from "../support/Print.ts"

const archiveMemory = command("archive-memory", {
  description: "Archive a memory entry: searches no longer find it, reading it by its id still works",
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

export const memory = [archiveMemory]
