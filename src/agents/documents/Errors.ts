/** What the document tools refuse (spec 4.11), and what pinning refuses the operator. */
import { projectTable } from "../../operator/projects/Errors.ts"
import { fromTable, type RefusalOf } from "../../wire/Refusal.ts"

const table = {
  ...projectTable,
  /** Unknown, unpinned, and another project's are one answer. */
  document_not_pinned: [404, "The project has no such pinned document; see runtime_bootstrap_get."],
  /** `details`: `blob_oid`, `total_bytes` and, where there is one, the nearest `boundary` before. */
  document_fragment_invalid: [400, "The document has no such fragment; see the details."],
  document_not_text: [422, "The file is not UTF-8 text without NUL."],
  /** The stored bytes are not what was pinned. */
  document_unavailable: [500, "The document cannot be read; ask the operator to pin it again."],
  document_not_found: [404, "There is no such pinned document; see list-documents."],
  document_path_invalid: [400, "Name the file by its relative path in the repository, such as docs/guide.md."],
  document_commit_invalid: [400, "Name the commit by its full hash; the repository must have it."],
  document_path_not_found: [404, "The commit has no such file."],
  /** A symbolic link, a submodule or a folder; none is followed. */
  document_not_a_file: [422, "Only a regular file can be pinned, no link, submodule or folder."],
  document_too_large: [413, "The file is larger than 1 MiB."],
  document_is_lfs_pointer: [422, "The file is a Git LFS pointer; its content is not in the repository."],
  document_repository_unusable: [422, "git cannot read this repository; give the folder of a full local clone."],
  git_missing: [500, "The git program was not found; install it to pin documents."]
} as const

export type DocumentRefusal<Code extends keyof typeof table = keyof typeof table> = RefusalOf<typeof table, Code>
export const { codes, refuse } = fromTable(table)
