/** Pinned documents: single files of one commit that the agents of a project may read. */
import { Effect, Option } from "effect"
import { Flag } from "effect/cli"
import { resolve } from "node:path"
import { command, using } from "../support/frames/command.ts"
import * as Flags from "../support/Flags.ts"
import { list } from "../support/frames/list.ts"
import { facts, next } from "../support/terminal/Print.ts"

const pinFlags = {
  project: Flags.project,
  repository: Flags.path("repository", "Folder of a local clone; read only now"),
  label: Flags.label("label", 200, "Name of the repository as agents see it, such as acme/shop"),
  commit: Flags.label("commit", 64, "Full hash of the commit"),
  path: Flags.path("path", "File in the repository, such as docs/guide.md"),
  title: Flags.label("title", 200, "Title of the document as agents see it (default: its path)").pipe(Flag.optional),
  bootstrap: Flag.Boolean("bootstrap").pipe(
    Flag.withDescription("List the document first, as one to start with"),
    Flag.withDefault(false)
  )
}

const pinDocument = command("pin-document", {
  description: "Copy one file of one commit into the database for the agents of a project to read",
  flags: pinFlags,
  run: ({ bootstrap, commit, label, path, project, repository, title }) =>
    using(({ documents }) =>
      Effect.map(
        documents.pin({
          project_id: project,
          directory: resolve(repository),
          repository: label,
          commit,
          path,
          title: Option.getOrElse(title, () => path),
          bootstrap
        }),
        (pinned) => ({ ...pinned, project_id: project })
      )
    ),
  print: (pinned) => [...facts(pinned), next(`list-documents --project ${pinned.project_id}`)]
})

const listDocuments = list("list-documents", {
  description: "List the pinned documents of a project",
  flags: { project: Flags.project },
  after: Flags.uuid("after", ""),
  key: "document_id",
  page: ({ documents }, { project }, page) => documents.list(project, page),
  columns: ["document_id", "repository", "commit", "path", "title", "size_bytes", "bootstrap", "pinned_at"],
  none: "The project has no pinned documents.",
  next: ({ length }, { project }) =>
    length === 0
      ? `pin-document --project ${project} --repository DIR --label NAME --commit HASH --path FILE`
      : "unpin-document --document ID"
})

const unpinDocument = command("unpin-document", {
  description: "Remove a pinned document; the agents of its project can no longer read it",
  remote: "write",
  flags: { document: Flags.uuid("document", "Id of the document; see list-documents") },
  run: ({ document }) =>
    using(({ documents }) => Effect.as(documents.unpin(document), { document_id: document, status: "unpinned" })),
  print: (unpinned) => [...facts(unpinned), next("list-documents --project ID")]
})

export const documents = [pinDocument, listDocuments, unpinDocument]
