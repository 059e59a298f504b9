import { Effect } from "effect"
import { command, using } from "./support/command.ts"
import * as Flags from "./support/flags.ts"
import { facts, next } from "./support/print.ts"

export const unpinDocument = command("unpin-document", {
  description: "Take a pinned document away from the agents of its project",
  flags: { document: Flags.uuid("document", "Id of the document; see list-documents") },
  run: ({ document }) =>
    using(({ documents }) => Effect.as(documents.unpin(document), { document_id: document, status: "unpinned" })),
  print: (unpinned) => [...facts(unpinned), next("list-documents --project ID")]
})
