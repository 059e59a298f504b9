/** Describes the first error of a schema for a message: the field and what is expected, never the value that was sent. */
import { SchemaIssue } from "effect"

const issuesOf = SchemaIssue.makeFormatterStandardSchemaV1()

export const firstIssue = (issue: SchemaIssue.Issue): readonly [field: string, reason: string] => {
  const [{ message, path = [] } = { message: "Expected something else" }] = issuesOf(issue).issues
  // An unknown field is not named: its name is input too.
  const unknown = message === "Expected no excess property" || message === "Expected never"
  const named = (unknown ? path.slice(0, -1) : path).map((part) => (typeof part === "object" ? part.key : part))
  return [named.join("."), unknown ? "Unknown parameter" : message === "Missing key" ? "Is required" : message]
}
