/** The codes of passkeys: of the script's requests and of the operator's commands. */
import { projectTable } from "../../operator/projects/Errors.ts"
import { sharedTable } from "../../wire/Errors.ts"
import { fromTable, type RefusalOf } from "../../wire/Refusal.ts"

const table = {
  bridge_persistence_error: sharedTable.bridge_persistence_error,
  invalid_request: sharedTable.invalid_request,
  project_not_found: projectTable.project_not_found,
  foreign_form: [403, "The request was not sent by a page of this service."],
  token_session_required: [403, "Sign in to the console with the project token to add a passkey."],
  person_key_unavailable: [409, "Passkeys need an address with a host name: set SERVICE_BASE_URL to one."],
  person_key_invalid: [422, "The passkey could not be checked. Try again."],
  person_key_label_invalid: [422, "A passkey's name is one line of 1 to 80 visible characters, without a secret."],
  person_key_limit: [409, "A project token has at most 10 passkeys. Remove one first."],
  person_key_not_found: [404, "There is no such passkey."]
} as const

export type PersonKeyRefusal<Code extends keyof typeof table = keyof typeof table> = RefusalOf<typeof table, Code>
export const { refuse } = fromTable(table)
