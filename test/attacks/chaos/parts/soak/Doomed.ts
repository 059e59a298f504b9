/**
 * Projects that are imported from an export of another, filled with everything a project can have, and erased. At the end no
 * row of any table is theirs.
 */
import { Context, Effect, Exit, Option, Stream } from "effect"
import { Transfer } from "../../../../../src/agents/transfer/Transfer.ts"
import { Projects } from "../../../../../src/operator/projects/Projects.ts"
import { Erasures } from "../../../../../src/people/erasure/Erasures.ts"
import { makeToken } from "../../../../support/agents/Agent.ts"
import { Person } from "../../../../support/people/Console.ts"
import { Agent } from "../../../../support/agents/McpAgent.ts"
import { Bridge, makeProject } from "../../../../support/bridges/Bridge.ts"
import type { Load } from "../Load.ts"
import type { Ground } from "./Ground.ts"
import { makeBells } from "./Library.ts"
import type { Weather } from "./Weather.ts"

/** In the texts of these projects, and nowhere else. */
const marker = "unforgettablewords"

interface Given extends Pick<Ground, "on" | "query"> {
  readonly load: Load
  /** The project that is exported. */
  readonly source: string
  readonly weather: Weather
  /** Milliseconds between two projects. */
  readonly rest: number
}

export const makeDoomed = ({ load, on, query, rest, source, weather }: Given) => {
  const { services } = on
  const transfer = Context.get(services, Transfer)
  const projects = Context.get(services, Projects)
  const erasures = Context.get(services, Erasures)
  const violations: Array<string> = []
  const begun: Array<string> = []
  const secrets: Array<string> = []

  /** Does a piece of work again until it succeeds: each may be repeated. */
  const timed = Effect.fnUntraced(function* <A, E extends { readonly _tag: string }>(
    kind: string,
    work: Effect.Effect<A, E>
  ) {
    for (;;) {
      const at = performance.now()
      const exit = yield* Effect.exit(work)
      const outcome = outcomeOf(exit)
      load.exchanges.push({ kind, at, millis: performance.now() - at, outcome })
      if (Exit.isSuccess(exit)) return exit.value
      yield* Effect.sleep(1000)
    }
  })

  const exported = Effect.suspend(() => {
    const texts: Array<string> = []
    const write = (text: string) => Effect.sync(() => void texts.push(text))
    return Effect.map(transfer.save(source, write), (counts) => ({ counts, text: texts.join("") }))
  })
  const imported = (project_id: string, text: string) =>
    transfer.load(project_id, Stream.fromIterable([Buffer.from(text)]))

  const furnished = Effect.fnUntraced(function* (project_id: string) {
    yield* (yield* Bridge.make(on, { project_id })).enroll(on)
    const agent = yield* Agent.make(on, { project_id })
    yield* agent.note(`${marker} of a project that will be erased`)
    const task = yield* agent.task(`${marker} to do`)
    const { token } = yield* makeToken(on, { project_id, label: "Ada" })
    yield* new Person(on.url, on.url).signIn(token)
    const bells = yield* makeBells({ on, project_id }, weather)
    yield* agent.update(task, { status: "blocked", blocked_reason: marker, blocked_kind: "other" })
    secrets.push(agent.token, token, ...bells.secrets)
  })

  const turn = Effect.gen(function* () {
    const { counts, text } = yield* timed("export", exported)
    const project_id = yield* timed("project", makeProject(on))
    begun.push(project_id)
    const first = yield* timed("import", imported(project_id, text))
    const again = yield* timed("import", imported(project_id, text))
    if (JSON.stringify(first) !== JSON.stringify(counts)) violations.push("an import lacks rows of its export")
    if (Object.values(again).some((count) => count !== 0)) violations.push("an import that was repeated added rows")
    yield* timed("furnish", furnished(project_id))
    yield* timed("disable", projects.disable(project_id))
    const { deleted_at } = yield* timed("erase", erasures.deleteProject(project_id, "now"))
    if (deleted_at === null) violations.push("a project was not erased")
    yield* load.rest(rest)
  })

  /** What is left of them. The audit log and tombstones keep the id, and no text. Every word of every table is read. */
  const settled = Effect.gen(function* () {
    const tables = yield* query<{ readonly name: string }>(`
      select relname as name
        from pg_class
       where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition`)
    for (const { name } of tables) {
      const keepsId = name === "project" || name === "erasure" || name.startsWith("audit")
      const pattern = [marker, ...(keepsId ? [] : begun)].join("|")
      const [row] = yield* query<{ readonly n: number }>(
        `select count(*)::int as n from "${name}" t where t::text ~ '${pattern}'`
      )
      if (row!.n > 0) violations.push(`${row!.n} rows of erased projects are left in ${name}`)
    }
  })

  return {
    turns: [load.again(() => turn)],
    violations,
    settled,
    figures: () => ({ projects_imported_and_erased: begun.length }),
    secrets: () => secrets
  }
}

/** A dedicated connection says by itself that the database cannot be reached; what needs an answer fails without one. */
const outcomeOf = (exit: Exit.Exit<unknown, { readonly _tag: string }>) => {
  if (Exit.isSuccess(exit)) return "200"
  const tag = Option.match(Exit.findErrorOption(exit), { onNone: () => undefined, onSome: ({ _tag }) => _tag })
  if (tag === undefined) return "no answer"
  return tag === "bridge_persistence_error" || tag === "DatabaseUnreachable"
    ? "503 bridge_persistence_error"
    : `failed ${tag}`
}
