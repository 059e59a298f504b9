/** Where something stands in a source, and the refusal that names the place. */
import { Effect, Result, Schema } from "effect"
import { firstIssue } from "../../../wire/Issue.ts"
import { withDetails } from "../../../wire/Refusal.ts"
import { refuse } from "../../continuity/Errors.ts"

export interface SourceFile {
  /** Relative to the source, with `/`. */
  readonly path: string
  readonly bytes: Uint8Array
}

/** `line` counts from 1. */
export interface Place {
  readonly file: string
  readonly line: number
}

export const invalid = ({ file, line }: Place, reason: string) =>
  withDetails(
    refuse("import_invalid"),
    { file, line, reason },
    `${file}, line ${line}: ${reason}. Nothing was imported.`
  )

/** Decodes the fields that are used of an object; it may have others. */
export const fieldsOf = <A>(schema: Schema.Codec<A, unknown>) => {
  const decode = Schema.decodeUnknownResult(schema)
  return (place: Place, value: unknown) => {
    const result = decode(value)
    if (Result.isSuccess(result)) return Effect.succeed(result.success)
    const [field, reason] = firstIssue(result.failure.issue)
    return invalid(place, field === "" ? reason : `${field}: ${reason}`)
  }
}
