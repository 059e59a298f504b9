/** What the list of tools costs a model: tokens of four characters, of the JSON without the schemas of results. */
import { Struct } from "effect"
import { lists } from "../../../src/agents/mcp/ToolList.ts"

const tokens = (tools: (typeof lists)[keyof typeof lists]) =>
  Math.ceil(JSON.stringify(tools.map((tool) => Struct.omit(tool, ["outputSchema"]))).length / 4)

export const toolCost = { contributor: tokens(lists.contributor), reader: tokens(lists.reader) }
