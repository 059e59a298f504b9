/**
 * The frame of a command that prints a list: for people one page, for programs all of it.
 *
 * Rows are read in pages of at most a thousand, each with one statement that an index answers, and with --json each page
 * is printed before the next is read: memory and statements stay small, however long the list. If a later page cannot be
 * read, stdout ends in the middle of the object and the exit code says so.
 */
import { Console, Effect, Option } from "effect"
import { Command, Flag } from "effect/cli"
import type { Page } from "../../../src/platform/sql/Page.ts"
import { HeldServices } from "../services/HeldServices.ts"
import { Json, type RemoteFailure, stdoutClosed } from "./frame.ts"
import { using } from "../services/using.ts"
import * as Flags from "../Flags.ts"
import { next, nextOnServer, printed, table, Write } from "../terminal/Print.ts"
import { remoteTarget, sender } from "../remote/remotely.ts"
import { localCommands, RemoteUse } from "../remote/RemoteUse.ts"
import type { Target } from "../remote/Target.ts"
import { visible } from "../terminal/visible.ts"
import { shellWord } from "../../../src/operator/ShellWord.ts"
import { withWholeIds } from "../wholeIds.ts"
import type { Services } from "../services/Services.ts"

const pageSize = 1000
const shown = 100

export const list = <
  const Name extends string,
  const Own extends Readonly<Record<string, Flag.Flag<unknown>>>,
  Item extends object,
  E
