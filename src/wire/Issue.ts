/** The first thing that a schema found wrong, as a person can act on it: where, and what is expected there; never what was sent. */
import { SchemaIssue } from "effect"

const issuesOf = SchemaIssue.makeFormatterStandardSchemaV1()

export const firstIssue = (issue: SchemaIssue.Issue): readonly [field: string, reason: string] => {
  const [{ message, path = [] } = { message: "Expected something else" }] = issuesOf(issue).issues
  // What is unknown is not named: the name was sent too.
  const unknown = message === "Expected no excess property" || message === "Expected never"
  const named = (unknown ? path.slice(0, -1) : path).map((part) => (typeof part === "object" ? part.key : part))
  return [named.join("."), unknown ? "Unknown parameter" : message === "Missing key" ? "Is required" : message]
}
