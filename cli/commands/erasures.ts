/** What destroys: entries, tasks, documents, whole projects. */
import { Data, Effect, Option } from "effect"
import { Flag } from "effect/cli"
import { command, using } from "../support/command.ts"
import * as Flags from "../support/Flags.ts"
import { facts, next } from "../support/Print.ts"

const yes = Flag.Boolean("yes").pipe(
  Flag.withDescription("Confirms it: nothing brings back what is erased"),
  Flag.withDefault(false)
)

const unconfirmed = "Nothing brings back what is erased. Repeat the command with --yes."

/** What no command reaches. */
const remains =
  "Its text can remain for a while in PostgreSQL's files (until VACUUM and the recycling of WAL), and as long as you keep them in backups, replicas and exports."

const purge = (kind: "memory" | "task" | "document", flag: string, of: string, description: string) =>
  command(`purge-${kind}`, {
    description,
    flags: { project: Flags.project, id: Flags.uuid(flag, `Id of the ${of}`), yes },
    refuse: ({ yes }) => (yes ? undefined : unconfirmed),
    run: ({ id, project }) => using(({ erasures, persistently }) => persistently(erasures.purge(kind, project, id))),
    print: (purged) => [...facts(purged), remains, next(`list-audit-events --project ${purged.project_id}`)]
  })

const deleteProject = command("delete-project", {
  description: "Delete a disabled project with everything in it, after seven days or at once",
  flags: {
    project: Flags.project,
    name: Flags.label("name", 120, "Name of the project, to confirm that this is the one").pipe(Flag.optional),
    yes,
    now: Flag.Boolean("now").pipe(
      Flag.withDescription("Delete it at once; enable-project cannot undo that"),
      Flag.withDefault(false)
    )
  },
  refuse: ({ name, yes }) =>
    yes || Option.isSome(name)
      ? undefined
      : "Nothing brings back what is erased. Confirm with --name NAME, the name of the project, or with --yes.",
  run: ({ name, now, project }) =>
    using(({ erasures, persistently, projects }) =>
      Effect.gen(function* () {
        const found = yield* projects.find(project)
        if (Option.isSome(name) && found.name !== name.value) return yield* new OtherName()
        return yield* persistently(erasures.deleteProject(project, now ? "now" : "later"))
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

class OtherName extends Data.TaggedError("OtherName") {
  override readonly message = "The project has another name; see list-projects. Nothing was deleted."
}

export const erasures = [
  purge("memory", "entry", "entry", "Erase a memory entry and everything derived from it"),
  purge("task", "task", "task", "Erase a task with its receipts and notes"),
  purge("document", "document", "document", "Erase a pinned document"),
  deleteProject
]
