/** What an operator token allows: to look, or also to change. */
import { Schema } from "effect"

export const operatorScopes = ["operator:read", "operator:write"] as const
export const OperatorScope = Schema.Literals(operatorScopes)
export type OperatorScope = typeof OperatorScope.Type
