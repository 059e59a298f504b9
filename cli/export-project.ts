import { Effect } from "effect"
import * as fs from "node:fs"
import { command, using } from "./support/command.ts"
import * as Flags from "./support/flags.ts"
import { facts, next } from "./support/print.ts"
import { fileWork } from "./support/secretFile.ts"
import { inPlace } from "./support/wholeFile.ts"
import { progress } from "./support/progress.ts"

export const exportProject = command("export-project", {
  description: "Write memory, tasks and receipts of a project into a new file, while the server runs or not",
  flags: { project: Flags.project, out: Flags.path("out", "The new file, JSON Lines") },
  run: ({ out, project }) =>
    using(({ transfer }) =>
      inPlace(out, (file) =>
        transfer.save(project, (text) => fileWork(out, () => fs.writeFileSync(file, text)), progress("Exported"))
      ).pipe(Effect.map((counts) => ({ file: out, project_id: project, ...counts })))
    ),
  print: (saved) => [...facts(saved), next(`import-project --project ID --in ${saved.file}`)]
})
