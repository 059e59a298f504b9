/**
 * What every page of the console says, as words.txt keeps it: text, links, buttons, and what fields hold. After a change that
 * is meant, `npx vitest run test/people/console/words.test.ts -u` writes it anew; read what differs.
 */
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Option } from "effect"
import { SqlClient } from "effect/sql"
import { join } from "node:path"
import { Bridges } from "../../../src/bridges/identity/Bridges.ts"
import { Projects } from "../../../src/operator/projects/Projects.ts"
import { CurrentOperator } from "../../../src/platform/settings/Operator.ts"
import { makeToken } from "../../support/agents/Agent.ts"
import { csrfOf, makeEquippedProject, makeOperator, namesOf, Person, withoutIds } from "../../support/people/Console.ts"
import { assertKept } from "../../support/run/Kept.ts"
import { Service } from "../../support/service/Service.ts"

/** A line for each block of a page, and one for each row of a list; the order of rows that came at once is left to chance. */
const linesOf = (page: string, names: ReadonlyMap<string, string>): ReadonlyArray<string> => {
  const field = (given: string) => {
    const [name, value] = ["name", "value"].map((of) => new RegExp(` ${of}="([^"]*)"`).exec(given)?.[1] ?? "")
    return name === "csrf" ? " " : ` [${name}=${value}${/ checked/.test(given) ? ", chosen" : ""}] `
  }
  const text = /<main[^]*<\/main>/
    .exec(page)![0]
    .replaceAll(/\s+/g, " ")
    .replaceAll(/<svg[^>]* aria-label="([^"]*)"/g, " [$1] $&")
    .replaceAll(/<rect class="used" width="([^"]*)"/g, " [$1 % used] $&")
    .replaceAll(/<span class="mark (\w+)">/g, " $1: ")
    .replaceAll(/<a [^>]*href="([^"]*)"[^>]*>/g, " ($1) ")
    .replaceAll(/<input( [^>]*)>/g, (_, given: string) => field(given))
    .replaceAll(/<option [^>]*selected>/g, " * ")
    .replaceAll(/<button([^>]*)>/g, (_, given: string) => ` [button ${/ value="([^"]*)"/.exec(given)?.[1] ?? "-"}] `)
    .replaceAll("<li", "\n- <li")
    .replaceAll(/<(?:h\d|section|form|summary|figure)|<\/ul|<div class="two/g, "\n$&")
    .replaceAll(/<li[^]*?<\/li>/g, (row) => row.replaceAll("\n", " | "))
    .replaceAll(/<[^>]*>/g, " ")
  const lines = withoutIds(text, names)
    .split("\n")
    .map((line) => line.replaceAll(/ +/g, " ").trim())
  const isRow = (line: string) => line.startsWith("- ")
  return lines
    .filter((line) => line !== "")
    .reduce<Array<Array<string>>>((groups, line) => {
      const last = groups.at(-1)
      if (last !== undefined && isRow(last[0]!) && isRow(line)) last.push(line)
      else groups.push([line])
      return groups
    }, [])
    .flatMap((group) => group.toSorted())
}

layer(Service.layer)("the console", (it) => {
  it.effect("says on each page what words.txt keeps", () =>
    Effect.gen(function* () {
      const service = yield* Service
      const { services, url } = service
      const made = yield* makeEquippedProject(service)
      const { project_id } = made
      const projects = Context.get(services, Projects)
      yield* projects.approveReference(project_id, "gitlab:pat", Option.some("Pat"))
      yield* projects.approveReference(project_id, "gitlab:old", Option.none())
      yield* projects.withdrawReference(project_id, "gitlab:old")
      yield* Context.get(services, Bridges).grantAccess(project_id, "bridge-lighthouse", "reader")
      yield* Context.get(services, Bridges).revoke(project_id, "bridge-pier")
      const sql = yield* SqlClient.SqlClient
      yield* sql`
        insert into push_provider_state (provider, environment, paused_until, reason, failures)
        select 'apns', 'production', created_at + interval '10 minutes', 'ServiceUnavailable', 3
          from oauth_grant where grant_id = ${made.grant_id}::uuid`

      const home = `/console/${project_id}`
      const person = new Person(url)
      yield* person.signIn(made.token)
      const colour = yield* made.agent.task("Pick a colour", { tags: ["paint"] })
      const asked = yield* made.agent.update(colour, { status: "blocked", blocked_kind: "decision" })
      const form = { csrf: csrfOf(yield* person.get(home)), version: String(asked.output.task.version), text: "Blue" }
      yield* person.post(`${home}/tasks/${colour.id}`, { ...form, action: "answer" })
      const reader = new Person(url)
      yield* reader.signIn((yield* makeToken(service, { project_id, label: "Rae", role: "reader" })).token)
      const empty = yield* makeToken(service, { label: "Noa" })
      const newcomer = new Person(url)
      yield* newcomer.signIn(empty.token)
      const { code, person: operator } = yield* makeOperator(service)
      yield* operator.post("/console/enter", { code })

      const task = `${home}/tasks/${made.task_id}`
      const pages = [
        [person, home],
        [person, `${home}/tasks`],
        [person, `${home}/tasks?status=all&order=updated`],
        [person, `${home}/tasks?view=board`],
        [person, task],
        [person, `${home}/tasks/${made.dependent_id}`],
        [person, `${home}/tasks/${made.finished_id}`],
        [person, `${home}/tasks/${colour.id}`],
        [person, `${home}/memory`],
        [person, `${home}/memory?query=pipeline&kind=decision`],
        [person, `${home}/memory/${made.entry_id}`],
        [person, `${home}/memory/${made.former_id}`],
        ...["documents", "bridges", "agents", "phones", "activity"].map((of) => [person, `${home}/${of}`] as const),
        [person, "/console/keys"],
        [person, "/console/apps"],
        [person, `${home}/tasks?tag=nowhere`],
        [person, `${home}/memory?query=nowhere`],
        [person, `${home}/activity?kind=refused`],
        [reader, home],
        [reader, task],
        [reader, `${home}/phones`],
        ...["", "/tasks", "/memory", "/documents", "/bridges", "/agents", "/phones"].map(
          (of) => [newcomer, `/console/${empty.project_id}${of}`] as const
        ),
        [newcomer, "/console/apps"],
        ...["documents", "bridges", "agents", "phones", "limits", "activity"].map(
          (of) => [operator, `${home}/${of}`] as const
        ),
        ...["projects", "bridges", "access", "push"].map((of) => [operator, `/console/${of}`] as const)
      ] as const
      const names = namesOf({ ...made, colour_id: colour.id as string, empty_id: empty.project_id })
      const who = new Map([
        [person, "Ada"],
        [reader, "Rae, who reads"],
        [newcomer, "Noa, who is new"],
        [operator, "an operator"]
      ])
      const words = yield* Effect.forEach(pages, ([by, path]) =>
        Effect.map(by.get(path), ({ status, text }) => {
          assert.strictEqual(status, 200, path)
          return [`${withoutIds(path, names)}, for ${who.get(by)}`, ...linesOf(text, names)].join("\n")
        })
      )
      yield* assertKept(`${words.join("\n\n")}\n`, join(import.meta.dirname, "words.txt"))
    }).pipe(Effect.provideService(CurrentOperator, "operator:grace@host"), Effect.scoped)
  )
})
