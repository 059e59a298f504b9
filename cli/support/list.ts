/**
 * The frame of a command that prints a list: for people one page, for programs all of it.
 *
 * Rows are read in pages of at most a thousand, each with one statement that an index answers, and with --json each page
 * is printed before the next is read: memory and statements stay small, however long the list. If a later page cannot be
 * read, stdout ends in the middle of the object and the exit code says so.
 */
import { Console, Effect, Option } from "effect"
import { Command, Flag } from "effect/cli"
import type { Page } from "../../src/platform/sql/Page.ts"
import { using } from "./command.ts"
import { Json, stdoutClosed } from "./frame.ts"
import * as Flags from "./Flags.ts"
import { next, printed, table } from "./Print.ts"
import { visible } from "./visible.ts"
import { shellWord } from "../../src/operator/ShellWord.ts"
import { withWholeIds } from "./wholeIds.ts"
import type { Services } from "./Services.ts"

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
  const paging = {
    limit: Flags.count("limit", most, `Maximum number of items (default: ${shown}, with --json all)`).pipe(
      Flag.optional
    ),
    after: parts.after.pipe(Flag.withDescription("Continue after this item"), Flag.optional)
  }

  /** Gives `each` page after page, up to `limit` items. Returns the last key if the list goes on. */
  const pages = Effect.fnUntraced(function* (
    services: Services,
    flags: Command.Command.Config.Infer<Own>,
    from: { readonly after: string | undefined; readonly limit: number },
    each: (items: ReadonlyArray<Item>) => void
  ) {
    let { after, limit: left } = from
    let more = true
    let recorded = parts.recorded === undefined
    while (more && left > 0) {
      const size = Math.min(left, pageSize)
      const found = yield* parts.page(services, flags, { after, limit: size + 1 })
      if (!recorded) yield* services.recorded(parts.recorded!, projectOf(flags))
      recorded = true
      const items = found.slice(0, size)
      each(items)
      more = found.length > size
      left -= size
      const last = items.at(-1)
      if (last !== undefined) after = String(last[parts.key])
    }
    return more ? after : undefined
  })

  const run = Effect.fnUntraced(function* (
    typedFlags: Command.Command.Config.Infer<Own> & {
      readonly limit: Option.Option<number>
      readonly after: Option.Option<string>
    }
  ) {
    const given = yield* withWholeIds(typedFlags)
    const from = Option.getOrUndefined(given.after)
    if (yield* Json) {
      const limit = Option.getOrElse(given.limit, () => Infinity)
      let before = `{"items":[`
      const print = (items: ReadonlyArray<Item>) => {
        process.stdout.write(visible(before + items.map((item) => JSON.stringify(item)).join(",")))
        before = ","
      }
      const after = yield* using((services) =>
        Effect.raceFirst(pages(services, given, { after: from, limit }, print), stdoutClosed)
      )
      return yield* Console.log(after === undefined ? "]}" : `],"after":${visible(JSON.stringify(after))}}`)
    }
    const items: Array<Item> = []
    const limit = Option.getOrElse(given.limit, () => shown)
    const after = yield* using((services) =>
      pages(services, given, { after: from, limit }, (page) => void items.push(...page))
    )
    const again = after === undefined ? parts.next(items, given) : `${name}${typed({ ...given, after })}`
    const lines = table(items, parts.columns, from === undefined ? parts.none : "No more items.")
    yield* Console.log(printed([...lines, next(again, after === undefined ? "" : "the list goes on")]))
  })

  return Command.make(name, { ...parts.flags, ...paging }, (given) => run(given as Parameters<typeof run>[0])).pipe(
    Command.withDescription(parts.description)
  )
}

const projectOf = (flags: unknown) => {
  const { project } = flags as { readonly project?: string | Option.Option<string> }
  return Option.isOption(project) ? Option.getOrNull(project) : (project ?? null)
}

/** Flags as they are typed. */
const typed = (flags: object) =>
  Object.entries(flags)
    .flatMap(([name, value]) =>
      (Option.isOption(value) ? Option.toArray(value) : [value]).flat().map((one: unknown) => [name, one] as const)
    )
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => ` --${name} ${shellWord(value instanceof Date ? value.toISOString() : String(value))}`)
    .join("")
