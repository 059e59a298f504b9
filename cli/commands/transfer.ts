/** What a project holds, to files and back, and what was kept elsewhere. */
import { Effect, Option } from "effect"
import { Argument, Flag } from "effect/cli"
import { writeFileSync } from "node:fs"
import { formats } from "../../src/agents/transfer/sources/formats.ts"
import { shellWord } from "../../src/operator/ShellWord.ts"
import { command, using } from "../support/frames/command.ts"
import { writeFolder } from "../support/files/ExportFolder.ts"
import * as Flags from "../support/Flags.ts"
import { facts, next, table } from "../support/terminal/Print.ts"
import { watching } from "../support/terminal/progress.ts"
import { fileWork } from "../support/files/SecretFiles.ts"
import { sourceFiles } from "../support/files/SourceFiles.ts"
import { watchedContents, writeWhole } from "../support/files/WholeFiles.ts"

const exportProject = command("export-project", {
  description: "Write a project's memory, tasks and receipts to a new file; the server may be running",
  flags: {
    project: Flags.project,
    format: Flag.Literals("format", ["jsonl", "markdown"]).pipe(
      Flag.withDescription("jsonl: everything, for import-project; markdown: a folder of notes and tasks to review"),
      Flag.withDefault("jsonl" as const)
    ),
    out: Flags.path("out", "New file to write, JSON Lines; with --format markdown, a new or empty folder")
  },
  run: ({ format, out, project }) =>
    using(({ recorded, transfer }) => {
      const record = recorded("project.exported", project)
      const asFolder = writeFolder(out, (write) => transfer.saveMarkdown(project, write), record)
      const asFile = writeWhole(out, (file) =>
        Effect.tap(
          transfer.save(project, (text) => fileWork(out, () => writeFileSync(file, text))),
          record
        )
      )
      const exporting = watching("Exported", "rows")
      return Effect.gen(function* () {
        const counts: object = yield* format === "markdown" ? exporting(asFolder) : exporting(asFile)
        return { file: out, project_id: project, ...counts }
      })
    }),
  print: (saved) => [
    ...facts(saved),
    next(
      "receipt" in saved
        ? `import-project --project ID --in ${saved.file}`
        : `import-memory --project ID --from markdown --dry-run ${shellWord(saved.file)}`
    )
  ]
})

const importProject = command("import-project", {
  description: "Add the rows of an export-project file that the project lacks, all or nothing; safe to repeat",
  flags: { project: Flags.project, in: Flags.path("in", "File written by export-project") },
  run: ({ in: path, project }) =>
    using(({ transfer }) =>
      Effect.map(transfer.load(project, watchedContents(path)).pipe(watching("Imported", "MB")), (counts) => ({
        project_id: project,
        ...counts
      }))
    ),
  print: (loaded) => [...facts(loaded), next(`list-audit-events --project ${loaded.project_id}`)]
})

const importMemory = command("import-memory", {
  description:
    "Bring notes and tasks that were kept elsewhere, or a folder of export-project --format markdown, all or nothing; safe to repeat",
  flags: {
    project: Flags.project,
    from: Flag.Literals("from", formats).pipe(Flag.withDescription("What wrote the source")),
    label: Flags.label("label", 60, "Names the source within the project (default: the folder's name)").pipe(
      Flag.optional
    ),
    dryRun: Flag.Boolean("dry-run").pipe(
      Flag.withDescription("Only say what would become of what"),
      Flag.withDefault(false)
    ),
    path: Argument.String("path").pipe(Argument.withDescription("Folder or file to read"))
  },
  run: ({ dryRun, from, label, path, project }) =>
    using(({ transfer }) =>
      Effect.gen(function* () {
        const found = yield* sourceFiles(path, from)
        const source = { format: from, files: found.files, label: Option.getOrElse(label, () => found.label) }
        const { counts, lines } = yield* transfer.bring(project, source, dryRun).pipe(watching("Imported", "items"))
        const shown = dryRun ? lines : lines.filter(({ done }) => done !== "added" && done !== "unchanged")
        return { project_id: project, label: source.label, dry_run: dryRun, ...counts, items: shown }
      })
    ),
  print: ({ items, ...imported }) => [
    ...facts(imported),
    ...table(
      items.map(({ file, line, ...item }) => ({ ...item, from: line === null ? file : `${file}:${line}` })),
      ["done", "is", "id", "from", "title", "why"],
      imported.dry_run ? "The source is empty." : "Nothing was superseded, updated, archived, kept or skipped."
    ),
    next(imported.dry_run ? "import-memory without --dry-run" : `list-memory --project ${imported.project_id}`)
  ]
})

export const transfer = [exportProject, importProject, importMemory]
