/** Codes of the operator's commands for devices. The codes of the mobile API are in wire/mobile/MobileApi.ts. */
import { projectTable } from "../../operator/projects/Errors.ts"
import { fromTable, type RefusalOf } from "../../wire/Refusal.ts"

const table = {
  ...projectTable,
  device_not_found: [404, "There is no such device; see list-devices."]
} as const

const operationCodes = {
  list: ["project_not_found", "bridge_persistence_error"],
  end: ["device_not_found", "bridge_persistence_error"]
} as const satisfies Record<string, ReadonlyArray<keyof typeof table>>

export type DeviceOperatorRefusal<Of extends keyof typeof operationCodes> = RefusalOf<
  typeof table,
  (typeof operationCodes)[Of][number]
>
export const { refuse: refuseOperator } = fromTable(table)
