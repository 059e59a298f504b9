/** The console: a link that signs the operator in, and the sessions of browsers. */
import { Effect, Option, Redacted } from "effect"
import { Flag } from "effect/cli"
import { openInBrowser } from "../support/terminal/browser.ts"
import { command, using } from "../support/frames/command.ts"
import { CurrentOperator, operator } from "../../src/platform/settings/Operator.ts"
import * as Flags from "../support/Flags.ts"
import { list } from "../support/frames/list.ts"
import { facts, next } from "../support/terminal/Print.ts"

const openConsole = command("open-console", {
  description: "Print a link that signs you in to the console as operator, once, within five minutes",
  flags: { project: Flags.anyProject("Id or name of a project; default: all of them").pipe(Flag.optional) },
  run: ({ project }, asJson) =>
    Effect.gen(function* () {
      const made = yield* using(({ sessions }) => sessions.makeLink(operator, Option.getOrUndefined(project)))
      const url = Redacted.value(made.url)
      if (!asJson) yield* openInBrowser(url)
      return { url, expires_at: made.expires_at }
    }),
  print: (link) => [...facts(link), next("list-console-sessions")]
})

const listConsoleSessions = list("list-console-sessions", {
  description: "List the browsers that are signed in to the console",
  flags: { project: Flags.anyProject("Id or name of a project; default: all of them").pipe(Flag.optional) },
  recorded: "console_session.listed",
  after: Flags.uuid("after", ""),
  key: "session_id",
  page: ({ projects, sessions }, { project }, page) =>
    Effect.andThen(
      Effect.transposeOption(Option.map(project, projects.find)),
      sessions.list(Option.getOrUndefined(project), page)
    ),
  columns: ["session_id", "actor", "project_id", "created_at", "last_used_at", "expires_at", "user_agent"],
  none: "Nobody is signed in to the console.",
  next: ({ length }) => (length === 0 ? "open-console" : "end-console-session --session ID")
})

const endConsoleSession = command("end-console-session", {
  description: "Sign a browser out of the console",
  remote: "write",
  flags: { session: Flags.id("session", "Id of the session; see list-console-sessions") },
  run: ({ session }) =>
    using(({ sessions }) =>
      Effect.flatMap(CurrentOperator, (operator) => Effect.as(sessions.end(session, operator), { session_id: session }))
    ),
  print: (ended) => [...facts(ended), next("list-console-sessions")]
})

export const sessions = [openConsole, listConsoleSessions, endConsoleSession]
