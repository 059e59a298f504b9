/**
 * Resources, which clients show as mentions: pinned documents, entries of memory and tasks (decisions.md, Prompts and
 * resources). Listing, reading and completing one is a call of the tool that does the same, with its scopes and limits.
 */
import type { CallToolResult } from "@modelcontextprotocol/server"
import type { Scope } from "../../wire/Scopes.ts"
import { type ToolName, tools } from "./Tools.ts"

/** Runs a tool of this request. */
type Call = (name: ToolName, given: Readonly<Record<string, unknown>>) => Promise<CallToolResult>

interface Kind {
  /** What stands before `://` in its address. */
  readonly scheme: string
  /** The name of the address's variable, and the parameter of the tool that reads it. */
  readonly parameter: string
  readonly title: string
  readonly description: string
  readonly reads: ToolName
  readonly lists: ToolName
  readonly listing: Readonly<Record<string, unknown>>
  /** The list in the result of `lists`. */
  readonly items: string
  /** Where `search` looks for it. */
  readonly source: string
}

/** Items of a list that are shown; all others have their address by the template. */
const newest = 25
/** Bytes of a document that a client reads at once; git_document_get reads on. */
const fragment = 32_768

const kinds: ReadonlyArray<Kind> = [
  {
    scheme: "doc",
    parameter: "document_id",
    title: "Pinned document",
    description: "A document that the operator pinned; the first 32 KiB",
    reads: "git_document_get",
    lists: "runtime_bootstrap_get",
    listing: {},
    items: "documents",
    source: "documents"
  },
  {
    scheme: "task",
    parameter: "id",
    title: "Task",
    description: "A task with its last receipts and notes",
    reads: "task_get",
    lists: "task_list",
    listing: { status: ["open", "in_progress", "blocked"], order: "updated", limit: newest },
    items: "tasks",
    source: "tasks"
  },
  {
    scheme: "memory",
    parameter: "id",
    title: "Entry of memory",
    description: "A note or a decision with its whole text",
    reads: "memory_get",
    lists: "memory_search",
    listing: { limit: newest },
    items: "entries",
    source: "memory"
  }
]

const usable = (scopes: ReadonlySet<Scope>) =>
  kinds.filter(({ lists }) => tools[lists].needs.every((scope) => scopes.has(scope)))

export const templatesFor = (scopes: ReadonlySet<Scope>) =>
  usable(scopes).map(({ description, parameter, scheme, title }) => ({
    uriTemplate: `${scheme}://{${parameter}}`,
    name: scheme,
    title,
    description,
    mimeType: scheme === "doc" ? "text/plain" : "application/json"
  }))

/** The tool that reads an address, with its arguments; undefined for an address of another form. */
export const readerOf = (uri: string): readonly [ToolName, Readonly<Record<string, unknown>>] | undefined => {
  const [, scheme, id] = /^([a-z]{1,8}):\/\/([^/?#]{1,64})$/.exec(uri) ?? []
  const kind = kinds.find((one) => one.scheme === scheme)
  if (kind === undefined) return undefined
  return [kind.reads, { [kind.parameter]: id, ...(kind.scheme === "doc" ? { max_bytes: fragment } : undefined) }]
}

/** A result that is no error. */
type Output = Readonly<Record<string, any>>

/** What is read at an address: the notice and the text of a document, and of everything else the tool's result as JSON. */
export const contentsOf = (uri: string, output: Output) =>
  uri.startsWith("doc:")
    ? {
        uri,
        mimeType: "text/plain",
        text: [`[${output["notice"]}]`, output["text"], ...(output["eof"] === true ? [] : [more(output)])].join("\n")
      }
    : { uri, mimeType: "application/json", text: JSON.stringify(output) }

const more = ({ document_id, next_offset }: Output) =>
  `[The document goes on: git_document_get with document_id ${document_id} and offset ${next_offset}.]`

/** What the credential can list: pinned documents, and the tasks and entries that changed last. */
export const resourcesFor = async (
  scopes: ReadonlySet<Scope>,
  call: Call,
  outputOf: (of: CallToolResult) => Output
) => {
  const listed = []
  for (const kind of usable(scopes)) {
    const output = outputOf(await call(kind.lists, kind.listing))
    for (const item of output[kind.items]) {
      listed.push({
        uri: `${kind.scheme}://${item.document_id ?? item.id}`,
        name: item.title,
        title: item.title,
        mimeType: kind.scheme === "doc" ? "text/plain" : "application/json",
        ...(item.excerpt === undefined ? undefined : { description: item.excerpt }),
        ...(item.size_bytes === undefined ? undefined : { size: item.size_bytes })
      })
    }
  }
  return listed
}

/** Ids of items whose title or text has what was typed, the best first; without text those that `resourcesFor` lists. */
export const completionOf = async (
  scopes: ReadonlySet<Scope>,
  template: string,
  typed: string,
  call: Call,
  outputOf: (of: CallToolResult) => Output
): Promise<ReadonlyArray<string> | undefined> => {
  const kind = usable(scopes).find(({ parameter, scheme }) => template === `${scheme}://{${parameter}}`)
  if (kind === undefined) return undefined
  if (typed.trim() === "" || !tools.search.needs.every((scope) => scopes.has(scope))) {
    const output = outputOf(await call(kind.lists, kind.listing))
    return output[kind.items].map((item: Output) => item["document_id"] ?? item["id"])
  }
  const query = typed.slice(0, 200)
  const { hits } = outputOf(await call("search", { query, in: [kind.source], limit: newest }))
  return hits.map(({ id }: Output) => id)
}
