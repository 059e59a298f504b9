/**
 * Makes whole ids of what an operator typed: the beginning of an id, or the name of a project. Whatever fits two things is
 * refused, with both. Without --project, the only project.
 */
import { Data, Effect, Option, Predicate } from "effect"
import type { Candidate, Kind } from "../../src/people/operator/Contents.ts"
import { calledAs } from "../../src/platform/process/CalledAs.ts"
import { nil } from "../../src/wire/Ids.ts"
import { onlyProject } from "./Flags.ts"
import { using } from "./services/using.ts"

class IdAmbiguous extends Data.TaggedError("IdAmbiguous")<{ readonly message: string }> {}
class NoProject extends Data.TaggedError("UsageError")<{ readonly message: string }> {}
class IdNotFound extends Data.TaggedError("IdNotFound")<{ readonly message: string }> {}

/** The flags that take an id, and what it is of. */
const kinds: Readonly<Record<string, Kind>> = {
  credential: "credential",
  token: "token",
  grant: "grant",
  key: "key",
  session: "session",
  device: "device",
  channel: "channel",
  task: "task",
  entry: "entry"
}

const whole = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

const textOf = (value: unknown): string | undefined => {
  const given = Option.isOption(value) ? Option.getOrUndefined(value) : value
  return Predicate.isString(given) ? given : undefined
}

const withText = (value: unknown, text: string) => (Option.isOption(value) ? Option.some(text) : text)

const theOne = (what: string, given: string, found: ReadonlyArray<Candidate>) => {
  const [first, second] = found
  if (first === undefined) return new IdNotFound({ message: `There is no ${what} whose id begins with ${given}.` })
  if (second === undefined) return Effect.succeed(first.id)
  const listed = found.slice(0, 5).map(({ id, name }) => (name === null ? id : `${id} (${name})`))
  return new IdAmbiguous({
    message: `"${given}" fits more than one ${what}; give more of the id: ${listed.join(", ")}${found.length > 5 ? ", ..." : ""}`
  })
}

const theOnly = ([first, second]: ReadonlyArray<{ readonly project_id: string }>) => {
  if (first === undefined)
    return new NoProject({ message: `There are no projects yet; to set one up: ${calledAs("service-admin")} init` })
  if (second === undefined) return Effect.succeed(first.project_id)
  return new NoProject({
    message: "There is more than one project: pass --project, or set SERVICE_PROJECT; see list-projects."
  })
}

export const withWholeIds = <Flags>(flags: Flags) => {
  const given = Object.entries(flags as object).flatMap(([name, value]) => {
    const text = textOf(value)?.toLowerCase()
    const isId = name === "project" || Object.hasOwn(kinds, name)
    return isId && text !== undefined && !whole.test(text) ? [name] : []
  })
  if (given.length === 0) return Effect.succeed(flags)
  return using(({ contents, projects }) =>
    Effect.gen(function* () {
      const all: Record<string, unknown> = { ...(flags as object) }
      const project = textOf(all["project"])
      if (project === onlyProject) {
        const found = yield* projects.list({ after: undefined, limit: 2 })
        all["project"] = withText(all["project"], yield* theOnly(found))
      } else if (project !== undefined && given.includes("project")) {
        const found = yield* contents.projectsNamed(project)
        // Without a fit, the project's own refusal says so.
        if (found.length === 0) return yield* projects.find(nil).pipe(Effect.as(flags))
        all["project"] = withText(all["project"], yield* theOne("project", project, found))
      }
      for (const name of given.filter((name) => name !== "project")) {
        const text = textOf(all[name])!
        const found = yield* contents.idsFrom(kinds[name]!, text, textOf(all["project"]))
        all[name] = withText(all[name], yield* theOne(name, text, found))
      }
      return all as Flags
    })
  )
}
