/** Error codes of the MCP endpoint itself, over HTTP and in tool results (spec 7.4). */
import { sharedTable } from "../../wire/Errors.ts"
import { fromTable, type Refusal } from "../../wire/Refusal.ts"
import { withoutStatus } from "../continuity/ToolErrors.ts"

const table = {
  ...sharedTable,
  /** The request comes from a web page of another site. */
  origin_not_allowed: [403, "Requests from this web page are not allowed; see SERVICE_ALLOWED_ORIGINS."],
  ...withoutStatus({
    /** Absent or null. */
    write_context_required: "Send write_context; server_identity returns the one to copy.",
    /** Not exactly the resource, the instance and the project of this credential. */
    write_context_mismatch: "write_context is of another service or project; copy it from server_identity."
  }),
  internal_error: [500, "The service failed. Retry once; if it fails again, tell its operator when it did."],
  bridge_persistence_error: [
    503,
    "The service cannot reach its data; retry, with the same idempotency_key if you sent one."
  ]
} as const

export const { codes, refuse } = fromTable(table)

/** An `isError` result, without structuredContent, because older clients validate it against the output schema. */
export const failure = (refusal: Refusal) => {
  const { _tag, details, message } = withToolSentence(refusal)
  return {
    isError: true,
    content: [{ type: "text" as const, text: JSON.stringify({ error: { code: _tag, message, details } }) }]
  }
}

/** Replaces the sentence for HTTP clients, which mentions a header, by one about idempotency_key. */
const withToolSentence = (refusal: Refusal) =>
  refusal._tag === "bridge_persistence_error" ? refuse("bridge_persistence_error") : refusal
