/** Codes of the operator's commands for Bridges. */
import { projectTable } from "../../operator/projects/Errors.ts"
import { bridgeTable } from "../../wire/bridges/BridgeErrors.ts"
import { fromTable, type RefusalOf } from "../../wire/Refusal.ts"

export const operatorTable = {
  ...projectTable,
  bridge_not_found: [404, "The project has no such Bridge; see list-bridges."],
  bridge_not_active: [409, "The Bridge is not enrolled, or was revoked; see show-bridge."],
  bridge_revoked: bridgeTable.bridge_revoked
} as const

export type OperatorRefusal<Code extends keyof typeof operatorTable = keyof typeof operatorTable> = RefusalOf<
  typeof operatorTable,
  Code
>
export const { refuse: refuseOperator } = fromTable(operatorTable)