>(
  name: Name,
  parts: {
    readonly description: string
    readonly flags: Own
    /** False for a list that only the machine with the database shows. */
    readonly remote?: false
    /** The audit action of a list of those who hold secrets of the project, or of the service. */
    readonly recorded?: string
    /** The flag --after, which takes the `key` of an item. */
    readonly after: Flag.Flag<string>
    readonly key: keyof Item & string
    /** Largest --limit. */
    readonly most?: number
    readonly page: (
      services: Services,
      flags: Command.Command.Config.Infer<Own>,
      page: Page
    ) => Effect.Effect<ReadonlyArray<Item>, E>
    readonly columns: ReadonlyArray<keyof Item & string>
    /** The line for an empty list. */
    readonly none: string
    /** The command to type next, at the end of the list; for an empty list one that creates. */
    readonly next: (items: ReadonlyArray<Item>, flags: Command.Command.Config.Infer<Own>) => string
  }
) => {
  const { most = pageSize } = parts
  const use = parts.remote === false ? undefined : "read"
  if (use === undefined) localCommands.add(name)
  const paging = {
    limit: Flags.count("limit", most, `Maximum number of items (default: ${shown}, with --json all)`).pipe(
      Flag.optional
    ),
    after: parts.after.pipe(Flag.withDescription("Continue after this item"), Flag.optional)
  }

  type Typed = Command.Command.Config.Infer<Own> & {
    readonly limit: Option.Option<number>
    readonly after: Option.Option<string>
  }

  /** Items after a key, and whether the list goes on. */
  type Source = (
    after: string | undefined,
    size: number
  ) => Effect.Effect<{ readonly items: ReadonlyArray<Item>; readonly more: boolean }, RemoteFailure>

  /** Gives `each` page after page, up to `limit` items. Returns the last key if the list goes on. */
  const pages = Effect.fnUntraced(function* (
    source: Source,
    from: { readonly after: string | undefined; readonly limit: number },
    each: (items: ReadonlyArray<Item>) => void
  ) {
    let { after, limit: left } = from
    let more = true
    while (more && left > 0) {
      const size = Math.min(left, pageSize)
      const found = yield* source(after, size)
      each(found.items)
      more = found.more
      left -= size
      const last = found.items.at(-1)
      if (last !== undefined) after = String(last[parts.key])
    }
    return more ? after : undefined
  })

  /** The rows of the database here. The first page is recorded. */
  const local = (services: Services, flags: Typed): Source => {
    let recorded = parts.recorded === undefined
    return Effect.fnUntraced(function* (after, size) {
      const found = yield* parts.page(services, flags, { after, limit: size + 1 })
      if (!recorded) yield* services.recorded(parts.recorded!, projectOf(flags))
      recorded = true
      return { items: found.slice(0, size), more: found.length > size }
    }) as Source
  }

  const remote = (target: Target, flags: Typed): Source => {
    const send = sender(target, name, flags)
    return (after, size) =>
      Effect.map(send({ limit: size, ...(after !== undefined && { after }) }), (answer) => {
        const { after, items } = answer as { readonly items: ReadonlyArray<Item>; readonly after?: string }
        return { items, more: after !== undefined }
      })
  }

  const run = Effect.fnUntraced(function* (typedFlags: Typed) {
    const target = yield* remoteTarget(name, use)
    const given = target === undefined ? yield* withWholeIds(typedFlags) : typedFlags
    const reading = <A>(work: (source: Source) => Effect.Effect<A, RemoteFailure>) =>
      target === undefined ? using((services) => work(local(services, given))) : work(remote(target, given))
    const from = Option.getOrUndefined(given.after)
    if (yield* Json) {
      // An answer to an operator elsewhere is one page; the caller asks for the next.
      const most = (yield* HeldServices) === undefined ? Infinity : pageSize
      const limit = Math.min(
        most,
        Option.getOrElse(given.limit, () => Infinity)
      )
      const write = yield* Write
      let before = `{"items":[`
      const print = (items: ReadonlyArray<Item>) => {
        write(visible(before + items.map((item) => JSON.stringify(item)).join(",")))
        before = ","
      }
      const after = yield* reading((source) =>
        Effect.raceFirst(pages(source, { after: from, limit }, print), stdoutClosed)
      )
      return yield* Console.log(after === undefined ? "]}" : `],"after":${visible(JSON.stringify(after))}}`)
    }
    const items: Array<Item> = []
    const limit = Option.getOrElse(given.limit, () => shown)
    const after = yield* reading((source) => pages(source, { after: from, limit }, (page) => void items.push(...page)))
    const again =
      after === undefined ? withoutOnly(parts.next(items, quoted(given))) : `${name}${typed({ ...given, after })}`
    const lines = table(items, parts.columns, from === undefined ? parts.none : "No more items.")
    const isElsewhere = target !== undefined && localCommands.has(again.split(" ")[0]!)
    const last = isElsewhere ? nextOnServer(again) : next(again, after === undefined ? "" : "the list goes on")
    yield* Console.log(printed([...lines, last]))
  })

  return Command.make(name, { ...parts.flags, ...paging }, (given) => run(given as Typed)).pipe(
    Command.withDescription(parts.description),
    Command.annotate(RemoteUse, use)
  )
}

const projectOf = (flags: unknown) => {
  const { project } = flags as { readonly project?: string | Option.Option<string> }
  return Option.isOption(project) ? Option.getOrNull(project) : (project ?? null)
}

/** From elsewhere a project is what was typed: perhaps a name of several words. */
const quoted = <Flags extends object>(flags: Flags): Flags =>
  "project" in flags && typeof flags.project === "string" && flags.project !== Flags.onlyProject
    ? { ...flags, project: shellWord(flags.project) }
    : flags

/** From elsewhere the only project is not known by its id. It needs no flag. */
const withoutOnly = (command: string) => command.replace(/ --project (?= |$)/, "")

/** Flags as they are typed. */
const typed = (flags: object) =>
  Object.entries(flags)
    .flatMap(([name, value]) =>
      (Option.isOption(value) ? Option.toArray(value) : [value]).flat().map((one: unknown) => [name, one] as const)
    )
    .filter(([, value]) => value !== undefined && value !== Flags.onlyProject)
    .map(([name, value]) => ` --${name} ${shellWord(value instanceof Date ? value.toISOString() : String(value))}`)
    .join("")
