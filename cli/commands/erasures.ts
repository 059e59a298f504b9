/** What destroys: entries, tasks, documents, whole projects. */
import { Console, Data, Effect, Option } from "effect"
import { Flag } from "effect/cli"
import { writeFileSync } from "node:fs"
import { command, using } from "../support/frames/command.ts"
import * as Flags from "../support/Flags.ts"
import { irreversible } from "../support/frames/irreversible.ts"
import { watching } from "../support/terminal/progress.ts"
import { facts, next, table } from "../support/terminal/Print.ts"
import { fileWork } from "../support/files/SecretFiles.ts"
import { writeWhole } from "../support/files/WholeFiles.ts"

const waiting = (seconds: number) =>
  process.stderr.isTTY
    ? Console.error(`Waiting ${seconds} s for requests that began before the project was disabled.`)
    : Effect.void

/** What no command reaches. */
const remains =
  "Its text can remain for a while in PostgreSQL's files (until VACUUM and the recycling of WAL), and as long as you keep them in backups, replicas and exports."

const purge = (kind: "memory" | "task" | "document", flag: string, of: string, description: string) =>
  irreversible(`purge-${kind}`, {
    description,
    remote: "write",
    flags: { project: Flags.thatProject, id: Flags.uuid(flag, `Id of the ${of}`) },
    losses: ({ id, project }) => using(({ losses }) => losses[kind](project, id)),
    destroys: true,
    run: ({ id, project }) => using(({ erasures, persistently }) => persistently(erasures.purge(kind, project, id))),
    print: (purged) => [...facts(purged), remains, next(`list-audit-events --project ${purged.project_id}`)]
  })

const deleteProject = irreversible("delete-project", {
  description: "Delete a disabled project with everything in it, after seven days or at once",
  remote: "write",
  flags: {
    project: Flags.thatProject,
    name: Flags.label("name", 120, "Name of the project, to confirm that this is the one").pipe(Flag.optional),
    now: Flag.Boolean("now").pipe(
      Flag.withDescription("Delete it at once; enable-project cannot undo that"),
      Flag.withDefault(false)
    )
  },
  losses: ({ project }) => using(({ losses }) => losses.project(project)),
  destroys: true,
  isConfirmed: ({ name }) => Option.isSome(name),
  run: ({ name, now, project }) =>
    using(({ erasures, persistently, projects }) =>
      Effect.gen(function* () {
        const found = yield* projects.find(project)
        if (Option.isSome(name) && found.name !== name.value) return yield* new OtherName()
        return yield* persistently(erasures.deleteProject(project, now ? "now" : "later", waiting)).pipe(
          watching("Emptied", "tables")
        )
      })
    ),
  print: ({ delete_after, deleted_at, project_id }) => [
    ...facts({ project_id, delete_after, deleted_at }),
    ...(deleted_at === null ? [] : [remains]),
    deleted_at === null
      ? next(`enable-project --project ${project_id}`, "undoes it until then")
      : next(`list-audit-events --project ${project_id}`)
  ]
})

const subjectFlags = {
  project: Flags.thatProject,
  label: Flags.label("label", 120, "What the person's project tokens are called; see list-project-tokens")
}

const exportSubject = command("export-subject", {
  description: "Write everything about the holder of a project token's label to a new file",
  flags: { ...subjectFlags, out: Flags.path("out", "New file to write, JSON Lines") },
  run: ({ label, out, project }) =>
    using(({ erasures, recorded }) =>
      writeWhole(out, (file) =>
        Effect.tap(
          erasures.exportSubject(project, label, (text) => fileWork(out, () => writeFileSync(file, text))),
          recorded("subject.exported", project)
        )
      ).pipe(Effect.map((counts) => ({ file: out, project_id: project, ...counts })))
    ),
  print: (saved) => [...facts(saved), next(`erase-subject --project ${saved.project_id} --label LABEL --yes`)]
})

const eraseSubject = irreversible("erase-subject", {
  description: "End the tokens with a label, delete devices and sessions, and replace the label by a pseudonym",
  remote: "write",
  flags: subjectFlags,
  losses: ({ label, project }) => using(({ losses }) => losses.subject(project, label)),
  destroys: true,
  run: ({ label, project }) =>
    using(({ erasures, persistently }) => persistently(erasures.eraseSubject(project, label))),
  print: ({ project_id, tokens }) => [
    ...table(tokens, ["token_id", "pseudonym"], ""),
    "What the person wrote stays; purge-memory and purge-task destroy it. Addresses in the audit log go with its retention.",
    next(`list-project-tokens --project ${project_id}`)
  ]
})

class OtherName extends Data.TaggedError("OtherName") {
  override readonly message = "The project has another name; see list-projects. Nothing was deleted."
}

export const erasures = [
  purge("memory", "entry", "entry", "Erase a memory entry and everything derived from it"),
  purge("task", "task", "task", "Erase a task with its receipts and notes"),
  purge("document", "document", "document", "Erase a pinned document"),
  deleteProject,
  exportSubject,
  eraseSubject
]
