/** How a Bridge reacts to the codes of spec 7.2, read from the tables that declare them. */
import type { Reaction, RefusalTable } from "../Refusal.ts"
import { enrollmentTable } from "./EnrollmentApi.ts"
import { keysTable } from "./KeysApi.ts"

const table: RefusalTable = { ...enrollmentTable, ...keysTable }

/** Undefined for a tag that is not a code of the service: a failure on the client's side. */
export const reactionTo = ({ _tag }: { readonly _tag: string }): Reaction | undefined => table[_tag]?.[2]
