/** Errors of the operator's commands about devices. */
import { projectTable } from "../../operator/projects/Errors.ts"
import { fromTable, type RefusalOf } from "../../wire/Refusal.ts"

const operatorTable = {
  ...projectTable,
  device_not_found: [404, "There is no such device; see list-devices."]
} as const

export type DeviceOperatorRefusal<Code extends keyof typeof operatorTable = keyof typeof operatorTable> = RefusalOf<
  typeof operatorTable,
  Code
>
export const { refuse: refuseOperator } = fromTable(operatorTable)
