/** Describes the first error of a schema for a message: the field and what is expected, never the value that was sent. */
import { SchemaIssue } from "effect"

const issuesOf = SchemaIssue.makeFormatterStandardSchemaV1()

/**
 * `unknown` is the name of a field that the schema does not have. It is input like a value, so the field is the one around
 * it.
 */
export const firstIssue = (
  issue: SchemaIssue.Issue
): readonly [field: string, reason: string, unknown?: string | undefined] => {
  const [{ message, path = [] } = { message: "Expected something else" }] = issuesOf(issue).issues
  const names = path.map((part) => String(typeof part === "object" ? part.key : part))
  if (message === "Expected no excess property" || message === "Expected never")
    return [names.slice(0, -1).join("."), "Unknown parameter", names.at(-1)]
  return [names.join("."), message === "Missing key" ? "Is required" : message]
}
