/** Codes of the operator's commands for bootstrap credentials. */
import { fromTable, type RefusalOf } from "../../wire/Refusal.ts"
import { operatorTable as bridgeOperatorTable } from "../identity/Errors.ts"

const operatorTable = {
  ...bridgeOperatorTable,
  project_disabled: [409, "The project is disabled; enable it first."],
  credential_not_found: [404, "There is no such bootstrap credential; see list-bridge-enrollment-credentials."],
  /** Only an enrolled Bridge can be re-enrolled. */
  bridge_not_active: [409, "This Bridge has not enrolled yet; issue an ordinary credential."]
} as const

export type CredentialRefusal<Code extends keyof typeof operatorTable = keyof typeof operatorTable> = RefusalOf<
  typeof operatorTable,
  Code
>
export const { refuse: refuseCredential } = fromTable(operatorTable)
