/** Error codes of the document tools (spec 4.11), and of the operator's commands for pinned documents. */
import { projectTable } from "../../operator/projects/Errors.ts"
import { sharedTable } from "../../wire/Errors.ts"
import { fromTable, type RefusalOf } from "../../wire/Refusal.ts"
import { withoutStatus } from "../continuity/ToolErrors.ts"

const table = {
  ...sharedTable,
  project_not_found: projectTable.project_not_found,
  ...withoutStatus({
    /** One code for documents that are unknown, unpinned or in another project. */
    document_not_pinned: "The project has no such pinned document; see runtime_bootstrap_get.",
    /** `details`: `blob_oid`, `total_bytes` and, if a character is split, the `boundary` before it. */
    document_fragment_invalid: "The document has no such fragment; see the details.",
    document_not_text: "The file is not UTF-8 text without NUL.",
    /** The stored bytes differ from the pinned ones. */
    document_unavailable: "The document cannot be read; ask the operator to pin it again.",
    document_not_found: "There is no such pinned document; see list-documents.",
    document_path_invalid: "Name the file by its relative path in the repository, such as docs/guide.md.",
    document_commit_invalid: "Name the commit by its full hash; the repository must have it.",
    document_path_not_found: "The commit has no such file.",
    /** A symbolic link, a submodule or a folder; none is followed. */
    document_not_a_file: "Only a regular file can be pinned, no link, submodule or folder.",
    document_too_large: "The file, its commit or a folder on its path is larger than 1 MiB in git.",
    document_is_lfs_pointer: "The file is a Git LFS pointer; its content is not in the repository.",
    document_repository_unusable: "git cannot read this repository; give the folder of a full local clone.",
    /** The message names the file and, in a configuration, the setting. */
    document_repository_unsafe: "Pin from a fresh clone of the account that runs this command: git clone ADDRESS.",
    git_missing: "The git program was not found; install it to pin documents."
  })
} as const

export type DocumentRefusal<Code extends keyof typeof table = keyof typeof table> = RefusalOf<typeof table, Code>
export const { codes, refuse } = fromTable(table)
